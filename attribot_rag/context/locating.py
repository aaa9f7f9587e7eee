"""Finding a document's text in the prompt that the model saw."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from rapidfuzz import fuzz
from rapidfuzz.distance import Indel

from attribot_rag.context.collapsing import Collapsed
from attribot_rag.context.tokens import Interval

_NUMBER = re.compile(r"\d+")
_MAX_SLACK = 200


@dataclass(frozen=True)
class Location:
    """One place of a document in the prompt: characters [start, end) of the prompt.

    `offsets[i]` is the prompt's character for character `i` of the document, one more than the
    document is long, never decreasing.
    """

    start: int
    end: int
    offsets: range | tuple[int, ...]
    method: Literal["exact", "whitespace", "fuzzy"]

    def document_offset(self, prompt_offset: int) -> int:
        """The document's first character that stands at or after this prompt character."""
        return min(bisect_left(self.offsets, prompt_offset), len(self.offsets) - 1)


class Locator:
    """Searches one prompt: exactly, then with white space normalised, then fuzzily.

    `threshold` is the least similarity (rapidfuzz partial ratio, 0 to 1) of a fuzzy location.
    """

    def __init__(self, prompt: str, *, threshold: float) -> None:
        self._prompt = prompt
        self._threshold = threshold

    def locate(self, document: str) -> list[Location]:
        """All places of a document in the prompt, ascending; empty if it is not there.

        Places inside a longer word count only where there is no other. A fuzzy place must not
        hold a number that the document lacks: that would be another text.
        """
        lead = len(document) - len(document.lstrip())
        stripped = document.strip()
        if not stripped:
            return []
        found = [
            self._exact(start, lead, stripped, document)
            for start in find_all(self._prompt, stripped)
        ]
        found = found or self._ignoring_space(document) or self._fuzzy(document)
        alone = [place for place in found if stands_alone(self._prompt, place.start, place.end)]
        return alone or found

    def _exact(self, start: int, lead: int, stripped: str, document: str) -> Location:
        tail = len(document) - lead - len(stripped)
        end = start + len(stripped)
        if not lead and not tail:
            return Location(start, end, range(start, end + 1), "exact")
        offsets = (start,) * lead + tuple(range(start, end)) + (end,) * (tail + 1)
        return Location(start, end, offsets, "exact")

    @cached_property
    def _collapsed(self) -> Collapsed:
        return Collapsed.of(self._prompt)

    def _ignoring_space(self, document: str) -> list[Location]:
        collapsed = Collapsed.of(document)
        lead = len(collapsed.text) - len(collapsed.text.lstrip())
        needle = collapsed.text.strip()
        locations = []
        for start in find_all(self._collapsed.text, needle):
            places = [
                self._collapsed.origins[start + min(max(index - lead, 0), len(needle))]
                for index in range(len(collapsed.text) + 1)
            ]
            last = self._collapsed.origins[start + len(needle) - 1] + 1
            places = [min(place, last) for place in places]
            offsets = tuple(
                places[bisect_left(collapsed.origins, index)] for index in range(len(document) + 1)
            )
            locations.append(Location(places[0], last, offsets, "whitespace"))
        return locations

    def _fuzzy(self, document: str) -> list[Location]:
        if len(document) > len(self._prompt):
            return []
        found = fuzz.partial_ratio_alignment(
            document, self._prompt, score_cutoff=100 * self._threshold
        )
        if found is None:
            return []
        start, end = self._fitted(document, found.dest_start, found.dest_end)
        passage = self._prompt[start:end]
        if not set(_NUMBER.findall(passage)) <= set(_NUMBER.findall(document)):
            return []
        offsets = [len(passage)] * (len(document) + 1)
        for step in Indel.opcodes(document, passage):
            width = step.dest_end - step.dest_start
            for index in range(step.src_start, step.src_end):
                offsets[index] = step.dest_start + min(index - step.src_start, width)
        return [
            Location(
                start, start + len(passage), tuple(start + offset for offset in offsets), "fuzzy"
            )
            for start in find_all(self._prompt, passage)
        ]

    def _fitted(self, document: str, start: int, end: int) -> Interval:
        """The passage with its ends moved to where the document's are.

        The alignment's window is as long as the document, but text was added or left out.
        """
        slack = min(_MAX_SLACK, int((1 - self._threshold) * len(document)) + 1)
        ends = range(max(start, end - slack), min(len(self._prompt), end + slack) + 1)
        end = min(ends, key=lambda end: (Indel.distance(document, self._prompt[start:end]), end))
        starts = range(max(0, start - slack), min(end, start + slack) + 1)
        start = min(
            starts, key=lambda start: (Indel.distance(document, self._prompt[start:end]), -start)
        )
        return start, end


def stands_alone(prompt: str, start: int, end: int) -> bool:
    """Whether the characters [start, end) are no part of a longer word."""
    joined_before = prompt[start - 1 : start].isalnum() and prompt[start : start + 1].isalnum()
    joined_after = prompt[end - 1 : end].isalnum() and prompt[end : end + 1].isalnum()
    return not joined_before and not joined_after


def find_all(text: str, needle: str) -> Iterator[int]:
    """Start positions of all places of the needle that do not overlap each other."""
    start = text.find(needle)
    while start >= 0:
        yield start
        start = text.find(needle, start + len(needle))
