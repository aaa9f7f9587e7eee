"""SQuAD 2.0: https://rajpurkar.github.io/SQuAD-explorer, dev-v2.0.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, StrictBool, StrictInt

from attribot_rag.context import Document, DocumentSpan
from attribot_rag.evaluation.data_sets.validation import Text, validated
from attribot_rag.evaluation.example import Example


class _Answer(BaseModel):
    text: Text
    answer_start: StrictInt


class _Question(BaseModel):
    id: Text
    question: Text
    answers: list[_Answer]
    is_impossible: StrictBool | None = None


class _Paragraph(BaseModel):
    context: Text
    qas: list[_Question]


class _Article(BaseModel):
    title: Text
    paragraphs: list[_Paragraph]


class _File(BaseModel):
    data: list[_Article]


def squad(data: Any, place: str, num_paragraphs: int = 10) -> list[Example]:
    """The answerable questions whose answer lies in the first paragraphs of an article.

    As AttriBoT prepares it: the context is these paragraphs, each a group of sentences. Evidence
    are the annotators' answers. Raises InvalidInput with the place of a wrong field.
    """
    articles = validated(_File, data, place).data
    return [example for article in articles for example in _examples(article, num_paragraphs)]


def _examples(article: _Article, num_paragraphs: int) -> Iterator[Example]:
    paragraphs = article.paragraphs[:num_paragraphs]
    documents = tuple(
        Document(
            paragraph.context, id=f"{article.title} {number}", metadata={"title": article.title}
        )
        for number, paragraph in enumerate(paragraphs)
    )
    for number, paragraph in enumerate(paragraphs):
        for question in paragraph.qas:
            if not question.is_impossible:
                spans = (
                    DocumentSpan(number, start, start + len(answer.text))
                    for answer in question.answers
                    for start in [answer.answer_start]
                )
                yield Example(
                    key=f"squad/{question.id}",
                    question=question.question,
                    documents=documents,
                    evidence=tuple(dict.fromkeys(spans)),  # annotators may agree
                )
