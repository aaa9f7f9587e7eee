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

_SPACE = re.compile(r"\s+")


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


@dataclass(frozen=True)
class _Collapsed:
    """A text with its runs of white space collapsed, and where each character came from."""

    text: str
    origins: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> _Collapsed:
        pieces: list[str] = []
        origins: list[int] = []
        end = 0
        for space in _SPACE.finditer(text):
            pieces += (text[end : space.start()], " ")
            origins += range(end, space.start() + 1)
            end = space.end()
        pieces.append(text[end:])
        origins += range(end, len(text) + 1)
        return cls("".join(pieces), tuple(origins))


class Locator:
    """Searches one prompt: exactly, then with white space normalised, then fuzzily.

    `threshold` is the least similarity (rapidfuzz partial ratio, 0 to 1) of a fuzzy location.
    """

    def __init__(self, prompt: str, *, threshold: float) -> None:
        self._prompt = prompt
        self._threshold = threshold

    def locate(self, document: str) -> list[Location]:
        """All places of a document in the prompt; empty if it is not there."""
        lead = len(document) - len(document.lstrip())
        stripped = document.strip()
        if not stripped:
            return []
        found = [
            self._exact(start, lead, stripped, document)
            for start in _find_all(self._prompt, stripped)
        ]
        return found or self._ignoring_space(document) or self._fuzzy(document)

    def _exact(self, start: int, lead: int, stripped: str, document: str) -> Location:
        tail = len(document) - lead - len(stripped)
        end = start + len(stripped)
        if not lead and not tail:
            return Location(start, end, range(start, end + 1), "exact")
        offsets = (start,) * lead + tuple(range(start, end)) + (end,) * (tail + 1)
        return Location(start, end, offsets, "exact")

    @cached_property
    def _collapsed(self) -> _Collapsed:
        return _Collapsed.of(self._prompt)

    def _ignoring_space(self, document: str) -> list[Location]:
        collapsed = _Collapsed.of(document)
        lead = len(collapsed.text) - len(collapsed.text.lstrip())
        needle = collapsed.text.strip()
        locations = []
        for start in _find_all(self._collapsed.text, needle):
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
        start, end = found.dest_start, found.dest_end
        offsets = [end] * (len(document) + 1)
        for step in Indel.opcodes(document, self._prompt[start:end]):
            width = step.dest_end - step.dest_start
            for index in range(step.src_start, step.src_end):
                offsets[index] = start + step.dest_start + min(index - step.src_start, width)
        return [Location(start, end, tuple(offsets), "fuzzy")]


def _find_all(text: str, needle: str) -> Iterator[int]:
    """Start positions of all places of the needle that do not overlap each other."""
    start = text.find(needle)
    while start >= 0:
        yield start
        start = text.find(needle, start + len(needle))
