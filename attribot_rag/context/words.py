"""Words of a text, and their borders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from rapidfuzz.distance import Prefix

# Scripts without spaces between words (Thai to Khmer, Japanese, Chinese): each character is a word.
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_UNSPACED_LETTER = re.compile(f"[{_UNSPACED}]")


def words(text: str) -> list[str]:
    """Words of a text; single characters in scripts without spaces."""
    return _WORD.findall(text)


def has_words(text: str, number: int) -> bool:
    """Whether a text has at least so many words; it is not read beyond them."""
    return any(islice(_WORD.finditer(text), number - 1, None))


def num_unspaced(text: str) -> int:
    """The number of characters of scripts without spaces."""
    return len(_UNSPACED_LETTER.findall(text))


def single_spaced(text: str) -> str:
    """The text with a single space between its words."""
    return " ".join(text.split())


def stands_alone(text: str, start: int, end: int) -> bool:
    """Whether the characters [start, end) are not part of a longer word."""
    return not within_word(text, start) and not within_word(text, end)


def within_word(text: str, index: int) -> bool:
    """Whether the characters on both sides of this place are letters or digits."""
    return text[index - 1 : index].isalnum() and text[index : index + 1].isalnum()


def find_all(text: str, needle: str) -> Iterator[int]:
    """Start positions of all places of the needle that do not overlap; none for an empty needle."""
    start = text.find(needle) if needle else -1
    while start >= 0:
        yield start
        start = text.find(needle, start + len(needle))


_LEAST_SHARE = 0.7
_LEAST_PREFIX = 3
UNSPACED = "\u3040"  # from here on, words have no spaces between them


def same_word(first: str, second: str) -> bool:
    """Whether two words in lower case differ at most by an ending, as in 'include' and 'includes'.

    Of scripts without spaces, the first characters are compared.
    """
    if first == second:
        return True
    if not (first and second):
        return False
    if first[0] >= UNSPACED or second[0] >= UNSPACED:
        return first[0] == second[0]
    prefix = Prefix.similarity(first, second)
    return prefix >= _LEAST_PREFIX and prefix >= _LEAST_SHARE * max(len(first), len(second))
