"""Numerals, numbers in words, codes and addresses in a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain

from attribot_rag.annotation import Interval, NumberWords, number_values
from attribot_rag.annotation import number_words as spelled_words

_GROUP = r"(?:\u00a0+|[ \u2009\u202f'’])"
_FRACTIONS = "\u00bc-\u00be\u2150-\u215e"  # ¼ to ⅞
_NUMERAL = re.compile(
    rf"(?<![\w.,])\d{{1,3}}(?:{_GROUP}\d{{3}})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,:/٫٬]\d+)*"
    rf"|[{_FRACTIONS}]"
)
_MIXED = re.compile(rf"(?:{_GROUP}?([{_FRACTIONS}])|{_GROUP}(\d/[2-9]\d?)(?![\d/]))")
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_EXPONENT = (
    rf"(?:(?:\^|\*\*)\{{?(?P<power>[-−+]?\d{{1,2}})\}}?|<sup>(?P<html>[-−+]?\d{{1,2}})</sup>"
    rf"|(?P<raised>[⁺⁻]?[{_RAISED}]{{1,2}}))(?!\w)"
)
_POWER = re.compile(_EXPONENT)
_TIMES_POWER = re.compile(
    rf"(?:\s?[×x·⋅∙*]\s?10{_EXPONENT}|[eE](?P<letter>[-+]?\d{{1,2}})(?![\w.,]\d|\w))"
)
_LONGEST = 24  # digits; a longer one is a key, not a number
_LAKHS = re.compile(r"\d{1,2}(?:,\d\d)+,\d{3}")
_SMALL_FRACTION = re.compile(r"\d/[2-9]\d?")


@dataclass(frozen=True)
class Span:
    """Characters [start, end) of a text."""

    start: int
    end: int

    @property
    def span(self) -> Interval:
        return self.start, self.end


@dataclass(frozen=True)
class Numeral(Span):
    """A numeral, with the `values` that it can have, if any.

    `row` has the numbers between its commas if it may be a row of a table.
    """

    values: frozenset[Decimal]
    row: frozenset[Decimal] = frozenset()


def numerals(text: str) -> Iterator[Numeral]:
    """The numerals of a text in order, with their fractions and powers of ten."""
    done = 0
    for match in _NUMERAL.finditer(text):
        if match.start() < done:
            continue
        numeral = _with_power(text, _with_fraction(text, _plain(*match.span(), match[0])))
        done = numeral.end
        yield numeral


def _plain(start: int, end: int, shown: str) -> Numeral:
    if not shown[0].isdecimal():
        return Numeral(start, end, frozenset({_fraction(shown)}))
    values = readings(shown)
    if _SMALL_FRACTION.fullmatch(shown):  # may also be a day of a month
        return Numeral(start, end, values, frozenset({_fraction(shown)}))
    is_row = not values or _LAKHS.fullmatch(shown) is not None
    parts = chain.from_iterable(map(readings, shown.split(","))) if is_row else ()
    return Numeral(start, end, values, frozenset(parts))


def _with_fraction(text: str, numeral: Numeral) -> Numeral:
    """A whole number with the fraction after it, as in 1½ or 1 1/2."""
    is_whole = text[numeral.start : numeral.end].isdecimal()
    fraction = _MIXED.match(text, numeral.end) if is_whole else None
    if fraction is None:
        return numeral
    part = _fraction(fraction[1] or fraction[2])
    return Numeral(numeral.start, fraction.end(), frozenset(x + part for x in numeral.values))


def _fraction(shown: str) -> Decimal:
    if len(shown) == 1:
        return round(Decimal(unicodedata.numeric(shown)), 3).normalize()
    above, _, below = shown.partition("/")
    return round(Decimal(above) / Decimal(below), 3).normalize()


def _with_power(text: str, numeral: Numeral) -> Numeral:
    """The number times a power of ten after it, as in 2 × 10⁶, 2e6 or, alone, 10^6."""
    is_base = text[numeral.start : numeral.end] == "10"
    power = _TIMES_POWER.match(text, numeral.end)
    if power is None and is_base:
        power = _POWER.match(text, numeral.end)
    exponent = next(filter(None, power.groupdict().values()), None) if power else None
    if power is None or exponent is None or not numeral.values:
        return numeral
    exponent = unicodedata.normalize("NFKC", exponent).replace("−", "-")
    is_alone = is_base and "10" not in power[0] and power[0][0] not in "eE"
    scale = Decimal(10) ** (int(exponent) - is_alone)
    return Numeral(numeral.start, power.end(), frozenset(x * scale for x in numeral.values))


def readings(numeral: str) -> frozenset[Decimal]:
    """The values that a numeral can have: 7,200 is 7200, or 7.2 where the comma is decimal."""
    is_long = sum(map(str.isdecimal, numeral)) > _LONGEST
    return frozenset() if is_long or re.search("[:/]", numeral) else number_values(numeral)


# text2num knows the grammar of these. For other languages, the CLDR has the words.
_GRAMMARS = ("da", "de", "en", "es", "fr", "it", "nl", "pt")
# Without halves of surrogate pairs, which text2num cannot read.
_TOKEN = re.compile(
    r"[\u3400-\u9fff]|[^\W\d_\u3400-\u9fff]+(?:[-‐'’][^\W\d_\u3400-\u9fff]+)*|[^\s\w\ud800-\udfff]|\d+"
)


@dataclass(frozen=True)
class _Token(Span):
    """A word of a text, in the form that text2num reads."""

    word: str

    def text(self) -> str:
        return self.word

    def nt_separated(self, previous: _Token) -> bool:
        return False

    def not_a_number_part(self) -> bool:
        return self.word.isdigit()


def number_words(text: str, language: str) -> list[NumberWords]:
    """The numbers in words of a text, in order; none in an unknown language."""
    if language not in _GRAMMARS:
        return spelled_words(text, language)
    from text_to_num import find_numbers

    tokens = [_Token(*match.span(), match[0]) for match in _TOKEN.finditer(text)]
    numbers: list[NumberWords] = []
    end = 0
    for match in find_numbers(tokens, language, threshold=0):
        value = Decimal(str(match.value))
        start, last = tokens[match.start].start, tokens[match.end - 1].end
        number = NumberWords(start, last, value, match.is_ordinal)
        if numbers and end == match.start and _is_year(numbers[-1], number):
            century = numbers.pop()
            number = NumberWords(century.start, last, 100 * century.value + value, False)
        numbers.append(number)
        end = match.end
    return numbers


def _is_year(first: NumberWords, second: NumberWords) -> bool:
    """Whether two neighbouring numbers are a year, as in 'nineteen ninety-four'."""
    is_range = 10 <= first.value <= 20 and 10 <= second.value < 100
    return is_range and not (first.ordinal or second.ordinal)


_LEAST = 7  # digits
_ALIKE = 0.7
_PREFIX = 4  # digits of a country's code, which may be left out
_RUN = re.compile(r"\d+(?:[ \u00a0\u202f().‐‑–/-]{1,3}\d+)*")
_TRUNK = re.compile(r"\(0\)")
_OTHER = re.compile(r"\D+")
_ADDRESS = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+|(?:https?://|www\.)(?:[^\s<>\"'\]()|]|\([^\s()]*\))*[\w/)]",
    re.IGNORECASE,
)
_BEFORE_HOST = re.compile(r"(?:https?://)?(?:www\.)?", re.IGNORECASE)


@dataclass(frozen=True)
class Code(Span):
    """The digits of neighbouring `groups`, without leading zeros."""

    digits: str
    groups: int

    def is_same(self, other: Code) -> bool:
        """Whether the other code has the same digits, perhaps without the code of a country."""
        longer = len(self.digits) - len(other.digits)
        is_national = 0 < longer <= _PREFIX and self.digits.endswith(other.digits)
        return self.digits in other.digits or is_national

    def is_altered(self, other: Code) -> bool:
        """Whether the other code has as many digits, most of them the same.

        Two groups are no code.
        """
        equal = sum(a == b for a, b in zip(self.digits, other.digits, strict=False))
        is_code = self.groups > 2 and len(self.digits) == len(other.digits)
        return is_code and _ALIKE * len(self.digits) <= equal < len(self.digits)


def codes(text: str) -> Iterator[Code]:
    for run in _RUN.finditer(text):
        digits = _OTHER.sub("", _TRUNK.sub("", run[0])).lstrip("0")
        if len(digits) >= _LEAST:
            yield Code(*run.span(), digits, len(_OTHER.split(run[0])))


def addresses(text: str) -> list[Interval]:
    """The characters of the e-mail addresses and URLs in a text, in order."""
    return [match.span() for match in _ADDRESS.finditer(text)]


def has_address(text: str, address: str) -> bool:
    """Whether an address is in a text, in any case, perhaps as the start of a longer URL."""
    host = re.escape(_BEFORE_HOST.sub("", address, count=1).rstrip("/"))
    return re.search(rf"(?<![\w@+-]){host}(?![\w@-]|\.\w)", text, re.IGNORECASE) is not None
