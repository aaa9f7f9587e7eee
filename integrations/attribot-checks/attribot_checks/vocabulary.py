"""Names of months, units, currencies and powers of ten in a language, from the Unicode CLDR."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import TYPE_CHECKING, Any

from attribot_rag.annotation import UNSPACED, power_words

if TYPE_CHECKING:
    from babel import Locale

# If several units have the same name, such as "m", the first one counts.
_DIMENSIONS = (
    *("length", "area", "volume", "mass", "temperature", "speed"),
    *("power", "energy", "pressure", "frequency", "digital", "duration"),
)
# Names that are also everyday words, or that only experts know as units.
_LEFT_OUT = re.compile(
    r"generic|point|solar|earth|dalton|grain|dram|jigger|pinch|drop|spoon|cup|person|night"
    r"|quarter|decade|century|light|scandinavian|metric$|dunam|carat|therm|beaufort|gasoline"
)
_PERCENT = "concentr-percent"
CURRENCY = "currency"
# Words and parts of regular expressions that neither the CLDR nor another library has.
WORDS: dict[str, Any] = json.loads(
    files("attribot_checks").joinpath("words.json").read_text("utf-8")
)
_SPELLINGS = {"en": ("en", "en_GB"), "pt": ("pt", "pt_PT")}
_POWERS_TOO = {"en": ("en_IN",)}  # a crore
_COUNTS = (1, 2, 5, 1.5)
_LONGEST_INFLECTED = 2  # letters of an ending that CLDR does not list, as in "Metern"
_INFLECTED = 4


@dataclass(frozen=True)
class Unit:
    """A unit of the CLDR: its `dimension`, such as 'length', and its `name`, such as 'foot'.

    Currencies with the same noun, such as 'dollar', are one unit.
    """

    dimension: str
    name: str

    @property
    def is_percent(self) -> bool:
        return self.name == "percent"

    @property
    def is_currency(self) -> bool:
        return self.dimension == CURRENCY

    def has_name_of(self, other: Unit) -> bool:
        """Whether both may have the same name, as two kinds of gallons or of pounds have."""
        return self.name.partition("-")[0] == other.name.partition("-")[0]


CENT = Unit(CURRENCY, "cent")
HUNDREDTHS = (CENT, Unit("concentr", "basis-point"))


@dataclass(frozen=True)
class Vocabulary:
    """The names in one language. Months and scales are in lower case, without a full stop.

    `day_first` says whether dates in digits begin with the day; None if that varies.
    """

    months: dict[str, int]
    scales: dict[str, Decimal]
    day_first: bool | None
    _units: dict[str, Unit]
    _unit_names: re.Pattern[str]
    _scale_names: re.Pattern[str]

    def scale_at(self, text: str, position: int) -> tuple[Decimal, int] | None:
        """The power of ten whose name begins at this character, and where the name ends.

        The name may have one more letter than in the CLDR, as 'crores' has.
        """
        match = self._scale_names.match(text, position)
        if match is None or (match["ending"] and self.unit_at(text, position)):
            return None
        name = match["unspaced"] or match["long"] or match["short"]
        return self.scales[" ".join(name.lower().split())], match.end()

    def unit_at(self, text: str, position: int) -> tuple[Unit, int] | None:
        """The unit whose name begins at this character, and where the name ends."""
        match = self._unit_names.match(text, position)
        if match is None:
            return None
        name = match["symbol"] or " ".join((match["name"] or match["money"]).lower().split())
        return self._units[name], match.end()


@cache
def vocabulary(language: str) -> Vocabulary:
    """The names in a language (ISO 639-1); the English ones if the CLDR lacks the language."""
    from babel import Locale, UnknownLocaleError

    try:
        locales = list(map(Locale.parse, _SPELLINGS.get(language, (language,))))
    except (UnknownLocaleError, ValueError):
        return vocabulary("en")
    units: dict[str, Unit] = {}
    for locale in locales:
        money = ((name, Unit(CURRENCY, noun)) for name, noun in currency_names(locale))
        others = (
            (name, Unit(*key.split("/")))
            for key, names in WORDS["units"].items()
            for name in names.split(",")
        )
        for name, unit in chain(_units(locale), others, money):
            units.setdefault(name if _is_symbol(name) else name.lower(), unit)
    months = {name: number for locale in locales for name, number in _months(locale).items()}
    scales = dict.fromkeys(WORDS["dozens"].split(","), Decimal(12))
    for name in (str(locales[0]), *_POWERS_TOO.get(language, ())):
        spelled = ((word, Decimal(power)) for word, power in power_words(name).items())
        for word, value in chain(_scales(Locale.parse(name)), spelled):
            scales.setdefault(" ".join(word.split()), value)
    order = [sign for sign in locales[0].date_formats["short"].pattern if sign in "dMy"]
    day_first = None if language == "en" or order[0] == "y" else order[0] == "d"
    return Vocabulary(months, scales, day_first, units, _pattern(units), _scale_pattern(scales))


def _is_symbol(name: str) -> bool:
    """Whether case matters: MB is not mb."""
    return len(name) < _INFLECTED


def _months(locale: Locale) -> dict[str, int]:
    return {
        name.lower().rstrip("."): number
        for context in ("format", "stand-alone")
        for width in ("abbreviated", "wide")
        for number, name in locale.months[context][width].items()
    }


def _scales(locale: Locale) -> Iterator[tuple[str, Decimal]]:
    """Powers of ten from 1,000 on, such as 'million' and 'Mio', with their values."""
    for formats in locale.compact_decimal_formats.values():
        for of_plural in formats.values():
            for power, pattern in of_plural.items():
                digits = pattern.pattern.partition(";")[0]
                name = re.sub("[0'\u200f]", "", digits).strip(" .\xa0")
                if len(name) > 1 or name == "K" or not name.isascii():
                    yield name.lower(), Decimal(power).scaleb(1 - max(1, digits.count("0")))


def _units(locale: Locale) -> Iterator[tuple[str, Unit]]:
    """Names and their units: all forms for counts, long ones first."""
    from babel.numbers import format_decimal
    from babel.units import format_unit

    counts = {count: format_decimal(count, locale=locale) for count in _COUNTS}
    identifiers = [_PERCENT]
    for dimension in _DIMENSIONS:
        names = map(str, locale.unit_display_names)
        identifiers += [name for name in names if name.startswith(f"{dimension}-")]
    for identifier in identifiers:
        dimension, _, unit = identifier.partition("-")
        if _LEFT_OUT.search(unit):
            continue
        for length in ("long", "short"):
            for count, number in counts.items():
                shown = format_unit(count, identifier, length, locale=locale)
                name = " ".join(shown.replace(number, "").rstrip(".").split())
                if name not in ("", "in", identifier) and not any(map(str.isdecimal, name)):
                    yield name, Unit(dimension, unit)


def _pattern(units: dict[str, Unit]) -> re.Pattern[str]:
    """Matches the longest name, perhaps after a hyphen or white space.

    Long names match in any case.

    Names of currencies must not have another ending: 'France' is no franc.
    """
    names = sorted(units, key=len, reverse=True)
    symbols = _any_of(name for name in names if _is_symbol(name))
    words = [name for name in names if not _is_symbol(name)]
    money = _any_of(name for name in words if units[name].is_currency)
    others = _any_of(name for name in words if not units[name].is_currency)
    ending = rf"[^\W\d_]{{0,{_LONGEST_INFLECTED}}}"
    return re.compile(
        rf"(?:[-\s]|\u00a0+)?(?:(?P<name>(?i:{others})){ending}|(?P<money>(?i:{money}))"
        rf"|(?P<symbol>{symbols}))(?!\w)"
    )


def _any_of(names: Iterable[str]) -> str:
    """A pattern of these names, with any space between words. Without names, it matches nothing."""
    return "|".join(r"\s".join(map(re.escape, name.split())) for name in names) or "(?!)"


def _scale_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Matches the longest name of a power of ten in any case, perhaps after one other character."""
    ordered = sorted(names, key=len, reverse=True)
    spaced = [name for name in ordered if name < UNSPACED]
    unspaced = _any_of(name for name in ordered if name >= UNSPACED)
    short = _any_of(name for name in spaced if _is_symbol(name))
    long = _any_of(name for name in spaced if not _is_symbol(name))
    return re.compile(
        rf"\W?(?:(?P<unspaced>{unspaced})"
        rf"|(?:(?P<long>{long})(?P<ending>[^\W\d_])?|(?P<short>{short}))(?!\w))",
        re.IGNORECASE,
    )


