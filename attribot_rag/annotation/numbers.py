"""Numbers of a sentence that the documents lack, in texts without invisible characters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice

from attribot_rag.annotation.annotation import AnnotatedSentence
from attribot_rag.cached_property import cached_property
from attribot_rag.context.text import GROUPING, Interval, number_values, number_words, power_words
from attribot_rag.result import Check

_LEAST = 13  # smaller whole numbers are often counted
_MOST = 50  # numbers of a sentence
_CLOSE = Decimal("0.05")
_NUMERAL = re.compile(
    rf"(?:(?<!\d)\d{{1,3}}(?:[{GROUPING}]\d{{3}}(?!\d))+|\d+)(?:(?P<mark>[.,٫])\d+)*"
)
_DIGITS = re.compile(r"\d+")
# Dates without signs between, or with two digits of a year: 20240305T1500, 05.03.24.
_DATE = re.compile(
    r"(?<!\d)(?:((?:19|20)\d\d)(0[1-9]|1[0-2])([0-3]\d)(?!\d)"
    r"|\d\d?([./-])\d\d?\4(?P<short>\d\d)(?![./-]?\d))"
)
_WORD = re.compile(r"\s?([^\W\d_]+)")
_NAME_BEFORE = re.compile(r"(?:[A-Za-z][-‐]?|[_#№])\Z")  # B12, F-16, #401
_NAME_AFTER = re.compile("[A-Za-z_]")


@dataclass(frozen=True)
class NumbersInDocuments:
    """Remarks on numbers, in digits, that the prompt lacks; the default annotator.

    Separators of thousands and decimals do not matter, nor do the script of the digits, rounding
    within 5 %, and numbers that a document has in words, as far as the CLDR spells them. Whole
    numbers below 13 and digits in names (B12) get no remark. Sums, units and dates are not
    understood: the package attribot-checks does that.
    """

    def annotate(self, sentences: Sequence[AnnotatedSentence]) -> list[list[Check]]:
        return [list(_checks(sentence)) for sentence in sentences]


@dataclass(frozen=True)
class _Numeral:
    """The characters [start, end): one number of these `values`, or a number for each of `parts`.

    What is written with a mark, such as 7.50, is not taken apart, if it can be one number.
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
    """Whether a number is another with fewer digits that are not 0, within 5 %."""
    is_close = abs(rounded - exact) <= _CLOSE * abs(exact)
    return is_close and _num_digits(rounded) < _num_digits(exact)


def _num_digits(number: Decimal) -> int:
    return len(number.normalize().as_tuple().digits)


# Zero-width spaces, soft hyphens, marks of direction and the like, but for joiners, which change
# letters of Indian and Persian scripts.
_UNSEEN = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


@dataclass(frozen=True)
class Visible:
    """The `text` without invisible characters, which separate no word and no number."""

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
