"""Numerals in a text, and the values that they can have."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain

from attribot_rag.annotation import Interval, number_values

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