# Several currencies share a noun; some have other names in the CLDR.
_CURRENCY_CODES, _SIGNS, _NOUNS = (
    {word: family for family, words in WORDS[name].items() for word in words.split()}
    for name in ("currencies", "currency_signs", "currency_nouns")
)
_POWERS = {"k": 3, "m": 6, "mn": 6, "mio": 6, "bn": 9, "b": 9, "tn": 12}
_POWER = re.compile(rf"[^\S\n]?({'|'.join(_POWERS)})(?!\w)", re.IGNORECASE)
_MARK = "|".join(map(re.escape, sorted((*_SIGNS, *_CURRENCY_CODES), key=len, reverse=True)))
# A sign between two numbers belongs to the number that it touches, else to the one before it.
_BEFORE = re.compile(rf"(?<![\w$])(?:(?<!\d\s)(?P<apart>{_MARK})\s|(?P<at>{_MARK}))\u00a0*\Z")
_LONGEST_SIGN = 24  # characters of a sign and the spaces after it


def currency_names(locale: Locale) -> Iterator[tuple[str, str]]:
    """Names, codes and signs in a language, each with the noun of its currency."""
    from babel.numbers import get_currency_name

    yield from (_SIGNS | _CURRENCY_CODES | _NOUNS).items()
    for family, listed in WORDS["currencies"].items():
        names = [
            {get_currency_name(code, count, locale) for count in (None, *_COUNTS)}
            for code in listed.split()
        ]
        words = [{word for name in of for word in re.split(r"[\s-]", name)} for of in names]
        shared = set.intersection(*words) if len(words) > 1 else ()
        yield from ((name, family) for name in {*chain(*names), *shared})


def currency_before(text: str, start: int) -> tuple[str, int, int] | None:
    """The noun of the currency whose sign or code stands before a number, and its characters."""
    match = _BEFORE.search(text, max(0, start - _LONGEST_SIGN), start)
    if match is None:
        return None
    mark = "apart" if match["apart"] else "at"
    return (_SIGNS | _CURRENCY_CODES)[match[mark]], match.start(mark), match.end(mark)


def power_after(text: str, end: int) -> tuple[Decimal, int] | None:
    """The power of ten for a letter after an amount of money, as in '$5m', and the letter's end."""
    match = _POWER.match(text, end)
    return None if match is None else (Decimal(10) ** _POWERS[match[1].lower()], match.end())
