"""Full stops within dates: after abbreviated months and days of the week."""

from __future__ import annotations

import re
import unicodedata

_LONGEST = 40  # characters of a date
_LINK = r"(?:[^\W\d_]{1,3}\s)?"  # de, of
_DAY = r"(?<![\d.,])(?:0?[1-9]|[12]\d|3[01])"
_YEAR = r"[12]\d{3}(?!\w)"
_DAY_AND_MONTH = re.compile(rf"{_DAY}\.?\s{_LINK}[^\W\d_]{{2,5}}\.\s+\Z")
_SHORT = re.compile(r"(?<!\w)[^\W\d_]{2,5}\.\s+\Z")
_WEEKDAY = re.compile(r"(?:\A|(?P<before>\S)\s+)(?P<word>[^\W\d_]{2,3})\.\s+\Z")
_WHOLE_YEAR = re.compile(_YEAR)
_LAST_YEAR = re.compile(rf"{_YEAR}(?=\s*(?:[.,;:)]|\Z))")
_DATE = re.compile(
    rf"\d{{1,2}}(?P<sign>\.|er|º)?\s{_LINK}(?P<month>[^\W\d_]+)\.?(?P<year>\s{_LINK}{_YEAR})?"
)


def is_within_date(text: str, end: int, *, has_dotted_ordinals: bool) -> bool:
    """Whether the full stop before this end belongs to a month or weekday in a date.

    Such words are short. A month stands between a day and a year, or before a year that ends its
    clause; a day of the week before a day, a month and a year, or, where both names are written
    with a capital, before a day and a month. `has_dotted_ordinals` says whether the language writes
    the third as "3.".
    """
    if not text[end : end + 1].isdigit():
        return False
    first = max(0, end - _LONGEST)
    if _DAY_AND_MONTH.search(text, first, end) and _WHOLE_YEAR.match(text, end):
        return True
    if _SHORT.search(text, first, end) and _LAST_YEAR.match(text, end):
        return True
    weekday = _WEEKDAY.search(text, first, end)
    date = _DATE.match(text, end, end + _LONGEST) if weekday else None
    if weekday is None or date is None:
        return False
    has_day = bool(date["sign"]) or not has_dotted_ordinals
    return has_day and (date["year"] is not None or _are_names(weekday, date["month"]))


def _are_names(weekday: re.Match[str], month: str) -> bool:
    """Whether both have a capital, the first within its sentence."""
    before = weekday["before"] or ","
    return weekday["word"].istitle() and month.istitle() and (before == "," or before.islower())


def begins_with_ordinal_sign(text: str, end: int) -> bool:
    """Whether a sign such as º stands right after the full stop before this end, as in n.º 7."""
    sign = text[end : end + 1]
    is_raised = sign.isalpha() and unicodedata.decomposition(sign).startswith("<super>")
    return text[end - 1 : end] == "." and (is_raised or sign == "°")
