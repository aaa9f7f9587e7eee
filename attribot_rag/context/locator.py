"""Locating documents in the prompt that the model saw: whole documents first, then parts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from attribot_rag.context.intervals import Interval
from attribot_rag.context.location import Location, character_map, located
from attribot_rag.context.normalised import Normalised, folded
from attribot_rag.context.parts import find_parts
from attribot_rag.context.words import find_all, stands_alone, within_word, words

_PIECE = re.compile(r"\S+")
_WHOLE = re.compile(r"\S(?:.*\S)?", re.DOTALL)
_NUMBER = re.compile(r"\d+")
_RELATION = re.compile(r"[<>≤≥](?=\s*[-.\d])")
_MAX_SLACK = 200
# Shorter texts agree by chance where neither case nor punctuation counts.
_MIN_WORDS = 3
_MIN_LETTERS = 8


def locate_documents(
    prompt: str, documents: Sequence[str], *, threshold: float, taken: Sequence[Interval] = ()
) -> tuple[dict[int, list[Location]], dict[int, list[Location]]]:
    """The locations of whole documents and of parts of the other documents, by their indices.

    `threshold` is the least similarity of a fuzzy location (rapidfuzz partial ratio, 0 to 1).
    `taken` are characters of the prompt that are no document's own, such as earlier turns.
    """
    locator = Locator(prompt, threshold=threshold)
    whole = {index: locator.locate(document) for index, document in enumerate(documents)}
    missing = {index: documents[index] for index, places in whole.items() if not places}
    covered = [(place.start, place.end) for places in whole.values() for place in places]
    parts = find_parts(locator.normalised, missing, [*covered, *taken])
    return {index: places for index, places in whole.items() if places}, parts


def texts_in_prompt(prompt: str, texts: Collection[str]) -> frozenset[str]:
    """The texts that the prompt holds as a whole or in part, whatever their form.

    This tells prompts apart: a text of which the prompt holds only what also belongs to another
    whole text is not in the prompt.
    """
    plain = _plain(prompt)
    held = {text for text in texts if _plain(text) in plain}
    others = sorted(set(texts))
    if len(held) < len(others):
        whole, parts = locate_documents(prompt, others, threshold=1)
        held.update(others[index] for index in (*whole, *parts))
    return frozenset(held)


def _plain(text: str) -> str:
    return " ".join(text.split())


class Locator:
    """Searches a prompt for whole documents: exactly, then in the forms that applications make.

    Those forms differ in white space, then in case, mark-up, typography and Unicode forms, then in
    a few characters. `threshold` is the least similarity (rapidfuzz partial ratio, 0 to 1) of a
    fuzzy location.
    """

    def __init__(self, prompt: str, *, threshold: float) -> None:
        self._prompt = prompt
        self._threshold = threshold

    def locate(self, document: str) -> list[Location]:
        """All places of a document in the prompt, ascending; empty if the prompt lacks it.

        Places inside a longer word count only if there are no others. A fuzzy place must not hold
        a number that the document lacks, and every place must hold the same relations (< 5).
        """
        if not document.strip():
            return []
        places = self._exact(document) or self._ignoring_space(document)
        places = places or self._ignoring_form(document) or self._fuzzy(document)
        relations = _RELATION.findall(document)
        places = [
            place
            for place in places
            if _RELATION.findall(self._prompt[place.start : place.end]) == relations
        ]
        alone = [place for place in places if stands_alone(self._prompt, place.start, place.end)]
        return alone or places

    def _exact(self, document: str) -> list[Location]:
        needle = document.strip()
        return [
            self._aligned(document, start, start + len(needle), _WHOLE)
            for start in find_all(self._prompt, needle)
        ]

    def _ignoring_space(self, document: str) -> list[Location]:
        collapsed, starts = self._collapsed

        def origin(index: int) -> int:
            """The prompt's character that a collapsed character stands for."""
            within = index - (collapsed.rfind(" ", 0, index) + 1)
            return starts[collapsed.count(" ", 0, index)] + within

        needle = _plain(document)
        return [
            self._aligned(document, origin(start), origin(start + len(needle) - 1) + 1, _PIECE)
            for start in find_all(collapsed, needle)
        ]

    @cached_property
    def _collapsed(self) -> tuple[str, list[int]]:
        """The prompt with single spaces, and where its words begin."""
        return _plain(self._prompt), [word.start() for word in _PIECE.finditer(self._prompt)]

    def _aligned(self, document: str, start: int, end: int, pattern: re.Pattern[str]) -> Location:
        """The location of a passage in which the same pieces match the pattern."""
        pieces = pattern.finditer(document), pattern.finditer(self._prompt, start, end)
        offsets: list[int] = []
        for piece, place in zip(*pieces, strict=True):
            offsets += [place.start()] * (piece.start() - len(offsets))
            offsets += range(place.start(), place.end() + 1)
        offsets += [end] * (len(document) + 1 - len(offsets))
        return Location(start, end, tuple(offsets))

    @cached_property
    def normalised(self) -> Normalised:
        """The prompt reduced to its letters and digits."""
        return Normalised.of(self._prompt)

    def _ignoring_form(self, document: str) -> list[Location]:
        needle = Normalised.of(document)
        length = len(needle.text)
        if length < _MIN_LETTERS or not _has_form(document):
            return []
        return [
            replace(located(needle, self.normalised, (0, start, length)), document_span=None)
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
        alignment = fuzz.partial_ratio_alignment(alike, prompt, score_cutoff=100 * self._threshold)
        if alignment is None:
            return []
        start, end = self._fitted(alike, prompt, alignment.dest_start, alignment.dest_end)
        passage = self._prompt[start:end]
        if not set(_NUMBER.findall(passage)) <= set(_NUMBER.findall(document)):
            return []
        offsets = _from_word_starts(document, passage, character_map(document, passage))
        return [
            Location(start, start + len(passage), tuple(start + offset for offset in offsets))
            for start in find_all(self._prompt, passage)
        ]

    def _fitted(self, document: str, prompt: str, start: int, end: int) -> Interval:
        """The passage with its ends moved to the ends of the document's text.

        The window of an alignment is as long as the document, but the prompt's text may be longer
        or shorter. A word in which a letter differs is not cut.
        """
        slack = min(_MAX_SLACK, int((1 - self._threshold) * len(document)) + 1)
        ends = range(max(start, end - slack), min(len(prompt), end + slack) + 1)
        end = min(ends, key=lambda end: (Levenshtein.distance(document, prompt[start:end]), end))
        starts = range(max(0, start - slack), min(end, start + slack) + 1)
        start = min(
            starts, key=lambda start: (Levenshtein.distance(document, prompt[start:end]), -start)
        )
        first, last = start, end
        while within_word(prompt, first):
            first -= 1
        while within_word(prompt, last):
            last += 1
        return min(
            itertools.product((first, start), (last, end)),
            key=lambda ends: Levenshtein.distance(document, prompt[slice(*ends)]),
        )


def _has_form(document: str) -> bool:
    """Whether a text is long enough to be recognised in another form."""
    letters = sum(map(str.isalnum, document))
    return letters >= _MIN_LETTERS and len(words(document)) >= _MIN_WORDS


def _from_word_starts(document: str, passage: str, offsets: list[int]) -> list[int]:
    """The offsets, moved so that words of the document begin at words of the passage.

    A word stays inside a word of the passage that also holds letters of the word before it.
    """
    moved, taken = list(offsets), 0
    for index, letter in enumerate(document):
        if not letter.isalnum():
            continue
        place = offsets[index]
        if not document[index - 1 : index].isalnum():
            while place > taken and within_word(passage, place):
                place -= 1
            moved[index] = place
        taken = max(taken, min(offsets[index] + 1, offsets[index + 1]))
    for index in range(len(moved) - 1, 0, -1):
        moved[index - 1] = min(moved[index - 1], moved[index])
    return moved
