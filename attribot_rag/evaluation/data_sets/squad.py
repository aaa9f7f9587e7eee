"""SQuAD 2.0: https://rajpurkar.github.io/SQuAD-explorer, dev-v2.0.json."""

from __future__ import annotations

from collections.abc import Iterator

from attribot_rag.context import Document, DocumentSpan
from attribot_rag.evaluation.data_sets.fields import Field
from attribot_rag.evaluation.example import Example


def squad(data: Field, num_paragraphs: int = 10) -> list[Example]:
    """Answerable questions whose answer lies in the first paragraphs of an article.

    As AttriBoT prepares it: the context is those paragraphs, each a group of sentences. Evidence:
    the answers that people marked.
    """
    return [one for article in data["data"] for one in _examples(article, num_paragraphs)]


def _examples(article: Field, num_paragraphs: int) -> Iterator[Example]:
    title = article["title"].text
    paragraphs = list(article["paragraphs"])[:num_paragraphs]
    documents = tuple(
        Document(paragraph["context"].text, id=f"{title} {number}", metadata={"title": title})
        for number, paragraph in enumerate(paragraphs)
    )
    for number, paragraph in enumerate(paragraphs):
        for question in paragraph["qas"]:
            impossible = question.get("is_impossible")
            if impossible is None or not impossible.of(bool):
                yield Example(
                    key=f"squad/{question['id'].text}",
                    question=question["question"].text,
                    documents=documents,
                    evidence=tuple(_marked(question["answers"], number)),
                )


def _marked(answers: Field, document: int) -> dict[DocumentSpan, None]:
    """Each once: several people may have marked the same."""
    spans = ((one["answer_start"].number, len(one["text"].text)) for one in answers)
    return dict.fromkeys(DocumentSpan(document, start, start + length) for start, length in spans)
