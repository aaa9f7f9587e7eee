"""Locating whole documents in a text: the prompt that the model saw, or a form of it."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, islice

import numpy
from numpy.typing import NDArray

from attribot_rag.context.locating.location import Location, character_map, located
from attribot_rag.context.locating.normalised import Normalised, folded
from attribot_rag.context.locating.similar_passages import SimilarPassages
from attribot_rag.context.locating.text_index import Integers, TextIndex, Work
from attribot_rag.context.words import has_words, stands_alone, within_word

_PIECE = re.compile(r"\S+")
_SPACES = re.compile(r"\s{2,}")
_WHOLE = re.compile(r"\S(?:.*\S)?", re.DOTALL)
_NUMBER = re.compile(r"\d+")
_PLAIN_WORDS = re.compile(r"[A-Za-z]+(?:[ ,.]+[A-Za-z]+){3,9}")
_RELATION = re.compile(r"[<>≤≥](?=\s*[-.\d])")
# Shorter texts agree by chance where neither case nor punctuation counts.
_MIN_WORDS = 3
_MIN_LETTERS = 8
# Of one document, and of all documents together in lengths of the prompt.
_MAX_PLACES, _MAX_COVERED = 200, 16

# Start and end in the prompt, and how to make the location.
_Place = tuple[int, int, Callable[[], Location]]


def single_spaced(text: str) -> str:
    """The text with a single space between its words."""
    return " ".join(text.split())


class Locator:
    """Searches a prompt for whole documents: exactly, then in the forms that applications make.

    Those forms differ in white space, then in case, mark-up, typography and Unicode forms, then in
    a few characters. `threshold` is the least similarity (rapidfuzz partial ratio, 0 to 1) of a
    fuzzy location. `crowded` are the documents that have further places.
    """

    def __init__(self, prompt: str, *, threshold: float, work: Work | None = None) -> None:
        self._prompt = prompt
        self._threshold = threshold
        self._work = work or Work()
        self.index = TextIndex(prompt)
        self._room = _MAX_COVERED * len(prompt)
        self.crowded: set[str] = set()

    def locate(self, document: str) -> list[Location]:
        """The places of a document in the prompt, ascending; empty if the prompt lacks it.

        Places inside a longer word count only if there are no others. A fuzzy place must not hold
        a number that the document lacks, and every place must hold the same relations (< 5). A
        document has at most 200 places, and fewer where documents repeat each other's text.
        """
        return self.locate_unchanged(document) or self.locate_changed(document)

    def locate_unchanged(self, document: str) -> list[Location]:
        """The places where nothing but white space differs."""
        return self._by(document, self._exact, self._ignoring_space)

    def locate_changed(self, document: str) -> list[Location]:
        """The places where more than that differs."""
        return self._by(document, self._ignoring_form, self._fuzzy)

    def _by(self, document: str, *searches: Callable[[str], Iterator[_Place]]) -> list[Location]:
        """The places by the first of the searches that finds any."""
        if not document.strip():
            return []
        relations = _RELATION.findall(document)
        for search in searches:
            if places := self._chosen(document, search(document)):
                return [
                    place
                    for place in places
                    if _RELATION.findall(self._prompt[place.start : place.end]) == relations
                ]
        return []

    def _chosen(self, document: str, places: Iterable[_Place]) -> list[Location]:
        alone: list[_Place] = []
        within: list[_Place] = []
        for start, end, location in places:
            kind = alone if stands_alone(self._prompt, start, end) else within
            if len(kind) <= _MAX_PLACES:
                kind.append((start, end, location))
            if len(alone) > _MAX_PLACES:
                break
        chosen = alone or within
        most = min(_MAX_PLACES, max(1, self._room // len(document)))
        if len(chosen) > most:
            self.crowded.add(document)
        self._room -= len(document) * len(chosen[:most])
        return [location() for _, _, location in chosen[:most]]

    def _exact(self, document: str) -> Iterator[_Place]:
        needle = document.strip()
        for start in self.index.find_all(needle):
            end = start + len(needle)
            yield start, end, partial(self._aligned, document, start, end, _WHOLE)

    def _ignoring_space(self, document: str) -> Iterator[_Place]:
        needle = single_spaced(document)
        prompt, origins = self._collapsed
        for match in prompt.find_all(needle):
            start, end = int(origins[match]), int(origins[match + len(needle) - 1]) + 1
            yield start, end, partial(self._aligned, document, start, end, _PIECE)

    @cached_property
    def _collapsed(self) -> tuple[TextIndex, Integers]:
        """The prompt with single spaces, and the prompt's character of each of its characters."""
        is_kept = numpy.ones(len(self._prompt), numpy.bool_)
        is_kept[: len(self._prompt) - len(self._prompt.lstrip())] = False
        for run in _SPACES.finditer(self._prompt):
            is_kept[run.start() + 1 : run.end()] = False
        return TextIndex(single_spaced(self._prompt)), numpy.flatnonzero(is_kept)

    def _aligned(self, document: str, start: int, end: int, pattern: re.Pattern[str]) -> Location:
        """The location of a passage in which the same pieces match the pattern."""
        pieces = pattern.finditer(document), pattern.finditer(self._prompt, start, end)
        offsets = array("q")
        for piece, place in zip(*pieces, strict=True):
            offsets.extend([place.start()] * (piece.start() - len(offsets)))
            offsets.extend(self._indices[place.start() : place.end() + 1])
        offsets.extend([end] * (len(document) + 1 - len(offsets)))
        return Location(start, end, offsets)

    @cached_property
    def _indices(self) -> array[int]:
        return array("q", numpy.arange(len(self._prompt) + 1).tobytes())

    @cached_property
    def normalised(self) -> Normalised:
        """The prompt reduced to its letters and digits."""
        return Normalised.of(self._prompt)

    def _ignoring_form(self, document: str) -> Iterator[_Place]:
        if not _has_form(document) or not self._holds_words(document):
            return
        needle = Normalised.of(document)
        length = len(needle.text)
        if length < _MIN_LETTERS:
            return
        for start in self.normalised.find_each([needle.text])[0]:
            if self.normalised.whole_characters(start, start + length):
                part = located(needle, self.normalised, (0, start, length))
                yield part.start, part.end, partial(replace, part, document_span=None)

    def _holds_words(self, document: str) -> bool:
        """Whether the prompt holds the first plain words of a document: a quick test."""
        first = None if "](" in document else _PLAIN_WORDS.search(document)
        letters = "".join(filter(str.isalpha, first[0])).lower() if first else ""
        return any(True for _ in self.normalised.find_each([letters])[0]) if first else True

    @cached_property
    def _similar(self) -> SimilarPassages:
        return SimilarPassages(self.index, self._work)

    @cached_property
    def _similar_when_folded(self) -> SimilarPassages:
        return SimilarPassages(TextIndex(folded(self._prompt)), self._work)

    def _fuzzy(self, document: str) -> Iterator[_Place]:
        if len(document) > len(self._prompt):
            return
        if _has_form(document):
            span = self._similar_when_folded.find(folded(document), self._threshold)
        else:
            span = self._similar.find(document, self._threshold)
        if span is None:
            return
        passage = self._prompt[slice(*span)]
        if not set(_NUMBER.findall(passage)) <= set(_NUMBER.findall(document)):
            return
        offsets = _from_word_starts(document, passage, character_map(document, passage))
        for start in self.index.find_all(passage):
            end = start + len(passage)
            shifted = array("q", (offsets + start).tobytes())
            yield start, end, partial(Location, start, end, shifted)


