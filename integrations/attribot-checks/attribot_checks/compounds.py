"""Amounts of several parts: in two units, as '1 hour 30 minutes', or with a half in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

from attribot_checks.number_grammar import number_words
from attribot_checks.quantities import Quantity, quantity_at, scale_after
from attribot_checks.units import converted
from attribot_checks.vocabulary import WORDS, Vocabulary, vocabulary
from attribot_rag.annotation import at, merge

_HALF = Decimal("0.5")
# No library has these: the word, a form joined to a number, and the word for one and a half.
_HALF_WORDS = {
    language: re.compile(rf"(?<!\w)(?:{words})(?:(?<=пол)|(?<=['’])|(?!\w))", re.IGNORECASE)
    for language, words in WORDS["halves"].items()
}
_AND = re.compile(r"(?P<unit>[^\W\d_]+)?\s(?:[^\W\d_]{1,3}\s){1,2}\Z")  # ... and a
_OF = re.compile(r"(?:\s(?:of|an?|een|en|d['’]))*")
_JOINED = re.compile(r",?\s?(?:[^\W\d_]{1,3}\s)?")
_NEAR = 40  # characters


def with_compounds(text: str, language: str, numbers: Sequence[Quantity]) -> list[Quantity]:
    """The numbers of a text, with amounts instead of their parts.

    The first part stays as a key: in 5 feet 10 inches, 5 feet are not wrong.
    """
    amounts = [*_halves(text, language, numbers), *_in_two_units(text, numbers)]
    wholes = merge(amount.span for amount in amounts if not amount.key)
    apart = [number for number in numbers if not at(wholes, number.start)]
    starts = {start for start, _ in wholes}
    parts = [replace(number, key=True) for number in numbers if number.start in starts]
    return sorted([*amounts, *apart, *parts], key=lambda number: number.start)


def _in_two_units(text: str, numbers: Sequence[Quantity]) -> Iterator[Quantity]:
    for first, second in pairwise(numbers):
        if first.unit is None or second.unit is None or first.key or second.key:
            continue
        if first.unit.dimension != second.unit.dimension or first.unit == second.unit:
            continue
        end = first.with_unit[1]
        factor = converted(1.0, first.unit, second.unit)
        if factor is not None and factor > 1 and _JOINED.fullmatch(text, end, second.start):
            total = round(first.value * Decimal(factor) + second.value, 6).normalize()
            yield replace(second, start=first.start, values=frozenset({total}), before=first.before)


def _halves(text: str, language: str, numbers: Sequence[Quantity]) -> Iterator[Quantity]:
    pattern = _HALF_WORDS.get(language)
    names = vocabulary(language)
    for match in pattern.finditer(text) if pattern else ():
        if match.lastgroup == "half":
            yield from _half(text, names, match, numbers)
            continue
        whole = [Decimal(1)]
        if match.lastgroup == "joined":
            whole = [word.value for word in number_words(match["joined"], language)]
        if len(whole) == 1:
            yield _amount(text, names, *match.span(), whole[0] + _HALF)


def _half(
    text: str, names: Vocabulary, match: re.Match[str], numbers: Sequence[Quantity]
) -> Iterator[Quantity]:
    """The amount that ends or begins with this half."""
    start, end = match.span()
    before = [number for number in numbers if number.start < start][-1:]
    link = _AND.search(text, max(0, start - _NEAR), start)
    for number in before if link else ():
        gaps = (text[end_of_number:start] for end_of_number in (number.end, number.with_unit[1]))
        if not number.key and not number.ordinal and any(map(_AND.fullmatch, gaps)):
            amount = _amount(text, names, number.start, end, number.value + _HALF)
            if amount.unit is None:
                amount = replace(amount, unit=number.unit, unit_span=number.unit_span)
            yield amount
            return
    if link and link["unit"]:
        unit = names.unit_at(text, link.start("unit"))
        if unit and unit[1] == link.end("unit"):
            amount = _amount(text, names, link.start(), end, 1 + _HALF)
            yield replace(amount, unit=unit[0], unit_span=link.span("unit"))
            return
    for number in before:
        if number.end >= start - 1 and number.value == 1:
            start = number.start
    of = _OF.match(text, end)
    amount = _amount(text, names, start, of.end() if of else end, _HALF)
    if amount.unit is not None or amount.value != _HALF:
        yield amount
    elif match.end() > match.start() and not text[end : end + 1].isalpha():
        yield Quantity(*match.span(), frozenset({_HALF, 100 * _HALF}), key=True)


def _amount(text: str, names: Vocabulary, start: int, end: int, value: Decimal) -> Quantity:
    scale, end = scale_after(text, end, names)
    return replace(quantity_at(text, names, start, end, {value * (scale or 1)}), in_words=True)
