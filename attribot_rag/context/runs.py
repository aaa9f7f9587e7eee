"""Common runs: text that a document and the prompt share, found in about linear time."""

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
    """Finds the text that documents share with a prompt, through an index of its n-grams."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places = cache(self._index)

    def of(self, document: str, gram: int, stride: int) -> Iterator[Run]:
        """Maximal common runs: all of at least `gram` + `stride` - 1 characters, some shorter.

        Runs whose n-grams all stand in more than 64 places are left out: such text is not
        specific to a document.
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
        return {text: starts for text, starts in places.items() if len(starts) <= _MAX_PLACES}


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


def find_all(text: str, needle: str) -> Iterator[int]:
    """Start positions of all places of the needle that do not overlap; none for an empty needle."""
    start = text.find(needle) if needle else -1
    while start >= 0:
        yield start
        start = text.find(needle, start + len(needle))
