"""Locations of documents in the prompt, and the alignment of two texts that differ a little."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rapidfuzz.distance import Levenshtein, Opcode

from attribot_rag.context.intervals import Interval
from attribot_rag.context.locating.normalised import Normalised, folded, unified

# Of the text between two words, the mark-up right before the second, and all that is before it.
_OPENING = re.compile(r"(?<=\s)\S+\Z")
_CLOSING = re.compile(r"\A.*[\s.,;:!?…。、，！？]", re.DOTALL)


@dataclass(frozen=True)
class Location:
    """A place of a document in the prompt: characters [start, end) of the prompt.

    `offsets[i]` is the prompt's character for character `i` of the document, with a last entry for
    its end; offsets never decrease. A part holds only the characters `document_span` [start, end)
    of the document; characters before it map to `start`, characters after it to `end`.
    `is_escaped` says that the prompt holds escape sequences for characters of the document.
    """

    start: int
    end: int
    offsets: Sequence[int]
    document_span: Interval | None = None
    is_escaped: bool = False

    def document_interval(self, start: int, end: int) -> Interval:
        """The document's characters that these characters of the prompt stand for."""
        return self.document_offset(start), self.document_offset(end)

    def document_offset(self, prompt_offset: int) -> int:
        """The document's first character at or after this character of the prompt."""
        first, last = self.document_span or (0, len(self.offsets) - 1)
        return min(max(bisect_left(self.offsets, prompt_offset), first), last)


def located(document: Normalised, prompt: Normalised, run: tuple[int, int, int]) -> Location:
    """A part: the location of a run (first in the document, first in the prompt, length).

    The run is in characters of the normalised texts; the location includes punctuation around it
    that both texts have.
    """
    first, start, length = run
    ours, theirs = document.interval(first, first + length), prompt.interval(start, start + length)
    lead = document.gap(first)
    before = _claimed((_CLOSING.sub("", lead) if first else lead)[::-1], prompt.gap(start)[::-1])
    after = _claimed(document.gap(first + length), prompt.gap(start + length))
    document_span = ours[0] - before[0], ours[1] + after[0]
    span = theirs[0] - before[1], theirs[1] + after[1]
    anchors = [
        (document_span[0], span[0]),
        *_anchors(document, prompt, run),
        (document_span[1], span[1]),
    ]
    offsets = [span[0]] * document_span[0]
    for (at, place), (next_at, next_place) in pairwise(anchors):
        if next_at - at == next_place - place:
            offsets += range(place, next_place)
        elif next_at > at:
            # A kept character, with the dropped characters after it.
            piece, counterpart = document.source[at:next_at], prompt.source[place:next_place]
            offsets += (place + offset for offset in character_map(piece, counterpart)[:-1])
            offsets[at] = place
    offsets += [span[1]] * (len(document.source) + 1 - len(offsets))
    return Location(*span, array("q", offsets), document_span)


def character_map(text: str, other: str) -> list[int]:
    """For each character of a text, and its end, the place in a slightly different text.

    A replaced character maps to its replacement, a missing character to the next character; case
    and the kind of quotes, dashes and white space make no difference.
    """
    places = [len(other)] * (len(text) + 1)
    for step in edits(folded(text), folded(other)):
        ours = slice(step.src_start, step.src_end)
        if step.tag == "delete":
            places[ours] = [step.dest_end] * (step.src_end - step.src_start)
        elif step.tag != "insert":
            places[ours] = range(step.dest_start, step.dest_end)
    return places


def _anchors(
    document: Normalised, prompt: Normalised, run: tuple[int, int, int]
) -> Iterator[tuple[int, int]]:
    """Characters of the document that the run keeps, with their places in the prompt, ascending.

    A word that follows white space in the document begins right after white space in the prompt,
    together with opening mark-up.
    """
    first, start, length = run
    done = -1
    for step in range(length):
        at, place = document.origins[first + step], prompt.origins[start + step]
        if at == done:
            continue
        done = at
        if step and document.source[at - 1 : at].isspace():
            opening = _OPENING.search(prompt.gap(start + step))
            place -= len(opening[0]) if opening else 0
        yield at, place


def _claimed(document: str, prompt: str) -> tuple[int, int]:
    """The numbers of first characters of both texts that are punctuation of both.

    The prompt may lack the document's characters (mark-up that was stripped), not the reverse.
    """
    ours, theirs = (
        [(mark, end) for end, character in enumerate(text, 1) for mark in unified(character)]
        for text in (document, prompt)
    )
    step, claimed = 0, (0, 0)
    for character, end in theirs:
        while step < len(ours) and ours[step][0] != character:
            step += 1
        if step == len(ours):
            break
        if character != " ":
            claimed = ours[step][1], end
        step += 1
    return claimed


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
