"""The rules of text: words and their borders, numbers in digits and in words, intervals."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING

from rapidfuzz.distance import Prefix

if TYPE_CHECKING:
    from unicode_rbnf import FormatPurpose, RbnfEngine

# Scripts without spaces between words (Thai to Khmer, Japanese, Chinese): each character is a word.
UNSPACED_LETTERS = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{UNSPACED_LETTERS}]|[^\W{UNSPACED_LETTERS}]+")
_UNSPACED_LETTER = re.compile(f"[{UNSPACED_LETTERS}]")
NUMBER = r"\d+(?:[.,:]\d+)*"
"""The pattern of a number in digits, as it is written: 7,200, 3.5 or 10:30."""
_NUMBER = re.compile(NUMBER)
_WORD_OR_NUMBER = re.compile(rf"{NUMBER}|[^\W\d_]+")
LEAST_LETTERS = 4
"""Those of a word that says something; shorter ones mostly join others."""
QUESTION_WORDS = 3
"""The least words of a question, or of another request."""
_QUESTION_MARKS = ("?", "？", "؟")

_LIST_NUMBER = re.compile(r"^[ \t]*\d{1,3}[.)](?=[ \t]+\S)", re.MULTILINE)


def words(text: str) -> list[str]:
    """The words of a text; in scripts without spaces, single characters."""
    return _WORD.findall(text)


def words_and_numbers(text: str) -> Iterator[re.Match[str]]:
    """The places of the words and numbers of a text; letters in a row in any script."""
    return _WORD_OR_NUMBER.finditer(text)


def numbers(text: str, start: int = 0, end: int | None = None) -> Iterator[re.Match[str]]:
    """The places of the numbers in digits at the characters [start, end) of a text."""
    return _NUMBER.finditer(text, start, len(text) if end is None else end)


def asks(text: str) -> bool:
    """Whether a sentence ends as a question does."""
    return text.rstrip().endswith(_QUESTION_MARKS)


def has_words(text: str, number: int) -> bool:
    """Whether a text has at least so many words. It is read no further."""
    return any(islice(_WORD.finditer(text), number - 1, None))


def num_unspaced(text: str) -> int:
    """How many characters belong to scripts without spaces."""
    return len(_UNSPACED_LETTER.findall(text))


def single_spaced(text: str) -> str:
    """The text with a single space between words."""
    return " ".join(text.split())


def stands_alone(text: str, start: int, end: int) -> bool:
    """Whether the characters [start, end) are not part of a longer word."""
    return not _within_word(text, start) and not _within_word(text, end)


def _within_word(text: str, index: int) -> bool:
    """Whether the characters on both sides of this position are letters or digits."""
    return text[index - 1 : index].isalnum() and text[index : index + 1].isalnum()


def find_all(text: str, needle: str) -> Iterator[int]:
    """The start of each place of the needle, without overlaps; none for an empty needle."""
    start = text.find(needle) if needle else -1
    while start >= 0:
        yield start
        start = text.find(needle, start + len(needle))


def shared_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """How many elements, such as characters, two sequences have in common at the beginning."""
    return Prefix.similarity(first, second)


_LEAST_SHARE = 0.7
_LEAST_PREFIX = 3
_HANGUL = ("\uac00", "\ud7a3")
_LEAST_SYLLABLES = 2
# After a Korean noun of a single syllable.
_PARTICLES = frozenset(["", *"은는이가을를의에도로와과만", "에서", "으로", "까지", "부터"])
SYLLABLES = "\u3040"
"""From here on, characters are syllables or words (kana, ideographs, Hangul), and no letters."""


def is_unspaced(word: str) -> bool:
    """Whether a word belongs to a script without spaces, so that its borders are unknown."""
    return _UNSPACED_LETTER.match(word) is not None


def same_word(first: str, second: str) -> bool:
    """Whether two words in lower case differ at most in an ending, as 'include' and 'includes'.

    Korean words have the same first two syllables, or one syllable with particles. In scripts
    without spaces, the first characters are compared.
    """
    if first == second:
        return True
    if not (first and second):
        return False
    if is_unspaced(first) or is_unspaced(second):
        return first[0] == second[0]
    prefix = shared_length(first, second)
    if _HANGUL[0] <= first[0] <= _HANGUL[1]:
        is_noun = prefix == 1 and _PARTICLES.issuperset((first[1:], second[1:]))
        return prefix >= _LEAST_SYLLABLES or is_noun
    return prefix >= _LEAST_PREFIX and prefix >= _LEAST_SHARE * max(len(first), len(second))


# Ideographs, words with their hyphens, signs, digits.
_TOKEN = re.compile(
    r"[\u3400-\u9fff]|[^\W\d_\u3400-\u9fff]+(?:[-‐'’][^\W\d_\u3400-\u9fff]+)*|[^\s\w]|\d+"
)
_DIGITS = re.compile(r"(?<![\d.,])\d+(?:[.,'’\u00a0\u202f]\d{3})*(?![.,]?\d)")
_LETTERS = re.compile(r"[^\W\d_]+")
_SEPARATOR = re.compile(r"\D")
GROUPING = " \u00a0\u2009\u202f'’٬"
"""Signs between thousands that have no other meaning."""
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
    spelled = _spelled(language)
    tokens = list(_TOKEN.finditer(text)) if spelled else []
    words = [token[0].lower() for token in tokens]
    firsts = _first_words(language)
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
    """The possible values of a number in digits: 7,200 is 7200, or 7.2 with a decimal comma.

    White space and apostrophes may group its digits. Empty for anything else, such as 1.2.3.
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

    These are numbers in words as digits, and digits, without the separators of thousands, as words
    of the language.
    """
    spelled = {f"{number.value.normalize():f}" for number in number_words(text, language)}
    for match in _DIGITS.finditer(text):
        digits = _SEPARATOR.sub("", match[0])
        spelled.add(digits)
        if len(digits) <= _LONGEST_SPELLED:
            spelled |= _words_of(int(digits), language)
    return frozenset(spelled)


@cache
def _words_of(number: int, language: str) -> frozenset[str]:
    spellings = (_spellings(language, number, purpose) for purpose in _purposes())
    return frozenset(_LETTERS.findall(" ".join(chain.from_iterable(spellings))))


def _composed(numbers: Sequence[int]) -> int:
    """The value of number words: 2, 1000, 5, 100, 3 is 2503."""
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
    """Words of numbers in all cases, separated by spaces: their values, and whether ordinals."""
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
    """The first words of the numbers in words of a language."""
    return frozenset(words.partition(" ")[0] for words in _spelled(language))


def power_words(language: str) -> dict[str, int]:
    """Words of powers of ten from 1,000 on, in all cases, such as 'lakh' in en_IN."""
    return _last_words(language, _POWERS)


@cache
def _last_words(language: str, powers: tuple[int, ...]) -> dict[str, int]:
    """The last words of spelled powers of ten, each with the smallest power that ends in it."""
    cardinal, _ = _purposes()
    last: dict[str, int] = {}
    for power in powers:
        for times in (1, 2, 5):  # forms of the plural
            for words in _words(language, times * power, cardinal):
                if times == 1 or len(words) > 1:  # not a single word, such as 'zweitausend'
                    last.setdefault(words[-1], power)
    return last


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
    except (ValueError, RbnfError):  # an unknown language, or one without ordinals
        return []
    return [spelling.replace("\u00ad", "").lower() for spelling in spellings]


@cache
def _engine(language: str) -> RbnfEngine:
    from unicode_rbnf import RbnfEngine

    return RbnfEngine.for_language(language)


Interval = tuple[int, int]


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """The intervals sorted, with overlapping and touching ones joined."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def subtract(interval: Interval, removed: Sequence[Interval]) -> list[Interval]:
    """What remains of an interval without the removed ones, which are sorted."""
    start, end = interval
    kept = []
    for gap_start, gap_end in removed:
        if gap_start < end and gap_end > start:
            if start < gap_start:
                kept.append((start, gap_start))
            start = max(start, gap_end)
    if start < end:
        kept.append((start, end))
    return kept


