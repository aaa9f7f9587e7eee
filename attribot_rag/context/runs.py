"""Runs of text that a document and the prompt have in common, in about linear time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

_MAX_PLACES = 64
_STEPS = (1024, 64, 8, 1)


class Run(NamedTuple):
    """Equal text: `length` characters from `first` in the document and `start` in the prompt."""

    first: int
    start: int
    length: int


class CommonRuns:
    """Finds what other texts share with one text, by the short strings (grams) that it holds."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places = cache(self._index)

    def of(self, document: str, gram: int, stride: int) -> Iterator[Run]:
        """Maximal runs of at least `gram` + `stride` - 1 characters, and some shorter ones.

        Unless all of their grams stand in more than 64 places: such text is nobody's own.
        """
        places = self._places(gram, stride)
        done: dict[int, int] = {}
        for at in range(len(document) - gram + 1):
            for place in places.get(document[at : at + gram], ()):
                diagonal = place - at
                if at < done.get(diagonal, 0):
                    continue
                first, last = _extended(document, at, self._text, place, gram)
                done[diagonal] = last
                yield Run(first, first + diagonal, last - first)

    def _index(self, gram: int, stride: int) -> dict[str, list[int]]:
        places: dict[str, list[int]] = defaultdict(list)
        for start in range(0, len(self._text) - gram + 1, stride):
            places[self._text[start : start + gram]].append(start)
        return {piece: found for piece, found in places.items() if len(found) <= _MAX_PLACES}


def _extended(text: str, at: int, other: str, place: int, length: int) -> tuple[int, int]:
    """The characters [first, last) of a text that stand in the other, around `length` that do."""
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
