"""Searching a text for many others, in time about linear in all of their lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from typing import TypeAlias

import numpy
from numpy.typing import NDArray

from attribot_rag.context.words import find_all

Integers: TypeAlias = NDArray[numpy.int64]

# A short text is searched faster than it is indexed.
_MIN_LENGTH = 32_768
_GRAM, _STRIDE = 16, 8
_COMMON = 64


class Ngrams:
    """The n-grams of a text that begin at multiples of the stride, with their places."""

    def __init__(self, text: str, length: int, stride: int) -> None:
        self._length = length
        self._places: dict[str, list[int]] = {}
        for place in range(0, len(text) - length + 1, stride):
            self._places.setdefault(text[place : place + length], []).append(place)

    def places(self, gram: str) -> Sequence[int]:
        """The places of an n-gram, ascending."""
        return self._places.get(gram, ())

    def hits(self, text: str, most: int) -> Iterator[tuple[int, int]]:
        """Places of equal n-grams in another text and in this one, of the rarest n-grams first.

        N-grams of more than 64 places are left out, as are hits beyond `most`.
        """
        ends = range(self._length, len(text) + 1)
        places = [self.places(text[end - self._length : end]) for end in ends]
        rare = [at for at, hits in enumerate(places) if 0 < len(hits) <= _COMMON]
        rare.sort(key=lambda at: len(places[at]))
        return islice(((at, place) for at in rare for place in places[at]), most)


class TextIndex:
    """A text in which many others are looked up."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ngrams = cache(partial(Ngrams, text))

    def find_all(self, needle: str) -> Iterator[int]:
        """Start positions of all places of the needle that do not overlap, ascending."""
        if len(self.text) < _MIN_LENGTH or len(needle) < _GRAM + _STRIDE:
            return find_all(self.text, needle)
        ngrams = self.ngrams(_GRAM, _STRIDE)
        places = [ngrams.places(needle[at : at + _GRAM]) for at in range(_STRIDE)]
        if any(len(hits) > _COMMON for hits in places):
            return find_all(self.text, needle)
        return self._verified(
            needle, sorted(x - at for at, hits in enumerate(places) for x in hits)
        )

    def _verified(self, needle: str, starts: Iterable[int]) -> Iterator[int]:
        done = 0
        for start in starts:
            if start >= done and self.text.startswith(needle, start):
                yield start
                done = start + len(needle)


class Work:
    """Counts the `pairs` of characters that were compared to align texts.

    `is_in_time` is called before each text; texts for which there was no time are `left`.
    """

    def __init__(self, is_in_time: Callable[[], bool] | None = None) -> None:
        self._is_in_time = is_in_time or (lambda: True)
        self.pairs = 0
        self.left: set[str] = set()

    def compare(self, text: str, other: str) -> None:
        """Count a comparison of all characters of two texts."""
        self.pairs += len(text) * len(other)

    def in_time(self, texts: Iterable[str]) -> Iterator[str]:
        """The texts, as long as there is time; the others are left."""
        for text in texts:
            if self.left or not self._is_in_time():
                self.left.add(text)
            else:
                yield text

    def rest_in_time(self, texts: Iterable[str]) -> Iterator[str]:
        """The same for a last step: all texts if others were left before."""
        return iter(texts) if self.left else self.in_time(texts)
