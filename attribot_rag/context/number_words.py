"""Numbers of a text: in digits, and in words as the Unicode CLDR spells them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.metadata import PackageNotFoundError
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unicode_rbnf import FormatPurpose, RbnfEngine

# Characters of scripts without spaces, words with their hyphens, signs, digits.
_TOKEN = re.compile(
    r"[\u3400-\u9fff]|[^\W\d_\u3400-\u9fff]+(?:[-‐'’][^\W\d_\u3400-\u9fff]+)*|[^\s\w]|\d+"
)
_DIGITS = re.compile(r"(?<![\d.,])\d+(?:[.,'’\u00a0\u202f]\d{3})*(?![.,]?\d)")
_LETTERS = re.compile(r"[^\W\d_]+")
_SEPARATOR = re.compile(r"\D")
GROUPING = " \u00a0\u2009\u202f'’٬"
"""Signs between thousands that stand for nothing else."""
_MARKS = re.compile("[.,٫]")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})*|\d{1,2}(?:,\d\d)*,\d{3}")  # also 12,34,500
_WITHOUT_GROUPING = str.maketrans("", "", GROUPING)
_LONGEST_SPELLED = 4
_MOST_WORDS = 3  # of a number below 100
_SPELLED = (*range(100), *range(100, 1_000, 100))
_POWERS = (1_000, 10_000, 10**5, 10**6, 10**7, 10**8, 10**9, 10**12)


@dataclass(frozen=True)
class NumberWords:
    """A number in words at the characters [start, end) of a text."""

    start: int
    end: int
    value: Decimal
    ordinal: bool


def number_words(text: str, language: str) -> list[NumberWords]:
    """The numbers in words of a text, in order; none in an unknown language."""
    spelled = _spelled(language) if _can_spell() else {}
    tokens = list(_TOKEN.finditer(text)) if spelled else []
    words = [token[0].lower() for token in tokens]
    firsts = _first_words(language) if spelled else frozenset()
    numbers: list[NumberWords] = []
    run: list[tuple[int, bool]] = []
    first = index = 0
    while index <= len(words):
        begins = index < len(words) and words[index] in firsts
        lengths = range(min(_MOST_WORDS, len(words) - index) * begins, 0, -1)
        length = next((n for n in lengths if " ".join(words[index : index + n]) in spelled), 0)
        if length:
            first = first if run else index
            run.append(spelled[" ".join(words[index : index + length])])
        elif run:
            value = Decimal(_composed([number for number, _ in run]))
            start, end = tokens[first].start(), tokens[index - 1].end()
            numbers.append(NumberWords(start, end, value, run[-1][1]))
            run = []
        index += length or 1
    return numbers


def number_values(numeral: str) -> frozenset[Decimal]:
    """The possible values of a number in digits: 7,200 is 7200, or 7.2 where the comma is decimal.

    White space and apostrophes may group its digits; none for what is no number, such as 1.2.3.
    """
    numeral = numeral.translate(_WITHOUT_GROUPING)
    groups, marks = _MARKS.split(numeral), _MARKS.findall(numeral)
    whole, part = groups[:-1], groups[-1]
    values = set()
    is_grouped = len({*marks}) == 1 and _GROUPED.fullmatch(",".join(groups)) is not None
    if not marks or (is_grouped and whole != ["0"]):
        values.add(Decimal("".join(groups)))
    if (
        marks
        and marks[-1] not in marks[:-1]
        and (not marks[1:] or _GROUPED.fullmatch(",".join(whole)))
    ):
        values.add(Decimal(f"{''.join(whole)}.{part}"))
    return frozenset(values)


def other_spellings(text: str, language: str) -> frozenset[str]:
    """Other spellings of the whole numbers of a text, in lower case.

    Numbers in words as digits, and digits, without the separators of thousands, as the words of the
    language.
    """
    spelled = {f"{number.value.normalize():f}" for number in number_words(text, language)}
    for match in _DIGITS.finditer(text):
        digits = _SEPARATOR.sub("", match[0])
        spelled.add(digits)
        if len(digits) <= _LONGEST_SPELLED and _can_spell():
            spelled |= _words_of(int(digits), language)
    return frozenset(spelled)


@cache
def _words_of(number: int, language: str) -> frozenset[str]:
    spellings = (_spellings(language, number, purpose) for purpose in _purposes())
    return frozenset(_LETTERS.findall(" ".join(chain.from_iterable(spellings))))


def _composed(numbers: Sequence[int]) -> int:
    """The sum of number words: 2, 1000, 5, 100, 3 is 2503."""
    total = group = last = 0
    for number in numbers:
        if number >= 1_000:
            total, group = total + max(group, 1) * number, 0
        elif number in (10, 100) and 0 < last < 10:
            group += last * number - last
        else:
            group += number
        last = number
    return total + group


@cache
def _spelled(language: str) -> dict[str, tuple[int, bool]]:
    """Words of numbers in all cases, with spaces between: their values, and whether ordinals."""
    cardinal, ordinal = _purposes()
    spelled: dict[str, tuple[int, bool]] = {}
    for purpose in (cardinal, ordinal):
        for number in _SPELLED:
            for words in _words(language, number, purpose):
                if len(words) <= _MOST_WORDS:
                    spelled.setdefault(" ".join(words), (number, purpose is ordinal))
    powers = {**_last_words(language, (100,)), **power_words(language)}
    return {**{word: (power, False) for word, power in powers.items()}, **spelled}


@cache
def _first_words(language: str) -> frozenset[str]:
    """The words with which these begin."""
    return frozenset(words.partition(" ")[0] for words in _spelled(language))


def power_words(language: str) -> dict[str, int]:
    """Words of powers of ten from 1,000 on, in all cases, such as 'lakh' in en_IN."""
    return _last_words(language, _POWERS) if _can_spell() else {}


@cache
def _last_words(language: str, powers: tuple[int, ...]) -> dict[str, int]:
    """The last words of spelled powers of ten, each of the least that ends in it."""
    cardinal, _ = _purposes()
    last: dict[str, int] = {}
    for power in powers:
        for times in (1, 2, 5):  # forms of the plural
            for words in _words(language, times * power, cardinal):
                if times == 1 or len(words) > 1:  # not one word for both, as in 'zweitausend'
                    last.setdefault(words[-1], power)
    return last


def _can_spell() -> bool:
    """Whether unicode-rbnf can read its own metadata; frozen applications may lack it."""
    try:
        import unicode_rbnf  # noqa: F401
    except PackageNotFoundError:
        return False
    return True


def _purposes() -> tuple[FormatPurpose, FormatPurpose]:
    """The purposes of cardinals and of ordinals."""
    from unicode_rbnf import FormatPurpose

    return FormatPurpose.CARDINAL, FormatPurpose.ORDINAL


def _words(language: str, number: int, purpose: FormatPurpose) -> Iterator[list[str]]:
    """The words of a number in all cases."""
    for spelling in _spellings(language, number, purpose):
        words: list[str] = _TOKEN.findall(spelling)
        if words and "".join(words).replace("-", "").isalpha():
            yield words


def _spellings(language: str, number: int, purpose: FormatPurpose) -> list[str]:
    """A number in words in all cases, in lower case; none in an unknown language."""
    from unicode_rbnf.engine import RbnfError

    try:
        spellings = _engine(language).format_number(number, purpose).text_by_ruleset.values()
    except (ValueError, RbnfError):  # the language is not known, or has no ordinals
        return []
    return [spelling.replace("\u00ad", "").lower() for spelling in spellings]


@cache
def _engine(language: str) -> RbnfEngine:
    from unicode_rbnf import RbnfEngine

    return RbnfEngine.for_language(language)
