"""The public formats of data sets, prepared as AttriBoT does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from pydantic import BaseModel, Field, StrictBool, StrictInt

from attribot_rag.context import Document, DocumentSpan
from benchmarks.experiment.data_sets.validation import Text, validated
from benchmarks.experiment.example import Example

MAX_PARAGRAPHS = 60  # of a paper
NUM_PARAGRAPHS = 10  # of an article


class _HotpotQAQuestion(BaseModel):
    id: Text = Field(alias="_id")
    question: Text
    context: list[tuple[Text, list[Text]]]  # title, sentences
    supporting_facts: list[tuple[Text, StrictInt]]  # title, index of the sentence


def hotpotqa(data: Any, place: str) -> list[Example]:
    """The examples in HotpotQA's file: the data set's sentences, in titled paragraphs.

    https://hotpotqa.github.io, distractor setting, hotpot_dev_distractor_v1.json. Every paragraph
    is a group, and titles are not in the prompt. Evidence are the supporting sentences. Raises
    InvalidInput with the place of a wrong field.
    """
    return [_of_question(question) for question in validated(list[_HotpotQAQuestion], data, place)]


def _of_question(question: _HotpotQAQuestion) -> Example:
    sources = tuple(tuple(sentences) for _, sentences in question.context)
    spans = {
        (title, index): span
        for (title, _), in_paragraph in zip(question.context, _spans(sources), strict=True)
        for index, span in enumerate(in_paragraph)
    }
    return Example(
        key=f"hotpotqa/{question.id}",
        question=question.question,
        documents=tuple(
            Document("".join(sentences), id=title, metadata={"title": title})
            for title, sentences in question.context
        ),
        source_texts=sources,
        # A few supporting facts name a sentence that does not exist.
        evidence=tuple(spans[fact] for fact in question.supporting_facts if fact in spans),
    )


class _SquadAnswer(BaseModel):
    text: Text
    answer_start: StrictInt


class _SquadQuestion(BaseModel):
    id: Text
    question: Text
    answers: list[_SquadAnswer]
    is_impossible: StrictBool | None = None


class _SquadParagraph(BaseModel):
    context: Text
    qas: list[_SquadQuestion]


class _SquadArticle(BaseModel):
    title: Text
    paragraphs: list[_SquadParagraph]


class _SquadFile(BaseModel):
    data: list[_SquadArticle]


def squad(data: Any, place: str) -> list[Example]:
    """The answerable questions whose answer lies in the first paragraphs of a SQuAD 2.0 article.

    https://rajpurkar.github.io/SQuAD-explorer, dev-v2.0.json. The context is these paragraphs, each
    a group of sentences. Evidence are the annotators' answers. Raises InvalidInput with the place
    of a wrong field.
    """
    articles = validated(_SquadFile, data, place).data
    return [example for article in articles for example in _of_article(article)]


def _of_article(article: _SquadArticle) -> Iterator[Example]:
    paragraphs = article.paragraphs[:NUM_PARAGRAPHS]
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
                    DocumentSpan(
                        number, answer.answer_start, answer.answer_start + len(answer.text)
                    )
                    for answer in question.answers
                )
                yield Example(
                    key=f"squad/{question.id}",
                    question=question.question,
                    documents=documents,
                    evidence=tuple(dict.fromkeys(spans)),  # annotators may agree
                )


class _QasperSection(BaseModel):
    section_name: Text | None = None
    paragraphs: list[Text]


class _QasperEvidence(BaseModel):
    evidence: list[Text] | None = None


class _QasperAnswer(BaseModel):
    answer: _QasperEvidence


class _QasperQuestion(BaseModel):
    question_id: Text
    question: Text
    answers: list[_QasperAnswer]


class _QasperPaper(BaseModel):
    full_text: list[_QasperSection]
    qas: list[_QasperQuestion]


def qasper(data: Any, place: str) -> list[Example]:
    """The questions of QASPER on papers of at most 60 paragraphs.

    https://allenai.org/data/qasper, qasper-train-v0.3.json. Paragraphs are the sources, sections
    the groups, preceded by their names. Evidence are the annotators' paragraphs. Raises
    InvalidInput with the place of a wrong field.
    """
    papers = validated(dict[Text, _QasperPaper], data, place).values()
    return [example for paper in papers for example in _of_paper(paper)]


def _of_paper(paper: _QasperPaper) -> Iterator[Example]:
    sections = [
        (
            section.section_name or "",
            tuple(f"{text} " for text in section.paragraphs if text.strip()),
        )
        for section in paper.full_text
    ]
    sections = [(name, paragraphs) for name, paragraphs in sections if paragraphs]
    sources = tuple(paragraphs for _, paragraphs in sections)
    if not 0 < sum(map(len, sources)) <= MAX_PARAGRAPHS:
        return
    for question in paper.qas:
        marked = {
            text.strip() for answer in question.answers for text in answer.answer.evidence or ()
        }
        yield Example(
            key=f"qasper/{question.question_id}",
            question=question.question,
            documents=tuple(
                Document("".join(paragraphs), id=name, metadata={"heading": name})
                for name, paragraphs in sections
            ),
            source_texts=sources,
            evidence=tuple(
                span
                for paragraphs, spans in zip(sources, _spans(sources), strict=True)
                for paragraph, span in zip(paragraphs, spans, strict=True)
                if paragraph.strip() in marked
            ),
        )


def _spans(sources: Sequence[Sequence[str]]) -> list[list[DocumentSpan]]:
    """The spans of each document's sources, whose texts joined are the document's."""
    return [
        [
            DocumentSpan(document, start, end)
            for start, end in pairwise(accumulate(map(len, texts), initial=0))
        ]
        for document, texts in enumerate(sources)
    ]
