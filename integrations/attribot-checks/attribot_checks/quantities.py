"""Numbers of a text with their units, and amounts of several parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from itertools import pairwise
from math import isclose
from typing import Any

from attribot_checks.numerals import Span, number_words, numerals
from attribot_checks.vocabulary import (
    CENT,
    CURRENCY,
    HUNDREDTHS,
    WORDS,
    Unit,
    Vocabulary,
    currency_before,
    power_after,
    vocabulary,
)
from attribot_rag.annotation import Interval, at, merge

_ORDINAL = re.compile(
    r"(?:st|nd|rd|th|er|[eè]re|[eè]me|nde?|e|[ºª°]|\.?[ºª]|\.er|-?(?:й|я|е|го|му|м|ю|х))(?!\w)"
)
# "3. Brücke": the full stop of an ordinal.
_DOTTED = re.compile(r"\.(?=\s[^\W\d_])")
_DOTTED_LANGUAGES = frozenset(WORDS["dotted_ordinals"].split())
_DOZEN = re.compile(rf"(?<!\w)(?:{WORDS['dozens'].replace(',', '|')})(s|e)?(?!\w)", re.IGNORECASE)
_PLURAL = re.compile(r"(?:hundred|thousand|million|billion)s|Hunderte|Tausende", re.IGNORECASE)
_DECADE = re.compile(r"['’]?s\b|-?(?:er|х|е)\b")
_MARKER = re.compile(r"\[[\d\s,;–-]+\]|\(\d\)|【\d+】")
_LIST_ITEM = re.compile(r"^[ \t]*(?:[-*•>]\s*)?\(?\d{1,3}[.)]\s", re.MULTILINE)
_NOUNS = re.compile(r"[\s+-]*(?:([^\W\d_]+)(?:\s([^\W\d_]+))?)?")
_LAST_WORD = re.compile(r"[^\W\d_]+(?=\s*\Z)")
# 18:30, 6 pm, 18.30 Uhr, 18h30, 6 o'clock, noon.
_CLOCK = re.compile(
    r"(?<![\w:])(?<!\d[.,/])(?:(?P<hour>\d{1,2})"
    r"(?:(?:(?P<colon>[:h]|\sh\s)|\.)(?P<minute>[0-5]\d)(?!\w|[:.,]\d))?"
    r"(?P<said>\s?(?:(?P<half>[ap])(?:m|\.\s?m\.?)(?!\w)|Uhr(?!\w)|o['’]clock(?!\w)))?"
    r"|(?P<noon>(?:noon|midday|midi|Mittag|mediodía|mezzogiorno)(?!\w)))",
    re.IGNORECASE,
)
# Words before and after a number that make it a bound, perhaps with an article; a minus sign or its
# name.
_AT_LEAST, _AT_MOST = (
    re.compile(rf"(?<!\w)(?:{'|'.join(WORDS[name].values())})\s*(?:\w{{1,3}}\s)?\Z", re.IGNORECASE)
    for name in ("at_least", "at_most")
)
_OR_MORE = re.compile(r"\+(?![\d+])|\s(?:or|oder|ou|o) (?:more|mehr|plus|más|più|mais)(?!\w)")
_AND = re.compile(r"\s(?:and|und|et|y|e|en|и)\s")
_MINUS = re.compile(
    r"(?:(?<![\w)\].,%-])[-−]|(?<!\w)(?<!au )(?<!al )(?<!lo )(?:minus|moins|menos|meno|минус)\s)\Z",
    re.IGNORECASE,
)
_SHORT = 3  # digits of an ordinal
_NEAR = 40  # characters
_LEAST_ALONE = 13
_LEAST_EXACT = 2


@dataclass(frozen=True)
class Quantity(Span):
    """A number, with the `values` that it can have.

    `unit` stands at `unit_span`. `nouns` are the two words after it, for example a currency, and
    `before` is the word before both, in lower case. `bound` is 1 for "at least", -1 for "at most",
    else 0. `minus` is the place of a minus. The values of a `clock` are hours. `unscaled` are the
    values without a power of ten in words. A number with letters, such as B12, is a `key`, which is
    not checked.
    """

    values: frozenset[Decimal]
    unit: Unit | None = None
    unit_span: Interval | None = None
    nouns: tuple[str, ...] = ()
    before: str = ""
    in_words: bool = False
    ordinal: bool = False
    key: bool = False
    clock: bool = False
    unscaled: frozenset[Decimal] = frozenset()
    bound: int = 0
    minus: int | None = None

    @property
    def value(self) -> Decimal:
        return max(self.values)

    @property
    def with_unit(self) -> Interval:
        """The characters of the number and its unit, which may stand before it."""
        first, last = self.unit_span or self.span
        begin = min(first, self.start) if self.minus is None else self.minus
        return begin, max(last, self.end)

    @property
    def is_percent(self) -> bool:
        return self.unit is not None and self.unit.is_percent

    @property
    def has_whole(self) -> bool:
        return any(value == value.to_integral_value() for value in self.values)

    @property
    def may_be_counted(self) -> bool:
        """Whether the model may have counted or estimated it, so that no source has it.

        This is a small number, a percentage, or a few quarters, as in 'half as many'.
        """
        if self.has_whole:
            return self.is_percent or min(self.values) < _LEAST_ALONE
        is_money = self.unit is not None and self.unit.is_currency
        return not is_money and min(self.values) < _LEAST_EXACT and not 4 * min(self.values) % 1


def quantities(text: str, language: str, dates: Sequence[Interval] = ()) -> list[Quantity]:
    """The numbers of a text, in order, without the numbers of its `dates`.

    Citation markers such as [2] and numbers of list items do not count.
    """
    names = vocabulary(language)
    numbers: list[Quantity] = []
    for kind in (
        _clocks(text),
        _in_digits(text, names, language in _DOTTED_LANGUAGES),
        _in_words(text, names, language),
        _dozens(text, names),
    ):
        taken = merge(number.span for number in numbers)
        numbers += [number for number in kind if not at(taken, number.start)]
    unread = (*_MARKER.finditer(text), *_LIST_ITEM.finditer(text))
    left_out = merge([*dates, *(match.span() for match in unread)])
    read = (number for number in numbers if not at(left_out, number.start))
    ordered = sorted(read, key=lambda number: number.start)
    for index, (first, second) in enumerate(pairwise(ordered)):
        if first.bound > 0 and _AND.fullmatch(text, first.with_unit[1], second.with_unit[0]):
            unit = first.unit or second.unit
            ordered[index] = replace(first, unit=unit, nouns=second.nouns)
            ordered[index + 1] = replace(second, bound=-1)
    return ordered


def _clocks(text: str) -> Iterator[Quantity]:
    for match in _CLOCK.finditer(text):
        hour, half = int(match["hour"] or 12), (match["half"] or "").lower()
        if hour > 24 or not (match["colon"] or match["said"] or match["noon"]):
            continue
        time = hour % 24 + Decimal(match["minute"] or 0) / 60
        times = {time, (time + 12) % 24} if 0 < hour <= 12 else {time}
        if half:
            times = {time % 12 + (12 if half == "p" else 0)}
        elif match["noon"] or (match["hour"] or "")[0] == "0":
            times = {time}
        yield Quantity(*match.span(), frozenset(times), clock=True)


def _in_words(text: str, names: Vocabulary, language: str) -> Iterator[Quantity]:
    """The numbers in words, without a power of ten that belongs to digits before it."""
    for word in number_words(text, language):
        start, end, scale = word.start, word.end, None
        before = text[max(0, start - 2) : start].rstrip()
        if text[start:end].lower() in names.scales and before[-1:].isdecimal():
            continue
        if not word.ordinal:
            scale, end = scale_after(text, end, names)
        number = quantity_at(
            text, names, start, end, {word.value * (scale or 1)}, ordinal=word.ordinal
        )
        is_vague = _PLURAL.fullmatch(text, start, end) is not None
        yield replace(number, in_words=True, bound=number.bound or int(is_vague))


def _dozens(text: str, names: Vocabulary) -> Iterator[Quantity]:
    for match in _DOZEN.finditer(text):
        number = quantity_at(text, names, *match.span(), {Decimal(12)})
        yield replace(number, in_words=True, bound=number.bound or int(bool(match[1])))


def _in_digits(text: str, names: Vocabulary, is_dotted: bool) -> Iterator[Quantity]:
    for numeral in numerals(text):
        start, end, values = numeral.start, numeral.end, numeral.values
        before, after = text[start - 1 : start], text[end : end + 1]
        attached = (before.isalpha() and before.isascii()) or before in ("_", "#", "№", "/", ".")
        attached |= before in ("-", "‐") and text[max(0, start - 2) : start - 1].isalpha()
        money = currency_before(text, start)
        attached &= money is None
        if numeral.row or not values or attached:
            yield Quantity(start, end, numeral.row or values, key=True)
        if not values or attached:
            continue
        ordinal = _ORDINAL.match(text, end)
        if ordinal is None and is_dotted and end - start < _SHORT:
            ordinal = _DOTTED.match(text, end)
        decade = _DECADE.match(text, end) if end - start == 4 else None
        scale, scaled_end = scale_after(text, end, names)
        if scale is None and money is not None:
            scale, scaled_end = power_after(text, end) or (None, end)
        unscaled = values
        if scale:
            values = frozenset(value * scale for value in values)
        unit = names.unit_at(text, scaled_end)
        letter = after.isalpha() and after.isascii() and not (scale or unit or ordinal or money)
        if letter or decade is not None:
            yield Quantity(start, end, values, key=True)
            continue
        if unit or scale or money:
            ordinal = None
        nouns_start = ordinal.end() if ordinal else None
        number = quantity_at(
            text, names, start, scaled_end, values, ordinal=bool(ordinal), nouns_start=nouns_start
        )
        yield replace(number, unscaled=unscaled)


def scale_after(text: str, end: int, names: Vocabulary) -> tuple[Decimal | None, int]:
    """The power of ten whose name follows a number, such as 'million', and where it ends.

    Two may follow, as in '3 lakh crore'.
    """
    scale = None
    for _ in range(2):
        found = names.scale_at(text, end)
        if found is None:
            break
        scale, end = found[0] * (scale or 1), found[1]
    return scale, end


def quantity_at(
    text: str,
    names: Vocabulary,
    start: int,
    end: int,
    values: Iterable[Decimal],
    *,
    ordinal: bool = False,
    nouns_start: int | None = None,
) -> Quantity:
    """The quantity with its unit and the words around it."""
    unit = span = None
    last = end
    if not ordinal:
        money = currency_before(text, start)
        measure = None if money else names.unit_at(text, end)
        if money:
            unit, span = Unit(CURRENCY, money[0]), money[1:]
        elif measure:
            unit, last = measure
            span = last - len(text[end:last].lstrip().lstrip("-")), last
    if unit is not None and unit.is_currency:
        last = end
    nouns = _NOUNS.match(text, last if nouns_start is None else nouns_start)
    first = min(start, span[0]) if span else start
    preceding = text[max(0, first - _NEAR) : first]
    minus = _MINUS.search(preceding)
    before = _LAST_WORD.search(preceding[: minus.start()] if minus else preceding)
    bounds = [(1, _AT_LEAST.search(preceding)), (-1, _AT_MOST.search(preceding))]
    found = [(match.start(), sign) for sign, match in bounds if match]  # "no less than" is longer
    is_more = _OR_MORE.match(text, last) is not None
    return Quantity(
        start,
        end,
        frozenset(values),
        unit,
        span,
        tuple(noun.lower() for noun in nouns.groups() if noun) if nouns else (),
        before[0].lower() if before else "",
        ordinal=ordinal,
        bound=min(found)[1] if found else int(is_more),
        minus=first - len(preceding) + minus.start() if minus else None,
    )


_TOLERANCE = 0.05  # converted amounts are rounded
_NAMES = {
    "celsius": "degC",
    "fahrenheit": "degF",
    "tonne": "metric_ton",
    "gallon-imperial": "imperial_gallon",
}
_POWER = re.compile(r"\b(square|cubic)-")  # which pint reads before a space


def same_amount(first: Quantity, second: Quantity) -> bool:
    """Whether two amounts in different units are equal, up to rounding."""
    if first.unit is None or second.unit is None or first.unit == second.unit:
        return False
    is_money = first.unit.is_currency and CENT not in (first.unit, second.unit)  # rates change
    if is_money or first.unit.dimension != second.unit.dimension:
        return False
    for value in first.values:
        amount = converted(float(value), first.unit, second.unit)
        if amount is None:
            return True  # unknown
        if any(isclose(amount, other, rel_tol=_TOLERANCE) for other in second.values):
            return True
    return False


def converted(value: float, source: Unit, target: Unit) -> float | None:
    """An amount in another unit; None if the registry lacks one of them."""
    if not {source, target}.isdisjoint(HUNDREDTHS):
        return value / (100 if source in HUNDREDTHS else 1) * (100 if target in HUNDREDTHS else 1)
    try:
        quantity = _registry().Quantity(value, _pint_name(source.name))
        return float(quantity.to(_pint_name(target.name)).magnitude)
    except (AttributeError, ValueError, ArithmeticError):  # pint's errors are AttributeErrors
        return None


def _pint_name(name: str) -> str:
    power = _POWER.sub(r"\1 ", _NAMES.get(name, name))
    return power.replace("-per-", "/").replace("-", "_")


@cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry()


_HALF = Decimal("0.5")
# No library has these: the word, a form joined to a number, and the word for one and a half.
_HALF_WORDS = {
    language: re.compile(rf"(?<!\w)(?:{words})(?:(?<=пол)|(?<=['’])|(?!\w))", re.IGNORECASE)
    for language, words in WORDS["halves"].items()
}
_AND_A = re.compile(r"(?P<unit>[^\W\d_]+)?\s(?:[^\W\d_]{1,3}\s){1,2}\Z")  # ... and a
_OF = re.compile(r"(?:\s(?:of|an?|een|en|d['’]))*")
_JOINED = re.compile(r",?\s?(?:[^\W\d_]{1,3}\s)?")
_NEAR_HALF = 40  # characters


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
    link = _AND_A.search(text, max(0, start - _NEAR_HALF), start)
    for number in before if link else ():
        gaps = (text[end_of_number:start] for end_of_number in (number.end, number.with_unit[1]))
        if not number.key and not number.ordinal and any(map(_AND_A.fullmatch, gaps)):
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
