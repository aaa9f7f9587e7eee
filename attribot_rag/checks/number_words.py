"""Numbers that are written as words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unicode_rbnf import FormatPurpose, RbnfEngine

# text2num knows the grammar of these; of other languages the CLDR tells the words.
_GRAMMARS = ("da", "de", "en", "es", "fr", "it", "nl", "pt")
# Without halves of surrogate pairs, which text2num cannot read.
_TOKEN = re.compile(
    r"[\u3400-\u9fff]|[^\W\d_\u3400-\u9fff]+(?:[-‐'’][^\W\d_\u3400-\u9fff]+)*|[^\s\w\ud800-\udfff]|\d+"
)
_SPELLED = (*range(100), *range(100, 1_000, 100))
_POWERS = (100, 1_000, 10_000, 10**6, 10**8, 10**9, 10**12)


@dataclass(frozen=True)
class NumberWords:
    """A number in words at the characters [start, end) of a text."""

    start: int
    end: int
    value: Decimal
    ordinal: bool


@dataclass(frozen=True)
class _Token:
    """A word in the form that text2num reads."""

    word: str

    def text(self) -> str:
        return self.word

    def nt_separated(self, previous: _Token) -> bool:
        return False

    def not_a_number_part(self) -> bool:
        return self.word.isdigit()


def number_words(text: str, language: str) -> list[NumberWords]:
    """The numbers in words of a text, in order; none in an unknown language."""
    tokens = [(match.start(), match.end(), match[0]) for match in _TOKEN.finditer(text)]
    words = [word for _, _, word in tokens]
    spoken = _by_grammar(words, language) if language in _GRAMMARS else _by_words(words, language)
    return [
        NumberWords(tokens[first][0], tokens[last - 1][1], value, ordinal)
        for first, last, value, ordinal in spoken
    ]


_Spoken = tuple[int, int, Decimal, bool]


def _by_grammar(words: Sequence[str], language: str) -> Iterator[_Spoken]:
    from text_to_num import find_numbers

    numbers = find_numbers([_Token(word) for word in words], language, threshold=0)
    previous: _Spoken | None = None
    for number in numbers:
        value = Decimal(str(number.value))
        spoken = (number.start, number.end, value, number.is_ordinal)
        if previous is not None and _is_year(previous, spoken):
            spoken = (previous[0], number.end, 100 * previous[2] + value, False)
            previous = None
        if previous is not None:
            yield previous
        previous = spoken
    if previous is not None:
        yield previous


def _is_year(first: _Spoken, second: _Spoken) -> bool:
    """Whether two numbers are a year, as in 'nineteen ninety-four'."""
    return (
        first[1] == second[0]
        and not (first[3] or second[3])
        and 10 <= first[2] <= 20
        and 10 <= second[2] < 100
    )


def _by_words(words: Sequence[str], language: str) -> Iterator[_Spoken]:
    """Runs of number words, as the CLDR spells them."""
    spelled = _spelled(language)
    run: list[tuple[int, bool]] = []
    for index, word in enumerate((*words, "")):
        value = spelled.get(word.lower()) if word else None
        if value is not None:
            run.append(value)
        elif run:
            numbers = [number for number, _ in run]
            yield index - len(run), index, Decimal(_composed(numbers)), run[-1][1]
            run = []


def _composed(numbers: Sequence[int]) -> int:
    """The number that these make: 2, 1000, 5, 100, 3 is 2503."""
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
    """Words of numbers with their values, in all cases, and whether they are ordinals."""
    from unicode_rbnf import FormatPurpose

    spelled: dict[str, tuple[int, bool]] = {}
    for purpose in (FormatPurpose.CARDINAL, FormatPurpose.ORDINAL):
        for number in _SPELLED:
            for words in _spellings(language, number, purpose):
                if len(words) == 1:
                    spelled.setdefault(words[0], (number, purpose is FormatPurpose.ORDINAL))
    for power in _POWERS:
        for times in (1, 2, 5):  # forms of the plural
            for words in _spellings(language, times * power, FormatPurpose.CARDINAL):
                spelled.setdefault(words[-1], (power, False))
    return spelled


def _spellings(language: str, number: int, purpose: FormatPurpose) -> Iterator[list[str]]:
    """The words of a number in all cases; none in an unknown language."""
    from unicode_rbnf.engine import RbnfError

    try:
        spellings = _engine(language).format_number(number, purpose).text_by_ruleset.values()
    except (ValueError, RbnfError):  # the language is not known, or has no ordinals
        return
    for spelling in spellings:
        words: list[str] = _TOKEN.findall(spelling.replace("\u00ad", "").lower())
        if words and "".join(words).isalpha():
            yield words


@cache
def _engine(language: str) -> RbnfEngine:
    from unicode_rbnf import RbnfEngine

    return RbnfEngine.for_language(language)
