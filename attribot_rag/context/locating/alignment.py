"""Alignment of two texts that differ a little, in time about linear in their length."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rapidfuzz.distance import Levenshtein, Opcode

# A pin is long text of both that stands only once where it is expected.
_STRETCH, _PIN, _STEP, _DRIFT = 2_048, 32, 64, 256


def pins(text: str, other: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Places of a long text, each with its place in [start, end) of the other text, ascending.

    The first is (0, `start`), where the texts are taken to begin; a short text has no other.
    """
    at, place = 0, start
    yield at, place
    following = _STRETCH
    while following + _STRETCH // 2 < len(text):
        pin = text[following : following + _PIN]
        expected = place + following - at
        first = max(place, 0, expected - _DRIFT)
        last = min(end, expected + _DRIFT + _PIN)
        match = other.find(pin, first, last)
        if match < 0 or other.find(pin, match + 1, last) >= 0:
            following += _STEP
            continue
        at, place = following, match
        yield at, place
        following += _STRETCH


def edits(text: str, other: str) -> Iterator[Opcode]:
    """The steps that make the other text of this one, ascending; between pins the fewest."""
    ends = [*pins(text, other, 0, len(other)), (len(text), len(other))]
    for (start, first), (end, last) in pairwise(ends):
        for step in Levenshtein.opcodes(text[start:end], other[first:last]):
            yield Opcode(
                step.tag,
                step.src_start + start,
                step.src_end + start,
                step.dest_start + first,
                step.dest_end + first,
            )


def distances_to_beginnings(text: str, other: str) -> list[int]:
    """The Levenshtein distances of a text to all beginnings of the other, the empty one first.

    By bits (Hyyrö, 2003), in about the time of a single distance.
    """
    if not text:
        return list(range(len(other) + 1))
    places: dict[str, int] = {}
    for index, letter in enumerate(text):
        places[letter] = places.get(letter, 0) | 1 << index
    full, last = (1 << len(text)) - 1, 1 << (len(text) - 1)
    rising, falling = full, 0
    distance = len(text)
    distances = [distance]
    for letter in other:
        match = places.get(letter, 0)
        diagonal = ((((match & rising) + rising) ^ rising) | match | falling) & full
        up = falling | (full & ~(diagonal | rising))
        down = diagonal & rising
        distance += bool(up & last) - bool(down & last)
        distances.append(distance)
        up, down = up << 1 | 1, down << 1
        rising, falling = (down | ~(diagonal | up)) & full, up & diagonal & full
    return distances
