"""Abbreviated months and days of the week, after whose full stop a date goes on."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

_LAST_WORD = re.compile(
    r"(?P<number>\d{1,2}\.?\s(?:[^\W\d_]{1,3}\s)?)?(?<!\w)(?P<word>[^\W\d_]{2,})\.\s+\Z"
)
_YEAR = re.compile(r"[12]\d{3}(?!\w)")
_DAY = re.compile(r"\d{1,2}(?:\.|er|º)?\s([^\W\d_]+)(?:\s([^\W\d_]+))?")
_LEAST_LETTERS = 3
_LONGEST = 40  # characters of a date


def is_within_date(text: str, end: int, language: str) -> bool:
    """Whether the full stop before this end is that of a month or a day of the week in a date.

    By the names of the Unicode CLDR, and by what begins such a name. After a month comes its year,
    or its day, where the language has it there; after a day of the week a day and its month.
    """
    if not text[end : end + 1].isdigit():
        return False
    before = _LAST_WORD.search(text, max(0, end - _LONGEST), end)
    if before is None:
        return False
    names = _names(language)
    if names.is_short_month(before["word"]):
        is_told = before["number"] is not None or names.month_first
        return is_told or _YEAR.match(text, end) is not None
    day = _DAY.match(text, end, end + _LONGEST)
    after = filter(None, day.groups()) if day else ()
    return before["word"] in names.days and any(map(names.is_month, after))


def begins_with_ordinal_sign(text: str, end: int) -> bool:
    """Whether a sign such as º stands right after the full stop before this end, as in n.º 7."""
    sign = text[end : end + 1]
    is_raised = sign.isalpha() and unicodedata.decomposition(sign).startswith("<super>")
    return text[end - 1 : end] == "." and (is_raised or sign == "°")


@dataclass(frozen=True)
class _Names:
    """Names of a language: months written out and abbreviated, in lower case, abbreviated days.

    `month_first` says whether it writes the month before the day.
    """

    whole_months: frozenset[str]
    short_months: frozenset[str]
    days: frozenset[str]
    month_first: bool

    def is_short_month(self, word: str) -> bool:
        word = word.lower()
        if word in self.whole_months:
            return False
        begins = (name.startswith(word) for name in self.whole_months)
        return word in self.short_months or (len(word) >= _LEAST_LETTERS and any(begins))

    def is_month(self, word: str) -> bool:
        return word.lower() in self.whole_months or self.is_short_month(word)


@cache
def _names(language: str) -> _Names:
    """The names in a language (ISO 639-1); none, where the CLDR lacks the language."""
    from babel import Locale, UnknownLocaleError

    try:
        locale = Locale.parse(language)
    except (UnknownLocaleError, ValueError):
        return _Names(frozenset(), frozenset(), frozenset(), False)
    whole, short = (
        {
            name.lower()
            for context in ("format", "stand-alone")
            for name in _listed(months[context][width])
        }
        for months, width in ((locale.months, "wide"), (locale.months, "abbreviated"))
    )
    days = {*_listed(locale.days["format"]["abbreviated"])}
    order = locale.date_formats["long"].pattern
    month_first = 0 <= order.find("M") < order.find("d")
    return _Names(frozenset(whole), frozenset(short), frozenset(days), month_first)


def _listed(names: Mapping[int, str]) -> Iterator[str]:
    """Names without their full stops."""
    return (name.rstrip(".") for name in names.values())
