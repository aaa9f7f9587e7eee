"""Locations of documents in the prompt, character by character."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from attribot_rag.context.alignment import places_in
from attribot_rag.context.intervals import Interval
from attribot_rag.context.locating.aligned_text import AlignedText
from attribot_rag.context.locating.characters import unified
from attribot_rag.context.locating.runs import Run
from attribot_rag.context.locating.text_index import Integers

# Of the text between two words, the mark-up right before the second, and all that is before it.
_OPENING = re.compile(r"(?<=\s)\S+\Z")
_CLOSING = re.compile(r"\A.*[\s.,;:!?…。、，！？]", re.DOTALL)
# The most pairs of characters that are compared to align the text between two letters.
_MAX_COMPARED = 2**22


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
        """The document's characters at these characters of the prompt."""
        return self.document_offset(start), self.document_offset(end)

    def document_offset(self, prompt_offset: int) -> int:
        """The document's first character at or after this character of the prompt."""
        first, last = self.document_span or (0, len(self.offsets) - 1)
        return min(max(bisect_left(self.offsets, prompt_offset), first), last)

    def in_sources(self, document: AlignedText, prompt: AlignedText) -> Location:
        """Map the location of two forms to the source texts of these forms."""
        start, end = prompt.source_span(self.start, self.end)
        indices = numpy.arange(len(document.source))
        characters = document.origins[:, 0].searchsorted(indices, side="right") - 1
        places = numpy.asarray(self.offsets)[[*characters.clip(0), -1]]
        starts = prompt.origins[places.clip(max=len(prompt.origins) - 1), 0]
        offsets = numpy.where(places < len(prompt.origins), starts, end).clip(start, end)
        span = document.source_span(*self.document_span) if self.document_span else None
        is_escaped = end - start != self.end - self.start
        return Location(start, end, array("q", offsets.tobytes()), span, is_escaped)


def located(document: AlignedText, prompt: AlignedText, runs: Sequence[Run]) -> Location:
    """The location by common runs of forms of both texts, ascending.

    It reaches from the first to the last run, with common punctuation around them.
    """
    first, last = runs[0], runs[-1]
    ours = document.source_span(first.first, last.last)
    theirs = prompt.source_span(first.start, last.end)
    lead = document.gap(first.first)
    lead = _CLOSING.sub("", lead) if first.first else lead
    before = _claimed(lead[::-1], prompt.gap(first.start)[::-1])
    after = _claimed(document.gap(last.last), prompt.gap(last.end))
    document_span = ours[0] - before[0], ours[1] + after[0]
    start, end = theirs[0] - before[1], theirs[1] + after[1]
    at, places = _anchors(document, prompt, runs)
    at = numpy.concatenate([[document_span[0]], at, [document_span[1]]])
    places = numpy.concatenate([[start], places, [end]])
    indices = numpy.arange(len(document.source) + 1)
    anchors = (at.searchsorted(indices, side="right") - 1).clip(0)
    offsets = places[anchors] + (indices - at[anchors]).clip(0)
    offsets = numpy.minimum(offsets, places[(anchors + 1).clip(max=len(at) - 1)])
    lengths, widths = numpy.diff(at), numpy.diff(places)
    for gap in numpy.flatnonzero((lengths > 1) & (lengths != widths)).tolist():
        # A letter that both texts have, with what stands after it.
        if lengths[gap] * widths[gap] <= _MAX_COMPARED:
            between = _folded(document.source[at[gap] : at[gap + 1]])
            counterpart = _folded(prompt.source[places[gap] : places[gap + 1]])
            aligned = numpy.array(places_in(counterpart, between))
            offsets[at[gap] + 1 : at[gap + 1]] = places[gap] + aligned[1:-1]
    return Location(start, end, array("q", offsets.tobytes()), document_span)


def _anchors(
    document: AlignedText, prompt: AlignedText, runs: Sequence[Run]
) -> tuple[Integers, Integers]:
    """Characters of the document, ascending, with their places in the prompt.

    A word that follows white space in the document begins right after white space in the prompt,
    together with opening mark-up.
    """
    spans = numpy.concatenate(
        [
            numpy.hstack([document.origins[x.first : x.last], prompt.origins[x.start : x.end]])
            for x in runs
        ]
    )
    spans = spans[numpy.diff(spans[:, 0], prepend=-1) > 0]
    at, places, ends = spans[:, 0], spans[:, 2].copy(), spans[:, 3]
    gaps = numpy.flatnonzero((numpy.diff(at) > 1) & (places[1:] > ends[:-1]))
    for gap in gaps.tolist():
        if document.source[at[gap + 1] - 1].isspace():
            opening = _OPENING.search(prompt.source[ends[gap] : places[gap + 1]])
            places[gap + 1] -= len(opening[0]) if opening else 0
    return at, places


def _folded(text: str) -> str:
    """The text with each character unified, if that is a single character."""
    alike = map(unified, text)
    return "".join(x if len(x) == 1 else y for x, y in zip(alike, text, strict=True))


def _claimed(document: str, prompt: str) -> tuple[int, int]:
    """The numbers of leading characters of both texts that are common punctuation.

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
