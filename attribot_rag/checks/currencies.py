"""Names, codes and signs of currencies, from the Unicode CLDR."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from babel import Locale

# Currencies that share a noun, which alone does not tell them apart, by that noun.
_FAMILIES = {
    "crown": ("CZK", "DKK", "ISK", "NOK", "SEK"),
    "dollar": ("USD", "AUD", "CAD", "HKD", "NZD", "SGD"),
    "euro": ("EUR",),
    "forint": ("HUF",),
    "franc": ("CHF", "XAF", "XOF"),
    "peso": ("ARS", "CLP", "COP", "MXN"),
    "pound": ("EGP", "GBP"),
    "ruble": ("BYN", "RUB"),
    "rupee": ("INR", "LKR", "NPR", "PKR"),
    "yen": ("CNY", "JPY"),  # of the same sign
    "zloty": ("PLN",),
}
_CODES = {code: family for family, codes in _FAMILIES.items() for code in codes}
_SIGNS = {
    **dict.fromkeys(("$", "US$", "A$", "AU$", "C$", "CA$", "HK$", "NZ$", "S$"), "dollar"),
    **{"€": "euro", "£": "pound", "₽": "ruble", "руб": "ruble", "₹": "rupee", "¥": "yen"},
    **{"Kč": "crown", "kr": "crown", "zł": "zloty"},
}
# Nouns whose CLDR names differ from country to country, or have another before them.
_NOUNS = {
    word: family
    for family, words in {
        "crown": "crown crowns koruna korunas koruny korun krona kronor krone kroner króna krónur",
        "forint": "forint forints",
        "yen": "yen yens yuan yuans renminbi",
        "zloty": "zloty zlotys złoty złote złotych",
    }.items()
    for word in words.split()
}
_POWERS = {"k": 3, "m": 6, "mn": 6, "mio": 6, "bn": 9, "b": 9, "tn": 12}
_POWER = re.compile(rf"[^\S\n]?({'|'.join(_POWERS)})(?!\w)", re.IGNORECASE)
_MARK = "|".join(map(re.escape, sorted((*_SIGNS, *_CODES), key=len, reverse=True)))
# A sign between two numbers belongs to that at which it stands, else to that before it.
_BEFORE = re.compile(rf"(?<![\w$])(?:(?<!\d\s)(?P<apart>{_MARK})\s|(?P<at>{_MARK}))\u00a0*\Z")
_LONGEST = 24  # characters of a sign and the spaces after it


def currency_names(locale: Locale) -> Iterator[tuple[str, str]]:
    """Names, codes and signs in a language, each with the noun of its currency."""
    from babel.numbers import get_currency_name

    yield from (_SIGNS | _CODES | _NOUNS).items()
    for family, codes in _FAMILIES.items():
        shared: set[str] | None = None
        for code in codes:
            names = {get_currency_name(code, count, locale) for count in (None, 1, 2, 5, 1.5)}
            yield from ((name, family) for name in names)
            words = {word for name in names for word in re.split(r"[\s-]", name)}
            shared = words if shared is None else shared & words
        if len(codes) > 1:
            yield from ((word, family) for word in shared or ())


def currency_before(text: str, start: int) -> tuple[str, int, int] | None:
    """The noun of the currency whose sign or code stands before a number, and its characters."""
    match = _BEFORE.search(text, max(0, start - _LONGEST), start)
    if match is None:
        return None
    mark = "apart" if match["apart"] else "at"
    return (_SIGNS | _CODES)[match[mark]], match.start(mark), match.end(mark)


def power_after(text: str, end: int) -> tuple[Decimal, int] | None:
    """The power of ten that a letter after an amount of money tells, as in '$5m', and its end."""
    match = _POWER.match(text, end)
    return None if match is None else (Decimal(10) ** _POWERS[match[1].lower()], match.end())
