"""The numbers and dates of a text, which can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from html import unescape

from attribot_checks.codes import Code, addresses, codes
from attribot_checks.compounds import with_compounds
from attribot_checks.numerals import Span
from attribot_checks.quantities import Quantity, quantities
from attribot_checks.statements import Statement, statements
from attribot_checks.vocabulary import vocabulary

_NO_BREAK = "\u00a0"
_REFERENCE = re.compile(r"&(?:#\d{1,6}|#[xX][\da-fA-F]{1,5}|[A-Za-z]{2,8});")


# A year, a month and perhaps a day; or a day and a month in any order, and a year.
_NUMERIC = re.compile(
    r"(?<![\d.,/-])(?:(\d{4})(?P<s>[-/.])(\d{1,2})(?P=s)(\d{1,2})(?!\d)"
    r"|((?:19|20)\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=T\d{4}|(?!\w))"
    r"|(?P<a>\d{1,2})(?P<t>[-/.])(?P<b>\d{1,2})(?P=t)(?P<z>\d{4}|\d\d)(?!\d|[-/.]\d))"
    r"|(\d{4})\s?年\s?(\d{1,2})\s?月(?:\s?(\d{1,2})\s?日)?"
)
_FIRST_YEAR, _LAST_YEAR = 1000, 2100
_MONTHS = 12
_DAYS = (None, *range(1, 32))


@dataclass(frozen=True)
class Date(Span):
    """A date as (year, month, day); None for a missing part.

    At least two are known. There are several `readings` if day and month can be swapped.
    """

    readings: tuple[tuple[int | None, int | None, int | None], ...]

    @property
    def has_day(self) -> bool:
        return self.readings[0][2] is not None

    def agrees(self, other: Date) -> bool:
        """Whether they can be the same day, as far as their parts are known."""
        return any(
            all(a is None or b is None or a == b for a, b in zip(reading, another, strict=True))
            for reading in self.readings
            for another in other.readings
        )


@dataclass(frozen=True)
class Reading:
    """A text with the numbers and dates in it. `language` is its ISO 639-1 code."""

    text: str
    language: str
    quantities: tuple[Quantity, ...]
    dates: tuple[Date, ...]

    @cached_property
    def numbers(self) -> frozenset[Decimal]:
        """All values of its numbers, and the days, months and years of its dates."""
        values = {value for quantity in self.quantities for value in quantity.values}
        values |= {quantity.value % 12 for quantity in self.quantities if quantity.clock}
        fields = (field for date in self.dates for reading in date.readings for field in reading)
        return frozenset(values.union(Decimal(field) for field in fields if field is not None))

    @cached_property
    def codes(self) -> tuple[Code, ...]:
        return tuple(codes(self.text))

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """Its sentences and rows, in order."""
        return statements(self.text, self.language)

    @cached_property
    def years(self) -> dict[int, tuple[int, int]]:
        """Its years, with the characters [start, end) of each."""
        years = {
            int(number.value): number.span for number in self.quantities if self.is_year(number)
        }
        for date in self.dates:
            year, *_ = date.readings[0]
            if year is not None:
                start = self.text.rfind(str(year), date.start, date.end)
                years.setdefault(year, (max(start, date.start), date.end))
        return years

    def is_year(self, quantity: Quantity) -> bool:
        """Whether a number is most likely a year: four digits, and no unit."""
        shown = self.text[slice(*quantity.span)]
        if not shown.isdecimal() or (quantity.unit and quantity.unit.name != "year"):
            return False
        return len(shown) == 4 and _FIRST_YEAR <= int(shown) <= _LAST_YEAR


def read(text: str, language: str) -> Reading:
    """The numbers and dates of a text."""
    plain = _with_plain_spaces(text)
    dates = [*_numeric(plain, vocabulary(language).day_first), *_named(plain, language)]
    dates.sort(key=lambda date: date.start)
    numbers = quantities(plain, language, [*(date.span for date in dates), *addresses(plain)])
    numbers = with_compounds(plain, language, numbers)
    return Reading(text, language, tuple(numbers), tuple(dates))


read_sentence = lru_cache(maxsize=512)(read)
# Prompts are long, so few are kept.
read_prompt = lru_cache(maxsize=4)(read)


def _with_plain_spaces(text: str) -> str:
    """The text with plain characters for HTML's character references, of the same length.

    A reference for a sign or a space, such as &nbsp;, becomes that character with spaces before it,
    or between it and a number.
    """
    return _REFERENCE.sub(_character, text.replace("µ", "μ"))  # the sign, and the Greek letter


def _character(reference: re.Match[str]) -> str:
    character = unescape(reference[0])
    if len(character) != 1 or character.isalnum():
        return reference[0]
    if character.isspace():
        character = _NO_BREAK
    after = reference.string[reference.end() : reference.end() + 1]
    pad = character.ljust if after.isdecimal() else character.rjust
    return pad(len(reference[0]), _NO_BREAK)


def _numeric(text: str, day_first: bool | None) -> Iterator[Date]:
    """Dates in digits. If one has the day first, such as 25/12/2023, so have the others."""
    matches = list(_NUMERIC.finditer(text))
    days_first = {
        int(match["a"]) > _MONTHS
        for match in matches
        if match["a"] and max(int(match["a"]), int(match["b"])) > _MONTHS
    }
    if days_first:
        day_first = None if len(days_first) > 1 else days_first.pop()
    readings: list[tuple[int, int, int | None]]
    for match in matches:
        fields = [int(field) for field in match.groups() if field and field.isdecimal()]
        if not match["a"]:
            year, month, *days = fields
            readings = [(year, month, next(iter(days), None))]
        else:
            first, second, year = fields
            years = (year,) if year > 99 else (2000 + year, 1900 + year)
            is_dotted = match["t"] == "." and not days_first
            orders = [(second, first)] if day_first or is_dotted else [(first, second)]
            if day_first is None and not is_dotted:
                orders.append((second, first))
            readings = [(year, *order) for year in years for order in orders]
        valid = tuple(x for x in readings if 1 <= x[1] <= _MONTHS and x[2] in _DAYS)
        if valid:
            yield Date(*match.span(), valid)


def _named(text: str, language: str) -> Iterator[Date]:
    months = vocabulary(language).months
    for match in _month_pattern(language).finditer(text):
        month = months[match["month"].lower()]
        before, after, year = match["before"], match["after"], match["year"]
        number = int(before or after or 0)
        if number > 31 or not (number or year):
            continue
        reading = (int(year) if year else None, month, number or None)
        yield Date(*match.span(), (reading,))


@cache
def _month_pattern(language: str) -> re.Pattern[str]:
    """Matches named months with day and year.

    In Japanese, which writes months in digits, nothing matches.
    """
    names = sorted(vocabulary(language).months, key=len, reverse=True)
    named = [re.escape(name) for name in names if not name[:1].isdigit()]
    month = "|".join(named) or r"(?!)"
    link = r"(?:de|del|of|di|d')"
    ordinal = r"(?:st|nd|rd|th|er|\.|º|°|-?го|-?е)?"
    year = rf"(?:,?\s{{1,2}}(?:{link}\s)?(?P<year>\d{{4}})(?!\d|[.,]\d))?"
    return re.compile(
        rf"(?<![\w.,])(?:(?P<before>\d{{1,2}}){ordinal}\s{{0,2}}(?:{link}\s)?)?"
        rf"(?<![^\W\d_])(?P<month>{month})(?![^\W\d_])\.?"
        rf"(?:\s(?P<after>\d{{1,2}})(?:st|nd|rd|th)?(?![\d\w]|[.,]\d))?{year}",
        re.IGNORECASE,
    )
