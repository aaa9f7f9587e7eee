"""Checks of an answer's sentences, and the parts to write your own; stable and public.

An `Annotator` compares each sentence with the texts that it cites, and returns `Check`s. No
verdict, citation or score depends on it. Pass it as an option:

    Attributor(model, annotator=MyAnnotator())

The default, `NumbersInDocuments`, works in every language. `sentences`, `words`, `same_word`,
`number_words`, `number_values`, `is_rounded`, `power_words` and `Visible` read texts as the rest of
the package does.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, islice
from typing import Protocol, runtime_checkable

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Context
from attribot_rag.context.splitting.splitter import language_of, sentences
from attribot_rag.context.text import (
    GROUPING,
    SYLLABLES,
    Interval,
    NumberWords,
    at,
    blank_out,
    merge,
    number_values,
    number_words,
    power_words,
    same_word,
    subtract,
    words,
)
from attribot_rag.errors import InvalidInput
from attribot_rag.result import Check, Verdict

__all__ = [
    "UNSPACED",
    "AnnotatedSentence",
    "Annotation",
    "Annotator",
    "Check",
    "CitedText",
    "Interval",
    "NumberWords",
    "NumbersInDocuments",
    "Visible",
    "at",
    "is_rounded",
    "merge",
    "number_values",
    "number_words",
    "power_words",
    "same_word",
    "sentences",
    "words",
]

UNSPACED = SYLLABLES
"""From here on, other text may follow a word without a space, such as a particle in Korean."""


@dataclass(frozen=True)
class CitedText:
    """A text that a sentence cites. `source` is its id, `language` its ISO 639-1 code."""

    source: int
    text: str
    language: str


@dataclass(frozen=True, kw_only=True)
class AnnotatedSentence:
    """A sentence, the characters [start, end) of the response, and what the model read.

    If the sentence follows from an earlier one, its citations are those of the earlier sentence.
    `cited`, `prompt_texts` and `other_documents` together are what the model saw.
    """

    start: int
    end: int
    text: str
    """Its text, with white space in place of citation markers, so that the length is the same."""
    language: str
    """ISO 639-1 code."""
    cited: tuple[CitedText, ...]
    """The cited texts, at least one."""
    prompt_texts: tuple[str, ...] = ()
    """The prompt without `other_documents`, and the sentence that this one follows from."""
    other_documents: tuple[str, ...] = ()
    """Documents in the prompt that contain none of the cited texts, as far as the prompt has them.
    """


@runtime_checkable
class Annotator(Protocol):
    """Returns checks of an answer's sentences. Pass it as the option `annotator`.

    An annotator runs during an attribution, so other attributions by this model wait for it. If the
    annotator raises an error, the attribution continues, and a note and the log report the error.
    """

    def annotate(self, sentences: Sequence[AnnotatedSentence]) -> Sequence[Sequence[Check]]:
        """The checks of each sentence, in the same order. Positions are characters of its `text`.

        `sentences` are all sentences of an answer that cite something. With `on_sentence`, they are
        those that were judged since the last call. Each sentence is passed only once.
        """
        ...


logger = logging.getLogger(__name__)

_LONGEST_REASON = 200  # characters in a note


class Annotation:
    """The checks of one answer's sentences. Each sentence is given to the annotator once.

    After a failure, the annotator is not called again. `notes` say what failed.
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

        `markers` are the model's own citation markers, which are not part of a sentence.
        """
        cited = [verdict for verdict in verdicts if verdict.traced(verdicts).source_ids]
        new = [verdict for verdict in cited if verdict not in self._checks]
        if self._annotator is not None and new and not self.notes:
            readable = blank_out(self._response, markers)
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
                    "each, which may be empty"
                )
            checks = [tuple(_moved(*pair)) for pair in zip(sentences, remarks, strict=True)]
        except Exception as error:  # a check must not end the attribution
            name = type(annotator).__name__
            logger.warning("the annotator %s failed", name, exc_info=True)
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            self.notes = (
                f"The annotator {name} failed, so sentences lack its checks: "
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
        """The places in the prompt of the documents that contain none of these sources."""
        sources = self._context.sources
        cited = {index for source_id in source_ids for index in sources[source_id].documents}
        return merge(
            (occurrence.start, occurrence.end)
            for source in sources
            if cited.isdisjoint(source.documents)
            for occurrence in source.occurrences
        )


def _moved(sentence: AnnotatedSentence, checks: Sequence[Check]) -> Iterator[Check]:
    """The checks at characters of the response. Raises InvalidInput for invalid checks."""
    sources = {None, *(text.source for text in sentence.cited)}
    if isinstance(checks, Check):
        raise InvalidInput("a check instead of a list; give a list of checks for each sentence")
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


_LEAST = 13  # smaller whole numbers are often counts
_MOST = 50  # numbers of a sentence
_CLOSE = Decimal("0.05")
_NUMERAL = re.compile(
    rf"(?:(?<!\d)\d{{1,3}}(?:[{GROUPING}]\d{{3}}(?!\d))+|\d+)(?:(?P<mark>[.,٫])\d+)*"
)
_DIGITS = re.compile(r"\d+")
# Dates without separators, or with two digits for the year: 20240305T1500, 05.03.24.
_DATE = re.compile(
    r"(?<!\d)(?:((?:19|20)\d\d)(0[1-9]|1[0-2])([0-3]\d)(?!\d)"
    r"|\d\d?([./-])\d\d?\4(?P<short>\d\d)(?![./-]?\d))"
)
_WORD = re.compile(r"\s?([^\W\d_]+)")
_NAME_BEFORE = re.compile(r"(?:[A-Za-z][-‐]?|[_#№])\Z")  # B12, F-16, #401
_NAME_AFTER = re.compile("[A-Za-z_]")


@dataclass(frozen=True)
class NumbersInDocuments:
    """Warns about numbers, in digits, that are missing from the prompt. The default annotator.

    Separators of thousands and decimals, the script of the digits and rounding within 5 % do not
    matter. A document may also contain the number in words, in languages for which Unicode's data
    (CLDR) spells numbers. Whole numbers below 13 and digits in names (B12) cause no warning. The
    annotator does not understand sums, units and dates, but the package attribot-checks does.
    """

    def annotate(self, sentences: Sequence[AnnotatedSentence]) -> list[list[Check]]:
        return [list(_checks(sentence)) for sentence in sentences]


@dataclass(frozen=True)
class _Numeral:
    """The characters [start, end): one number with these `values`, or a number for each of `parts`.

    A numeral with a decimal mark, such as 7.50, is not split if it can be one number.
    """

    start: int
    end: int
    values: frozenset[Decimal]
    parts: frozenset[Decimal]

    def is_in(self, numbers: frozenset[Decimal]) -> bool:
        if self.parts and all(part < _LEAST or part in numbers for part in self.parts):
            return True
        return not self.values.isdisjoint(numbers) or any(
            is_rounded(value, number) for value in self.values for number in numbers
        )


def _checks(sentence: AnnotatedSentence) -> Iterator[Check]:
    shown, language = Visible.of(sentence.text), sentence.language
    cited = [text.text for text in sentence.cited]
    read = [*cited, *sentence.prompt_texts, *sentence.other_documents]
    texts = [Visible.of(text).text for text in read]
    numbers = frozenset(chain.from_iterable(_numbers(text, language) for text in texts))
    numerals = islice(_numerals(shown.text, language), _MOST)
    missing = [numeral for numeral in numerals if not numeral.is_in(numbers)]
    if missing:
        spelled = chain.from_iterable(number_words(text, language) for text in texts)
        numbers |= {word.value for word in spelled}
    for numeral in missing:
        if not (numeral.is_in(numbers) or _is_in_name(shown.text, numeral)):
            start, end = shown.interval(numeral.start, numeral.end)
            value = sentence.text[start:end]
            yield Check(start=start, end=end, kind="number", value=value, in_no_document=True)


def _is_in_name(text: str, numeral: _Numeral) -> bool:
    before = text[max(0, numeral.start - 2) : numeral.start]
    return bool(_NAME_BEFORE.search(before) or _NAME_AFTER.match(text, numeral.end))


def _numbers(text: str, language: str) -> Iterator[Decimal]:
    yield from map(Decimal, _DIGITS.findall(text))
    for date in _DATE.finditer(text):
        yield from map(Decimal, filter(None, date.group(1, 2, 3)))
        yield from (Decimal(century + date["short"]) for century in ("19", "20") if date["short"])
    yield from chain.from_iterable(numeral.values for numeral in _numerals(text, language))


def _numerals(text: str, language: str) -> Iterator[_Numeral]:
    powers = power_words(language)
    for match in _NUMERAL.finditer(text):
        word = _WORD.match(text, match.end())
        power = powers.get(word[1].lower(), 1) if word else 1
        values = number_values(match[0])
        parts = () if values and match["mark"] else map(Decimal, _DIGITS.findall(match[0]))
        scaled = {value * power for value in values}
        yield _Numeral(*match.span(), values | scaled, frozenset(parts))


def is_rounded(rounded: Decimal, exact: Decimal) -> bool:
    """Whether a number is another one with fewer digits other than 0, within 5 %."""
    is_close = abs(rounded - exact) <= _CLOSE * abs(exact)
    return is_close and _num_digits(rounded) < _num_digits(exact)


def _num_digits(number: Decimal) -> int:
    return len(number.normalize().as_tuple().digits)


# Zero-width spaces, soft hyphens, marks of direction and the like. Not joiners, which change
# letters of Indian and Persian scripts.
_UNSEEN = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


@dataclass(frozen=True)
class Visible:
    """The `text` without invisible characters, which separate no words and no numbers."""

    source: str
    text: str

    @classmethod
    def of(cls, source: str) -> Visible:
        return cls(source, _UNSEEN.sub("", source))

    @cached_property
    def _origins(self) -> Sequence[int]:
        """The index in `source` of each character of `text`."""
        unseen = {match.start() for match in _UNSEEN.finditer(self.source)}
        return [index for index in range(len(self.source)) if index not in unseen]

    def interval(self, start: int, end: int) -> Interval:
        """The characters of `source` behind [start, end) of `text`, not empty."""
        return self._origins[start], self._origins[end - 1] + 1
