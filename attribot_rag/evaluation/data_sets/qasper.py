"""QASPER: https://allenai.org/data/qasper, qasper-train-v0.3.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from attribot_rag.context import Document, DocumentSpan
from attribot_rag.evaluation.data_sets.validation import Text, validated
from attribot_rag.evaluation.example import Example

MAX_PARAGRAPHS = 60


class _Section(BaseModel):
    section_name: Text | None = None
    paragraphs: list[Text]


class _Evidence(BaseModel):
    evidence: list[Text] | None = None


class _Answer(BaseModel):
    answer: _Evidence


class _Question(BaseModel):
    question_id: Text
    question: Text
    answers: list[_Answer]


class _Paper(BaseModel):
    full_text: list[_Section]
    qas: list[_Question]


def qasper(data: Any, place: str) -> list[Example]:
    """The questions on papers of at most 60 paragraphs.

    As AttriBoT prepares it: paragraphs are the sources, sections the groups, preceded by their
    names. Evidence are the annotators' paragraphs. Raises InvalidInput with the place of a wrong
    field.
    """
    papers = validated(dict[Text, _Paper], data, place).values()
    return [example for paper in papers for example in _examples(paper)]


def _examples(paper: _Paper) -> Iterator[Example]:
    sections = [
        (
            section.section_name or "",
            tuple(f"{text} " for text in section.paragraphs if text.strip()),
        )
        for section in paper.full_text
    ]
    sections = [(name, paragraphs) for name, paragraphs in sections if paragraphs]
    if not 0 < sum(len(paragraphs) for _, paragraphs in sections) <= MAX_PARAGRAPHS:
        return
    documents = tuple(
        Document("".join(paragraphs), id=name, metadata={"heading": name})
        for name, paragraphs in sections
    )
    for question in paper.qas:
        marked = {
            text.strip() for answer in question.answers for text in answer.answer.evidence or ()
        }
        yield Example(
            key=f"qasper/{question.question_id}",
            question=question.question,
            documents=documents,
            source_texts=tuple(paragraphs for _, paragraphs in sections),
            evidence=tuple(_spans(sections, marked)),
        )


def _spans(sections: list[tuple[str, tuple[str, ...]]], marked: set[str]) -> Iterator[DocumentSpan]:
    for document, (_, paragraphs) in enumerate(sections):
        start = 0
        for paragraph in paragraphs:
            if paragraph.strip() in marked:
                yield DocumentSpan(document, start, start + len(paragraph))
            start += len(paragraph)
