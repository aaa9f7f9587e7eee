"""The texts that a prompt was made of: documents, and answers that models gave before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from langchain_core.documents import Document

from attribot_rag.runtime import AttributedRun, texts_in_prompt
from langchain_attribot.documents import by_text
from langchain_attribot.run import Run

_MADE_SHARE = 0.5


@dataclass(frozen=True)
class ReadTexts:
    """The `documents` and `earlier` answers in a prompt, all documents `in_reach` of it.

    `num_before` is the number of answers that came before it within the same root.
    """

    documents: Sequence[Document] = ()
    earlier: Sequence[AttributedRun] = ()
    in_reach: Sequence[Document] = ()
    num_before: int = 0


def is_made_of(document: Document, answers: Iterable[tuple[int, AttributedRun]], root: Run) -> bool:
    """Whether a document that a step made is, for the most part, of answers that came before."""
    text, num_characters, first = document.page_content, 0, 0
    for tick, answer in answers:
        answered = answer.text[answer.answer.start :].strip()
        if answered and answered in text:
            num_characters += len(answered)
            first = first or tick
    if num_characters < _MADE_SHARE * len(text) or not first:
        return False
    return by_text(document) not in set(map(by_text, root.documents(before=first)))


def in_prompt(prompt: str, documents: Sequence[Document]) -> list[Document]:
    texts = texts_in_prompt(prompt, [document.page_content for document in documents])
    return [document for document in documents if document.page_content in texts]
