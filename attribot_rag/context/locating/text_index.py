"""Searching a text for many others, in time about linear in all of their lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
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


class TextIndex:
    """A text in which many others are looked up by n-grams, each with its places."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._ngrams = cache(self._indexed)

    def _indexed(self, length: int, stride: int) -> Mapping[str, Sequence[int]]:
        """The places of the n-grams that begin at multiples of the stride."""
        places: dict[str, list[int]] = {}
        for place in range(0, len(self.text) - length + 1, stride):
            places.setdefault(self.text[place : place + length], []).append(place)
        return places

    def hits(self, text: str, length: int, stride: int, most: int) -> Iterator[tuple[int, int]]:
        """Places of equal n-grams in another text and in this one, of the rarest n-grams first.

        N-grams of more than 64 places are left out, as are hits beyond `most`.
        """
        ngrams = self._ngrams(length, stride)
        places = [ngrams.get(text[at : at + length], ()) for at in range(len(text) - length + 1)]
        rare = [at for at, hits in enumerate(places) if 0 < len(hits) <= _COMMON]
        rare.sort(key=lambda at: len(places[at]))
        return islice(((at, place) for at in rare for place in places[at]), most)

    def find_all(self, needle: str) -> Iterator[int]:
        """Start positions of all places of the needle that do not overlap, ascending."""
        if len(self.text) < _MIN_LENGTH or len(needle) < _GRAM + _STRIDE:
            return find_all(self.text, needle)
        ngrams = self._ngrams(_GRAM, _STRIDE)
        places = [ngrams.get(needle[at : at + _GRAM], ()) for at in range(_STRIDE)]
        if any(len(hits) > _COMMON for hits in places):
            return find_all(self.text, needle)
        starts = sorted(place - at for at, hits in enumerate(places) for place in hits)
        return self._verified(needle, starts)

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