def overlapping(intervals: Sequence[Interval], interval: Interval) -> Sequence[Interval]:
    """The sorted, disjoint intervals that overlap this one."""
    start, end = interval
    first = bisect_left(intervals, (start, start))
    if first and intervals[first - 1][1] > start:
        first -= 1
    return intervals[first : bisect_left(intervals, (end, end))]


def at(intervals: Sequence[Interval], position: int) -> Sequence[Interval]:
    """The interval, among sorted, disjoint ones, with this position; empty without one."""
    return overlapping(intervals, (position, position + 1))


def add(intervals: list[Interval], interval: Interval) -> None:
    """Add an interval to sorted, disjoint ones, and join it with its neighbours."""
    start, end = interval
    first = bisect_left(intervals, (start, start))
    if first and intervals[first - 1][1] >= start:
        first -= 1
    last = bisect_right(intervals, (end, end))
    while last < len(intervals) and intervals[last][0] <= end:
        last += 1
    intervals[first:last] = merge([interval, *intervals[first:last]])


def blank_out(text: str, intervals: Iterable[Interval]) -> str:
    """The text with white space in place of these characters."""
    for start, end in intervals:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def blank_list_numbers(text: str) -> str:
    """The text with white space in place of the numbers of list items."""
    return _LIST_NUMBER.sub(lambda number: " " * len(number[0]), text)
