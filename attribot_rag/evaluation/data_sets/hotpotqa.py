"""HotpotQA, distractor setting: https://hotpotqa.github.io, hotpot_dev_distractor_v1.json."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

from pydantic import BaseModel, Field, StrictInt

from attribot_rag.context import Document, DocumentSpan
from attribot_rag.evaluation.data_sets.validation import Text, validated
from attribot_rag.evaluation.example import Example


class _Question(BaseModel):
    id: Text = Field(alias="_id")
    question: Text
    context: list[tuple[Text, list[Text]]]  # title, sentences
    supporting_facts: list[tuple[Text, StrictInt]]  # title, index of the sentence


def hotpotqa(data: Any, place: str) -> list[Example]:
    """The examples in the parsed file: the data set's sentences, in titled paragraphs.

    As AttriBoT prepares it: every paragraph is a group, and titles are not in the prompt. Evidence
    are the supporting sentences. Raises InvalidInput with the place of a wrong field.
    """
    return [_example(question) for question in validated(list[_Question], data, place)]


def _example(question: _Question) -> Example:
    spans = {
        (title, index): DocumentSpan(document, start, end)
        for document, (title, sentences) in enumerate(question.context)
        for index, (start, end) in enumerate(pairwise(accumulate(map(len, sentences), initial=0)))
    }
    return Example(
        key=f"hotpotqa/{question.id}",
        question=question.question,
        documents=tuple(
            Document("".join(sentences), id=title, metadata={"title": title})
            for title, sentences in question.context
        ),
        source_texts=tuple(tuple(sentences) for _, sentences in question.context),
        # A few supporting facts name a sentence that does not exist.
        evidence=tuple(spans[fact] for fact in question.supporting_facts if fact in spans),
    )
