"""Indices of a text's n-grams: where any number of other texts stand in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from attribot_rag.context.words import find_all

Integers: TypeAlias = NDArray[numpy.int64]
_Hashes: TypeAlias = NDArray[numpy.uint32]

_BASE = 1_000_003
_PLACE_BITS = numpy.uint64(32)
_GRAM = 5
# A short text is searched faster than it is indexed.
_MIN_LENGTH = 32_768
_SAMPLES = 8
_COMMON = 256


def character_codes(text: str) -> NDArray[numpy.uint32]:
    return numpy.frombuffer(text.encode("utf-32-le", "surrogatepass"), numpy.uint32)


class NgramIndex:
    """The n-grams of a text that begin at multiples of the stride, by their hashes.

    The hashes are sorted, and so are the places of each. A table has the first place of the
    hashes with the same first bits; most of its entries are for one hash or none.
    """

    def __init__(self, text: str, gram: int, stride: int = 1) -> None:
        self._gram = gram
        keys = _hashes(text, gram, stride).astype(numpy.uint64) << _PLACE_BITS
        keys |= numpy.arange(0, stride * len(keys), stride, dtype=numpy.uint64)
        keys.sort()
        self._places = keys.astype(numpy.uint32)
        hashes = (keys >> _PLACE_BITS).astype(numpy.uint32)
        begins = numpy.flatnonzero(numpy.diff(hashes, prepend=~hashes[:1]))
        # A last hash has no places, for n-grams that the text lacks.
        self._hashes = numpy.append(hashes[begins], numpy.uint32(0))
        self._begins = numpy.append(begins, [len(keys)] * 2)
        bits = len(begins).bit_length() + 1
        self._shift = numpy.uint32(32 - bits)
        sizes = numpy.bincount(hashes[begins] >> self._shift, minlength=2**bits)
        self._table = numpy.append(0, sizes.cumsum())

    def ranges(self, text: str, stride: int = 1) -> tuple[Integers, Integers]:
        """For the n-grams of another text at this stride the range [first, last) of their hits."""
        hashes = _hashes(text, self._gram, stride)
        entries = hashes >> self._shift
        at, ends = self._table[entries], self._table[entries + 1]
        further = numpy.flatnonzero((at < ends) & (self._hashes[at] < hashes))
        at[further] = self._hashes[:-1].searchsorted(hashes[further])
        at[self._hashes[at] != hashes] = -2
        return self._begins[at], self._begins[at + 1]

    def places(self, first: int, last: int) -> list[int]:
        """The places of a range, ascending. Two n-grams in a million may have an equal hash."""
        places: list[int] = self._places[first:last].tolist()
        return places

    def hits(self, text: str, most_places: int, most: int) -> tuple[Integers, Integers]:
        """Places of equal n-grams in another text and in this one, of the rarest n-grams first.

        N-grams of more than `most_places` places are left out, and hits beyond `most`.
        """
        first, last = self.ranges(text)
        counts = last - first
        order = numpy.flatnonzero((counts > 0) & (counts <= most_places))
        order = order[counts[order].argsort(kind="stable")]
        order = order[: int(counts[order].cumsum().searchsorted(most, "right"))]
        counts = counts[order]
        steps = numpy.arange(counts.sum()) - (counts.cumsum() - counts).repeat(counts)
        places = self._places[first[order].repeat(counts) + steps]
        return order.repeat(counts), places.astype(numpy.int64)


class TextIndex:
    """A text in which many others are looked up, in time about linear in all of their lengths."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def ngrams(self) -> NgramIndex:
        return NgramIndex(self.text, _GRAM)

    def find_all(self, needle: str) -> Iterator[int]:
        """Start positions of all places of the needle that do not overlap, ascending."""
        return self.find_each([needle])[0]

    def find_each(self, needles: Sequence[str]) -> list[Iterator[int]]:
        """The same for each of the needles."""
        if len(self.text) < _MIN_LENGTH:
            return [find_all(self.text, needle) for needle in needles]
        steps = [max(1, (len(needle) - _GRAM) // (_SAMPLES - 1)) for needle in needles]
        samples = "".join(
            needle[place : place + _GRAM].ljust(_GRAM)
            for needle, step in zip(needles, steps, strict=True)
            for place in range(0, _SAMPLES * step, step)
        )
        first, last = (ends.reshape(-1, _SAMPLES) for ends in self.ngrams.ranges(samples, _GRAM))
        # Beyond the needle's end there is nothing to look up.
        lengths = numpy.fromiter(map(len, needles), numpy.int64)[:, None]
        starts = numpy.outer(steps, numpy.arange(_SAMPLES))
        counts = numpy.where(starts + _GRAM <= lengths, last - first, len(self.text))
        rarest = counts.argmin(axis=1)
        rows = numpy.arange(len(needles))
        return [
            self._verified(needle, *hits)
            for needle, *hits in zip(
                needles,
                starts[rows, rarest].tolist(),
                first[rows, rarest].tolist(),
                counts[rows, rarest].tolist(),
                strict=True,
            )
        ]

    def _verified(self, needle: str, offset: int, first: int, count: int) -> Iterator[int]:
        """The places of the needle among those of its n-gram at this offset."""
        if count > _COMMON:
            yield from find_all(self.text, needle)
            return
        done = 0
        for place in self.ngrams.places(first, first + count):
            start = place - offset
            if start >= done and self.text.startswith(needle, start):
                yield start
                done = start + len(needle)


def _hashes(text: str, gram: int, stride: int) -> _Hashes:
    """For each n-gram at the stride a hash of the polynomial in the base with its codes."""
    codes = character_codes(text)
    if len(codes) < gram:
        return codes[:0]
    powers = [pow(_BASE, exponent, 2**64) for exponent in reversed(range(gram))]
    grams = sliding_window_view(codes.astype(numpy.uint64), gram)[::stride]
    whole = grams @ numpy.array(powers, numpy.uint64)
    hashes: _Hashes = (whole ^ whole >> _PLACE_BITS).astype(numpy.uint32)
    return hashes


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
