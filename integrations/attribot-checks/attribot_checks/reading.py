"""The sentences, numbers and dates of a text, which can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from html import unescape
from itertools import accumulate

from attribot_checks.numerals import Code, Span, addresses, codes
from attribot_checks.quantities import Quantity, quantities, with_compounds
from attribot_checks.vocabulary import vocabulary
from attribot_rag.annotation import Check, Interval, same_word, sentences, words

_CELLS = re.compile(r"[|\t;]|(?<!\d),(?=\S)|,(?=[^\W\d])")
_NUMERAL = re.compile(r"\d+(?:[.,:]\d+)*")
_LEAST_LETTERS = 3


@dataclass(frozen=True)
class Statement:
    """A sentence or a row of a text, which ends before its character `end`."""

    end: int
    text: str

    @property
    def is_row(self) -> bool:
        return _CELLS.search(self.text) is not None

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words in lower case, without short ones, and its numbers."""
        long = (
            word
            for word in words(_NUMERAL.sub(" ", self.text.lower()))
            if len(word) >= _LEAST_LETTERS or not word.isascii()
        )
        return frozenset((*long, *_NUMERAL.findall(self.text)))

    def num_shared(self, other: Statement) -> int:
        """How many words of another statement it has."""
        return sum(any(same_word(word, own) for own in self.words) for word in other.words)


def value_check(
    kind: str, text: str, span: Interval, source: int | None = None, shown: str | None = None
) -> Check:
    """The check of these characters of a sentence, with the value that a source has there."""
    start, end = span
    value = text[start:end]
    return Check(start=start, end=end, kind=kind, value=value, source_value=shown, source=source)


@dataclass(frozen=True)
class StatedValue:
    """A value as it is `shown` in the `statement` of a source, and whether others confirm it."""

    source: int
    shown: str
    statement: Statement
    is_likely: bool


def statements(text: str, language: str) -> tuple[Statement, ...]:
    """The sentences of a text in order. If all lines have cells, the lines."""
    lines = text.splitlines(keepends=True)
    are_rows = all(_CELLS.search(line) for line in lines)
    pieces = lines if are_rows else sentences(text, language)
    ends = accumulate(map(len, pieces))
    return tuple(Statement(end, piece) for end, piece in zip(ends, pieces, strict=True))


def spoken_of(
    sentence: str, values: Sequence[StatedValue], texts: Iterable[Statement]
) -> StatedValue | None:
    """The value in the statement that shares most words with a sentence.

    None if several values differ there, or if it is in a row and another row shares more words.
    """
    own = Statement(len(sentence), sentence)
    ranks = [(value.statement.num_shared(own), value.is_likely) for value in values]
    best = max(ranks)
    first, *others = (value for value, rank in zip(values, ranks, strict=True) if rank == best)
    if any(other.shown != first.shown for other in others):
        return None
    rows = (text for text in texts if first.statement.is_row and text.is_row)
    return None if any(row.num_shared(own) > best[0] for row in rows) else first


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