def _has_form(document: str) -> bool:
    """Whether a text is long enough to be recognised in another form."""
    letters = filter(str.isalnum, document)
    return any(islice(letters, _MIN_LETTERS - 1, None)) and has_words(document, _MIN_WORDS)


def _from_word_starts(document: str, passage: str, offsets: Sequence[int]) -> Integers:
    """The offsets, moved so that words of the document begin at words of the passage.

    A word stays inside a word of the passage that also holds letters of the word before it.
    """
    moved = numpy.array(offsets)
    ours, theirs = _letters(document), _letters(passage)
    # The end of the passage's characters that stand for letters up to and with this one.
    ends = numpy.minimum(moved[:-1] + 1, moved[1:])
    reached = numpy.maximum.accumulate(numpy.where(ours[:-1], ends, 0))
    begins = ours[:-1] & ~ours[numpy.arange(-1, len(document) - 1)]
    within = theirs[moved[:-1]] & theirs[moved[:-1] - 1]
    for index in numpy.flatnonzero(begins & within).tolist():
        place, least = int(moved[index]), int(reached[index - 1]) if index else 0
        while place > least and within_word(passage, place):
            place -= 1
        moved[index] = place
    result: Integers = numpy.minimum.accumulate(moved[::-1])[::-1]
    return result


def _letters(text: str) -> NDArray[numpy.bool_]:
    """For each character whether it is a letter or digit, and False for the text's end."""
    return numpy.fromiter(chain(map(str.isalnum, text), [False]), numpy.bool_, len(text) + 1)
