"""QASPER: https://allenai.org/data/qasper, qasper-train-v0.3.json."""

from __future__ import annotations

from collections.abc import Iterator

from attribot_rag.context import Document, DocumentSpan
from attribot_rag.evaluation.data_sets.fields import Field
from attribot_rag.evaluation.example import Example

MAX_PARAGRAPHS = 60


def qasper(data: Field) -> list[Example]:
    """Questions on papers of at most 60 paragraphs.

    As AttriBoT prepares it: paragraphs are the sources, sections the groups, whose names stand
    before them. Evidence: the paragraphs that people marked.
    """
    papers = (Field(paper, f"{data.place}.{name}") for name, paper in data.of(dict).items())
    return [one for paper in papers for one in _examples(paper)]


def _examples(paper: Field) -> Iterator[Example]:
    sections = [
        (_name(section), tuple(f"{one.text} " for one in section["paragraphs"] if one.text.strip()))
        for section in paper["full_text"]
    ]
    sections = [(name, paragraphs) for name, paragraphs in sections if paragraphs]
    if not 0 < sum(len(paragraphs) for _, paragraphs in sections) <= MAX_PARAGRAPHS:
        return
    documents = tuple(
        Document("".join(paragraphs), id=name, metadata={"heading": name})
        for name, paragraphs in sections
    )
    for question in paper["qas"]:
        answers = (one["answer"] for one in question["answers"])
        marked = {text.text.strip() for answer in answers for text in answer.get("evidence") or ()}
        yield Example(
            key=f"qasper/{question['question_id'].text}",
            question=question["question"].text,
            documents=documents,
            pieces=tuple(paragraphs for _, paragraphs in sections),
            evidence=tuple(_spans(sections, marked)),
        )


def _name(section: Field) -> str:
    """A few sections have no name."""
    name = section.get("section_name")
    return "" if name is None else name.text


def _spans(sections: list[tuple[str, tuple[str, ...]]], marked: set[str]) -> Iterator[DocumentSpan]:
    for document, (_, paragraphs) in enumerate(sections):
        start = 0
        for paragraph in paragraphs:
            if paragraph.strip() in marked:
                yield DocumentSpan(document, start, start + len(paragraph))
            start += len(paragraph)
