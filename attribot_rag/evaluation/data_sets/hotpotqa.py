"""HotpotQA, distractor setting: https://hotpotqa.github.io, hotpot_dev_distractor_v1.json."""

from __future__ import annotations

from attribot_rag.context import Document, DocumentSpan
from attribot_rag.errors import InvalidInput
from attribot_rag.evaluation.data_sets.fields import Field
from attribot_rag.evaluation.example import Example


def hotpotqa(data: Field) -> list[Example]:
    """Sentences as the data set has them, in titled paragraphs; evidence: the supporting ones.

    As AttriBoT prepares it: every paragraph is a group, and titles do not stand in the prompt.
    """
    return [_example(one) for one in data]


def _example(one: Field) -> Example:
    paragraphs = [_paragraph(pair) for pair in one["context"]]
    places = {
        (title, index): DocumentSpan(document, start, end)
        for document, (title, sentences) in enumerate(paragraphs)
        for index, (start, end) in enumerate(_spans(sentences))
    }
    supporting = [_fact(fact) for fact in one["supporting_facts"]]
    return Example(
        key=f"hotpotqa/{one['_id'].text}",
        question=one["question"].text,
        documents=tuple(
            Document("".join(sentences), id=title, metadata={"title": title})
            for title, sentences in paragraphs
        ),
        pieces=tuple(sentences for _, sentences in paragraphs),
        # A few of its marks name a sentence that is not there.
        evidence=tuple(places[fact] for fact in supporting if fact in places),
    )


def _fact(fact: Field) -> tuple[str, int]:
    if len(fact.of(list)) != 2:
        raise InvalidInput(f"{fact.place}: it is no pair of a title and a sentence's number")
    title, index = fact
    return title.text, index.number


def _paragraph(pair: Field) -> tuple[str, tuple[str, ...]]:
    if len(pair.of(list)) != 2:
        raise InvalidInput(f"{pair.place}: it is no pair of a title and its sentences")
    title, sentences = pair
    return title.text, tuple(sentence.text for sentence in sentences)


def _spans(sentences: tuple[str, ...]) -> list[tuple[int, int]]:
    spans, end = [], 0
    for sentence in sentences:
        spans.append((end, end + len(sentence)))
        end += len(sentence)
    return spans
