"""The extension point for remarks on sentences, and its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from attribot_rag.result import Check


@dataclass(frozen=True)
class CitedText:
    """A text that a sentence cites: `source` is its id, `language` its ISO 639-1 code."""

    source: int
    text: str
    language: str


@dataclass(frozen=True, kw_only=True)
class AnnotatedSentence:
    """The characters [start, end) of the response, with the model's inputs.

    A sentence that follows from an earlier sentence cites what that cites. `cited`, `prompt_texts`
    and `other_documents` together are what the model saw.
    """

    start: int
    end: int
    text: str
    """As it is to be read, of the same length: white space where the model wrote a citation
    marker."""
    language: str
    """ISO 639-1 code."""
    cited: tuple[CitedText, ...]
    """At least one."""
    prompt_texts: tuple[str, ...] = ()
    """The prompt without `other_documents`, and the sentence that this one follows from."""
    other_documents: tuple[str, ...] = ()
    """The documents in the prompt that hold none of the cited texts, as far as they stand there."""


@runtime_checkable
class Annotator(Protocol):
    """Gives remarks on sentences of an answer; an option of whatever attributes.

    It runs while the model's attribution has its turn. What it raises does not end the attribution:
    a note and the log say so.
    """

    def annotate(self, sentences: Sequence[AnnotatedSentence]) -> Sequence[Sequence[Check]]:
        """The checks of each sentence, in the same order, at characters of the sentence's `text`.

        `sentences` are all sentences of an answer that cite something; where results are told while
        they are made (`on_sentence`), those that were judged since the last call. No sentence is
        given twice.
        """
        ...
