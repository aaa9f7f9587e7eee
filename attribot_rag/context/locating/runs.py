"""Common runs: text that a document and the prompt share, found in about linear time."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, partial
from typing import NamedTuple

from attribot_rag.context.locating.normalised import Normalised
from attribot_rag.context.locating.text_index import NgramIndex
from attribot_rag.context.words import num_unspaced

_MAX_PLACES = 64
_STEPS = (1024, 64, 8, 1)
# What follows a text that was cut within a word, and what precedes a text without its beginning.
_CUT_AFTER = re.compile(r"[^\S\n]*(?:\Z|\n|…|\.\.|[\[\]<>(){}|\"”»*#=~])")
_CUT_BEFORE = re.compile(r"(?:\A|\n|…|\.\.|[\[\]<>(){}|\"“«*#=~])[^\S\n]*\Z")
_MAX_SPACE = 20
_BETWEEN_DIGITS = frozenset(".,:;/-")
_WITHIN_WORDS = frozenset("'’\u00ad\u200b\u200c\u200d\u2060\ufeff")


class Run(NamedTuple):
    """Equal text: `length` characters from `first` in the document and `start` in the prompt."""

    first: int
    start: int
    length: int


class CommonRuns:
    """Finds the text that documents share with a prompt, through an index of its n-grams."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._index = cache(partial(NgramIndex, text))

    def of(self, document: str, gram: int, stride: int) -> Iterator[Run]:
        """Maximal common runs: all of at least `gram` + `stride` - 1 characters, some shorter.

        Runs whose n-grams all stand in more than 64 places are left out: such text is not
        specific to a document.
        """
        hits = self._index(gram, stride).hits(document, _MAX_PLACES, _MAX_PLACES * len(document))
        done: dict[int, int] = {}
        for at, place in sorted(zip(*(numbers.tolist() for numbers in hits), strict=True)):
            diagonal = place - at
            if at < done.get(diagonal, 0):
                continue
            if document[at : at + gram] != self._text[place : place + gram]:
                continue
            first, last = _extended(document, at, self._text, place, gram)
            done[diagonal] = last
            yield Run(first, first + diagonal, last - first)


def _extended(text: str, at: int, other: str, place: int, length: int) -> tuple[int, int]:
    """The common run [first, last) of the text that extends the common characters at `at`."""
    first, last, diagonal = at, at + length, place - at
    for step in _STEPS:
        while (
            step <= first
            and step <= first + diagonal
            and text[first - step : first] == other[first + diagonal - step : first + diagonal]
        ):
            first -= step
        while (
            last + step <= len(text)
            and text[last : last + step] == other[last + diagonal : last + diagonal + step]
        ):
            last += step
    return first, last


def at_words(document: Normalised, prompt: Normalised, run: Run) -> Run:
    """The run without the incomplete words at its ends; empty if nothing is left.

    An incomplete word of the document stays if the prompt's text also ends there: at the end of
    a line, a quotation or an element, or before an ellipsis.
    """
    first, start, length = run
    while length and not _ends(document, prompt, first + length, start + length):
        length -= 1
    while length and not _begins(document, prompt, first, start):
        first, start, length = first + 1, start + 1, length - 1
    return Run(first, start, length)


def _ends(document: Normalised, prompt: Normalised, at: int, place: int) -> bool:
    if prompt.text[place - 1] == " " or not is_border(prompt, place):
        return False
    return is_border(document, at) or bool(
        _CUT_AFTER.match(prompt.source, prompt.origins[place - 1] + 1)
    )


def _begins(document: Normalised, prompt: Normalised, at: int, place: int) -> bool:
    if prompt.text[place] == " " or not is_border(prompt, place):
        return False
    origin = prompt.origins[place]
    return is_border(document, at) or bool(
        _CUT_BEFORE.search(prompt.source[max(0, origin - _MAX_SPACE) : origin])
    )


def is_border(text: Normalised, index: int) -> bool:
    """Whether this place of a normalised text is not inside a word, number or character.

    In scripts without spaces every character is a word.
    """
    if not 0 < index < len(text.text):
        return True
    if " " in text.text[index - 1 : index + 1]:
        return True
    if not _BETWEEN_DIGITS.isdisjoint(text.text[index - 1 : index + 1]):
        return False
    before, after = text.origins[index - 1], text.origins[index]
    if before == after or unicodedata.category(text.source[after])[0] == "M":
        return False
    if _WITHIN_WORDS.issuperset(text.gap(index)):
        return num_unspaced(text.source[before] + text.source[after]) > 0
    return True
