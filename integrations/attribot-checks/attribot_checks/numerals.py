"""Numerals of a text, and the values that they can have."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain

from attribot_rag.annotation import number_values

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
_LONGEST = 24  # digits; more are no number but a key
_LAKHS = re.compile(r"\d{1,2}(?:,\d\d)+,\d{3}")
_SMALL_FRACTION = re.compile(r"\d/[2-9]\d?")


@dataclass(frozen=True)
class Numeral:
    """A numeral at the characters [start, end), with the `values` that it can have, if any.

    `row` are the numbers between its commas, where it may be a row of a table.
    """

    start: int
    end: int
    text: str
    values: frozenset[Decimal]
    row: frozenset[Decimal] = frozenset()


def numerals(text: str) -> Iterator[Numeral]:
    """The numerals of a text in order, with their fractions and powers of ten."""
    done = 0
    for match in _NUMERAL.finditer(text):
        if match.start() < done:
            continue
        numeral = _with_power(text, _with_fraction(text, _plain(match)))
        done = numeral.end
        yield numeral


def _plain(match: re.Match[str]) -> Numeral:
    shown = match[0]
    if not shown[0].isdecimal():
        return Numeral(*match.span(), shown, frozenset({_fraction(shown)}))
    values = readings(shown)
    if _SMALL_FRACTION.fullmatch(shown):  # or a day of a month
        return Numeral(*match.span(), shown, values, frozenset({_fraction(shown)}))
    is_row = not values or _LAKHS.fullmatch(shown) is not None
    parts = chain.from_iterable(map(readings, shown.split(","))) if is_row else ()
    return Numeral(*match.span(), shown, values, frozenset(parts))


def _with_fraction(text: str, numeral: Numeral) -> Numeral:
    """A whole number with the fraction after it, as in 1½ or 1 1/2."""
    fraction = _MIXED.match(text, numeral.end) if numeral.text.isdecimal() else None
    if fraction is None:
        return numeral
    part = _fraction(fraction[1] or fraction[2])
    values = frozenset(value + part for value in numeral.values)
    return Numeral(numeral.start, fraction.end(), text[numeral.start : fraction.end()], values)


def _fraction(shown: str) -> Decimal:
    if len(shown) == 1:
        return round(Decimal(unicodedata.numeric(shown)), 3).normalize()
    above, _, below = shown.partition("/")
    return round(Decimal(above) / Decimal(below), 3).normalize()


def _with_power(text: str, numeral: Numeral) -> Numeral:
    """The number times a power of ten after it, as in 2 × 10⁶, 2e6 or, alone, 10^6."""
    is_base = numeral.text == "10"
    power = _TIMES_POWER.match(text, numeral.end)
    if power is None and is_base:
        power = _POWER.match(text, numeral.end)
    exponent = next(filter(None, power.groupdict().values()), None) if power else None
    if power is None or exponent is None or not numeral.values:
        return numeral
    exponent = unicodedata.normalize("NFKC", exponent).replace("−", "-")
    is_alone = is_base and "10" not in power[0] and power[0][0] not in "eE"
    scale = Decimal(10) ** (int(exponent) - is_alone)
    values = frozenset(value * scale for value in numeral.values)
    return Numeral(numeral.start, power.end(), text[numeral.start : power.end()], values)


def readings(numeral: str) -> frozenset[Decimal]:
    """The values that a numeral can have: 7,200 is 7200, or 7.2 where the comma is decimal."""
    is_long = sum(map(str.isdecimal, numeral)) > _LONGEST
    return frozenset() if is_long or re.search("[:/]", numeral) else number_values(numeral)
