"""Remarks on sentences: the extension point, and the checks of a whole answer that it gives."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from attribot_rag.context import Context
from attribot_rag.context.splitting.splitter import language_of
from attribot_rag.context.text import Interval, merge, subtract
from attribot_rag.errors import InvalidInput
from attribot_rag.result import Check, Verdict


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


logger = logging.getLogger(__name__)

_LONGEST_REASON = 200  # characters in a note


class Annotation:
    """The checks of one answer's sentences; the annotator is asked for each sentence once.

    After a failure it is not asked again. `notes` say what failed.
    """

    def __init__(self, annotator: Annotator | None, response: str, context: Context) -> None:
        self.notes: tuple[str, ...] = ()
        self._annotator = annotator
        self._response = response
        self._context = context
        self._checks: dict[Verdict, tuple[Check, ...]] = {}

    def of(
        self, verdicts: Sequence[Verdict], markers: Iterable[Interval] = ()
    ) -> tuple[Verdict, ...]:
        """The same verdicts with the checks of their sentences, at characters of the response.

        `markers` are the model's own citation markers, which are no part of the sentence.
        """
        cited = [verdict for verdict in verdicts if verdict.traced(verdicts).source_ids]
        new = [verdict for verdict in cited if verdict not in self._checks]
        if self._annotator is not None and new and not self.notes:
            readable = _blanked(self._response, markers)
            self._ask(self._annotator, new, [self._sentence(x, verdicts, readable) for x in new])
        return tuple(
            replace(verdict, checks=self._checks[verdict]) if verdict in self._checks else verdict
            for verdict in verdicts
        )

    def _ask(
        self,
        annotator: Annotator,
        verdicts: Sequence[Verdict],
        sentences: Sequence[AnnotatedSentence],
    ) -> None:
        try:
            remarks = annotator.annotate(sentences)
            if len(remarks) != len(sentences):
                raise InvalidInput(
                    f"{len(remarks)} lists of checks for {len(sentences)} sentences; give one for "
                    "each, empty where there is nothing to say"
                )
            checks = [tuple(_moved(*pair)) for pair in zip(sentences, remarks, strict=True)]
        except Exception as error:  # the attribution must not be lost to remarks on it
            name = type(annotator).__name__
            logger.warning("the annotator %s failed", name, exc_info=True)
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            self.notes = (
                f"The annotator {name} failed, so that sentences lack its checks: "
                f"{reason[:_LONGEST_REASON]}",
            )
        else:
            self._checks.update(zip(verdicts, checks, strict=True))

    def _sentence(
        self, verdict: Verdict, verdicts: Sequence[Verdict], response: str
    ) -> AnnotatedSentence:
        source_ids = verdict.traced(verdicts).source_ids
        others = self._other_documents(source_ids)
        prompt = self._context.prompt.text
        rest = subtract((0, len(prompt)), others)
        prompt_texts = ["\n".join(prompt[start:end] for start, end in rest)]
        if verdict.follows is not None:
            earlier = verdicts[verdict.follows]
            prompt_texts.append(response[earlier.start : earlier.end])
        return AnnotatedSentence(
            start=verdict.start,
            end=verdict.end,
            text=response[verdict.start : verdict.end],
            language=self._context.answer_language(response),
            cited=tuple(self._cited(source_id, response) for source_id in source_ids),
            prompt_texts=tuple(prompt_texts),
            other_documents=tuple(prompt[start:end] for start, end in others),
        )

    def _cited(self, source_id: int, response: str) -> CitedText:
        source = self._context.sources[source_id]
        texts = [self._context.documents[index].text for index in source.documents]
        text = texts[0] if texts else source.text
        language = self._context.language or language_of(text, (response,))
        return CitedText(source_id, source.text, language)

    def _other_documents(self, source_ids: Sequence[int]) -> list[Interval]:
        """The places in the prompt of the documents that hold none of these sources."""
        sources = self._context.sources
        cited = {index for source_id in source_ids for index in sources[source_id].documents}
        return merge(
            (occurrence.start, occurrence.end)
            for source in sources
            if cited.isdisjoint(source.documents)
            for occurrence in source.occurrences
        )


def _blanked(text: str, intervals: Iterable[Interval]) -> str:
    """The text with white space for these characters."""
    for start, end in intervals:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _moved(sentence: AnnotatedSentence, checks: Sequence[Check]) -> Iterator[Check]:
    """The checks at characters of the response. Raises InvalidInput for invalid checks."""
    sources = {None, *(text.source for text in sentence.cited)}
    if isinstance(checks, Check):
        raise InvalidInput("a check in place of a list; give a list of checks for each sentence")
    for check in checks:
        if not isinstance(check, Check):
            raise InvalidInput(f"{check!r} is no check; give attribot_rag.annotation.Check(...)")
        if not 0 <= check.start <= check.end <= len(sentence.text):
            raise InvalidInput(f"{check!r}: positions are characters of {sentence.text!r}")
        if check.value != sentence.text[check.start : check.end]:
            raise InvalidInput(f"{check!r}: its value is not what stands at its positions")
        if check.source not in sources:
            raise InvalidInput(f"{check!r}: the source is the id of a cited text, or None")
        start, end = sentence.start + check.start, sentence.start + check.end
        yield replace(check, start=start, end=end)
