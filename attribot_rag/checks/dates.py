"""The dates of a text: days, months and years, as far as they stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from attribot_rag.checks.vocabulary import vocabulary
from attribot_rag.context.intervals import Interval

_NUMERIC = re.compile(
    r"(?<![\d.,/-])(?:(?P<y>\d{4})(?P<s>[-/.])(?P<m>\d{1,2})(?P=s)(?P<d>\d{1,2})"
    r"|(?P<a>\d{1,2})(?P<t>[-/.])(?P<b>\d{1,2})(?P=t)(?P<z>\d{4}))(?!\d)"
    r"|(?P<cy>\d{4})\s?年\s?(?P<cm>\d{1,2})\s?月(?:\s?(?P<cd>\d{1,2})\s?日)?"
)
_FIRST_YEAR, _LAST_YEAR = 1000, 2100


@dataclass(frozen=True)
class Date:
    """A date at the characters [start, end), as (year, month, day); None for what is missing.

    `readings` are several where day and month can be taken for each other.
    """

    start: int
    end: int
    readings: tuple[tuple[int | None, int | None, int | None], ...]

    @property
    def span(self) -> Interval:
        return self.start, self.end

    @property
    def year(self) -> int | None:
        return self.readings[0][0]

    @property
    def has_day(self) -> bool:
        return self.readings[0][2] is not None

    def agrees(self, other: Date) -> bool:
        """Whether they can be the same day, as far as both are complete."""
        return any(
            all(a is None or b is None or a == b for a, b in zip(reading, another, strict=True))
            for reading in self.readings
            for another in other.readings
        )


def is_year(number: int) -> bool:
    """Whether a number of four digits is likely to be a year."""
    return _FIRST_YEAR <= number <= _LAST_YEAR


def dates(text: str, language: str) -> list[Date]:
    """The dates of a text with at least two of day, month and year, in order."""
    written = [*_numeric(text), *_named(text, language)]
    return sorted(written, key=lambda date: date.start)


def _numeric(text: str) -> Iterator[Date]:
    for match in _NUMERIC.finditer(text):
        if match["cy"]:
            day = int(match["cd"]) if match["cd"] else None
            yield Date(*match.span(), ((int(match["cy"]), int(match["cm"]), day),))
            continue
        if match["y"]:
            readings = [(int(match["y"]), int(match["m"]), int(match["d"]))]
        else:
            first, second, year = int(match["a"]), int(match["b"]), int(match["z"])
            readings = [(year, second, first), (year, first, second)]
        valid = tuple(x for x in readings if 1 <= x[1] <= 12 and 1 <= x[2] <= 31)
        if valid:
            yield Date(*match.span(), valid)


def _named(text: str, language: str) -> Iterator[Date]:
    months = vocabulary(language).months
    for match in _pattern(language).finditer(text):
        month = months[match["month"].lower()]
        before, after, year = match["before"], match["after"], match["year"]
        number = int(before or after or 0)
        if number > 31 or not (number or year):
            continue
        reading = (int(year) if year else None, month, number or None)
        yield Date(*match.span(), (reading,))


@cache
def _pattern(language: str) -> re.Pattern[str]:
    names = sorted(vocabulary(language).months, key=len, reverse=True)
    month = "|".join(re.escape(name) for name in names if not name[:1].isdigit())
    link = r"(?:de|del|of|di|d')"
    ordinal = r"(?:st|nd|rd|th|er|\.|º|°|-?го|-?е)?"
    year = rf"(?:,?\s{{1,2}}(?:{link}\s)?(?P<year>\d{{4}})(?!\d|[.,]\d))?"
    return re.compile(
        rf"(?<![\w.,])(?:(?P<before>\d{{1,2}}){ordinal}\s{{0,2}}(?:{link}\s)?)?"
        rf"(?<![^\W\d_])(?P<month>{month})(?![^\W\d_])\.?"
        rf"(?:\s(?P<after>\d{{1,2}})(?:st|nd|rd|th)?(?![\d\w]|[.,]\d))?{year}",
        re.IGNORECASE,
    )
