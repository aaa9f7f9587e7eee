"""The values of a text that can be compared: its numbers and dates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from html import unescape

from attribot_rag.checks.dates import Date, dates, is_year
from attribot_rag.checks.quantities import Quantity, quantities

_NO_BREAK = "\u00a0"
_UNSEEN = str.maketrans(dict.fromkeys("\u200b\u2060\ufeff", _NO_BREAK))
_REFERENCE = re.compile(r"&(?:#\d{1,6}|#[xX][\da-fA-F]{1,5}|[A-Za-z]{2,8});")


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
        fields = (field for date in self.dates for reading in date.readings for field in reading)
        return frozenset(values.union(Decimal(field) for field in fields if field is not None))

    @cached_property
    def years(self) -> dict[int, tuple[int, int]]:
        """Its years, with the characters [start, end) of each."""
        years = {
            int(number.value): number.span for number in self.quantities if self.is_year(number)
        }
        for date in self.dates:
            if date.year is not None:
                start = self.text.rfind(str(date.year), date.start, date.end)
                years.setdefault(date.year, (max(start, date.start), date.end))
        return years

    def is_year(self, quantity: Quantity) -> bool:
        shown = self.text[slice(*quantity.span)]
        may_be = quantity.unit is None or quantity.unit.name == "year"
        return may_be and len(shown) == 4 and shown.isdecimal() and is_year(int(shown))


@lru_cache(maxsize=512)
def read(text: str, language: str) -> Reading:
    """The numbers and dates of a sentence."""
    return _read(text, language)


@lru_cache(maxsize=4)
def read_prompt(text: str, language: str) -> Reading:
    """The numbers and dates of a long text, of which few are kept."""
    return _read(text, language)


def _read(text: str, language: str) -> Reading:
    plain = _with_plain_spaces(text)
    its_dates = tuple(dates(plain, language))
    numbers = quantities(plain, language, [date.span for date in its_dates])
    return Reading(text, language, tuple(numbers), its_dates)


def _with_plain_spaces(text: str) -> str:
    """The text with no-break spaces for what nobody sees, of the same length.

    A character reference of HTML for a sign or a space, such as &nbsp;, is that character with
    spaces before it, or between it and a number.
    """
    return _REFERENCE.sub(_character, text.translate(_UNSEEN))


def _character(reference: re.Match[str]) -> str:
    character = unescape(reference[0])
    if len(character) != 1 or character.isalnum():
        return reference[0]
    if character.isspace():
        character = _NO_BREAK
    after = reference.string[reference.end() : reference.end() + 1]
    pad = character.ljust if after.isdecimal() else character.rjust
    return pad(len(reference[0]), _NO_BREAK)
