"""Finding a document's text in the prompt that the model saw."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from attribot_rag.context.collapsing import Collapsed
from attribot_rag.context.duplicates import words
from attribot_rag.context.location import Location, character_map, located
from attribot_rag.context.normalised import Normalised, folded
from attribot_rag.context.tokens import Interval

_NUMBER = re.compile(r"\d+")
_RELATION = re.compile(r"[<>≤≥](?=\s*[-.\d])")
_MAX_SLACK = 200
# Shorter texts say the same by chance where neither case nor punctuation counts.
_MIN_WORDS = 3
_MIN_LETTERS = 8


class Locator:
    """Searches one prompt for whole documents: exactly, then without what applications change.

    That is white space, then case, mark-up, typography and Unicode forms, then a few characters.
    `threshold` is the least similarity (rapidfuzz partial ratio, 0 to 1) of a fuzzy location.
    """

    def __init__(self, prompt: str, *, threshold: float) -> None:
        self._prompt = prompt
        self._threshold = threshold

    def locate(self, document: str) -> list[Location]:
        """All places of a document in the prompt, ascending; empty if it is not there.

        Places inside a longer word count only where there is no other. A fuzzy place must not
        hold a number that the document lacks, and no place other relations (< 5): that would be
        another text.
        """
        lead = len(document) - len(document.lstrip())
        stripped = document.strip()
        if not stripped:
            return []
        found = [
            self._exact(start, lead, stripped, document)
            for start in find_all(self._prompt, stripped)
        ]
        found = found or self._ignoring_space(document) or self._ignoring_form(document)
        found = found or self._fuzzy(document)
        relations = _RELATION.findall(document)
        found = [
            place
            for place in found
            if _RELATION.findall(self._prompt[place.start : place.end]) == relations
        ]
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

    @cached_property
    def normalised(self) -> Normalised:
        """The prompt's letters and digits."""
        return Normalised.of(self._prompt)

    def _ignoring_form(self, document: str) -> list[Location]:
        needle = Normalised.of(document)
        length = len(needle.text)
        if length < _MIN_LETTERS or not _has_form(document):
            return []
        return [
            located(needle, self.normalised, (0, start, length), "normalised")
            for start in find_all(self.normalised.text, needle.text)
            if self.normalised.whole_characters(start, start + length)
        ]

    @cached_property
    def _folded(self) -> str:
        return folded(self._prompt)

    def _fuzzy(self, document: str) -> list[Location]:
        if len(document) > len(self._prompt):
            return []
        alike, prompt = document, self._prompt
        if _has_form(document):
            alike, prompt = folded(document), self._folded
        found = fuzz.partial_ratio_alignment(alike, prompt, score_cutoff=100 * self._threshold)
        if found is None:
            return []
        start, end = self._fitted(alike, prompt, found.dest_start, found.dest_end)
        passage = self._prompt[start:end]
        if not set(_NUMBER.findall(passage)) <= set(_NUMBER.findall(document)):
            return []
        offsets = _from_word_starts(document, passage, character_map(document, passage))
        return [
            Location(
                start, start + len(passage), tuple(start + offset for offset in offsets), "fuzzy"
            )
            for start in find_all(self._prompt, passage)
        ]

    def _fitted(self, document: str, prompt: str, start: int, end: int) -> Interval:
        """The passage with its ends moved to where the document's are.

        The alignment's window is as long as the document, but text was added or left out. A word
        of which a letter was changed is not cut.
        """
        slack = min(_MAX_SLACK, int((1 - self._threshold) * len(document)) + 1)
        ends = range(max(start, end - slack), min(len(prompt), end + slack) + 1)
        end = min(ends, key=lambda end: (Levenshtein.distance(document, prompt[start:end]), end))
        starts = range(max(0, start - slack), min(end, start + slack) + 1)
        start = min(
            starts, key=lambda start: (Levenshtein.distance(document, prompt[start:end]), -start)
        )
        first, last = start, end
        while _within_word(prompt, first):
            first -= 1
        while _within_word(prompt, last):
            last += 1
        return min(
            itertools.product((first, start), (last, end)),
            key=lambda ends: Levenshtein.distance(document, prompt[slice(*ends)]),
        )


def _has_form(document: str) -> bool:
    """Whether a text is long enough to be the same in another form."""
    letters = sum(map(str.isalnum, document))
    return letters >= _MIN_LETTERS and len(words(document)) >= _MIN_WORDS


def _from_word_starts(document: str, passage: str, offsets: list[int]) -> list[int]:
    """Offsets that begin no word of the document inside a word of the passage.

    Unless letters of the word before it stand in the same one.
    """
    moved, taken = list(offsets), 0
    for index, letter in enumerate(document):
        if not letter.isalnum():
            continue
        place = offsets[index]
        if not document[index - 1 : index].isalnum():
            while place > taken and _within_word(passage, place):
                place -= 1
            moved[index] = place
        taken = max(taken, min(offsets[index] + 1, offsets[index + 1]))
    for index in range(len(moved) - 1, 0, -1):
        moved[index - 1] = min(moved[index - 1], moved[index])
    return moved


def _within_word(text: str, index: int) -> bool:
    return text[index - 1 : index].isalnum() and text[index : index + 1].isalnum()


def stands_alone(prompt: str, start: int, end: int) -> bool:
    """Whether the characters [start, end) are no part of a longer word."""
    joined_before = prompt[start - 1 : start].isalnum() and prompt[start : start + 1].isalnum()
    joined_after = prompt[end - 1 : end].isalnum() and prompt[end : end + 1].isalnum()
    return not joined_before and not joined_after


def find_all(text: str, needle: str) -> Iterator[int]:
    """Start positions of all places of the needle that do not overlap; none of an empty one."""
    start = text.find(needle) if needle else -1
    while start >= 0:
        yield start
        start = text.find(needle, start + len(needle))
