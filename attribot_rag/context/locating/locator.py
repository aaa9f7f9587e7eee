"""Locating whole documents in a text: the prompt that the model saw, or a form of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from attribot_rag.cached_property import cached_property
from attribot_rag.context.locating.aligned_text import AlignedText
from attribot_rag.context.locating.location import Location, located
from attribot_rag.context.locating.runs import Run
from attribot_rag.context.locating.similar_passage import similar_passage
from attribot_rag.context.locating.text_index import Work
from attribot_rag.context.words import has_words, stands_alone

_NUMBER = re.compile(r"\d+")
_RELATION = re.compile(r"[<>≤≥](?=\s*[-.\d])")
# Shorter texts agree by chance where neither case nor punctuation counts.
_MIN_WORDS = 3
_MIN_LETTERS = 8
# Of one document, and of all documents together in lengths of the prompt.
_MAX_PLACES, _MAX_COVERED = 200, 16


class Locator:
    """Searches a prompt for whole documents: as they are, then by their letters, then fuzzily.

    White space may always differ; letters and digits are compared without case, mark-up,
    typography and Unicode forms. `threshold` is the least similarity of a fuzzy location, 0 to 1.
    `crowded` are the documents with further places.
    """

    def __init__(self, prompt: str, *, threshold: float, work: Work | None = None) -> None:
        self.prompt = AlignedText.of(prompt)
        self._threshold = threshold
        self._work = work or Work()
        self._room = _MAX_COVERED * len(prompt)
        self.crowded: set[str] = set()

    @cached_property
    def letters(self) -> AlignedText:
        """The prompt reduced to its letters and digits."""
        return self.prompt.letters()

    @cached_property
    def _spaced(self) -> AlignedText:
        return self.prompt.single_spaced()

    def locate(self, document: str) -> list[Location]:
        """The places of a document in the prompt, ascending; empty if the prompt lacks it.

        Places inside a longer word count only if there are no others. A fuzzy place must not hold
        a number that the document lacks, and every place must hold the same relations (< 5). A
        document has at most 200 places, and fewer where documents repeat each other's text.
        """
        return self.locate_unchanged(document) or self._locate_letters(document)

    def locate_unchanged(self, document: str) -> list[Location]:
        """The places with no difference but white space."""
        form = AlignedText.of(document).single_spaced()
        places = self._spaced.index.find_all(form.text)
        runs = ([Run(0, start, len(form.text))] for start in places)
        return self._located(form, self._spaced, runs)

    def _locate_letters(self, document: str) -> list[Location]:
        """The places of the document's letters, or else of letters similar to them."""
        if not has_words(document, _MIN_WORDS):
            return []
        form = AlignedText.of(document).letters()
        if len(form.text) < _MIN_LETTERS:
            return []
        return self._located(form, self.letters, self._equal(form)) or self._located(
            form, self.letters, self._similar(form)
        )

    def _equal(self, form: AlignedText) -> Iterator[Sequence[Run]]:
        length = len(form.text)
        for start in self.letters.index.find_all(form.text):
            if self.letters.is_whole(start, start + length):
                yield [Run(0, start, length)]

    def _similar(self, form: AlignedText) -> Iterator[Sequence[Run]]:
        runs: Sequence[Run] = ()
        if len(form.source) <= len(self.prompt.text):
            runs = similar_passage(form, self.letters, self._threshold, self._work)
        if not runs:
            return
        first, last = runs[0].start, runs[-1].end
        passage = self.prompt.text[slice(*self.letters.source_span(first, last))]
        if set(_NUMBER.findall(passage)) <= set(_NUMBER.findall(form.source)):
            for start in self.letters.index.find_all(self.letters.text[first:last]):
                yield [run._replace(start=run.start + start - first) for run in runs]

    def _located(
        self, document: AlignedText, prompt: AlignedText, places: Iterable[Sequence[Run]]
    ) -> list[Location]:
        """The locations of a document's form in a form of the prompt, by the runs of each place."""
        alone: list[Sequence[Run]] = []
        within: list[Sequence[Run]] = []
        for runs in places:
            span = prompt.source_span(runs[0].start, runs[-1].end)
            kind = alone if stands_alone(prompt.source, *span) else within
            if len(kind) <= _MAX_PLACES:
                kind.append(runs)
            if len(alone) > _MAX_PLACES:
                break
        chosen = alone or within
        most = min(_MAX_PLACES, max(1, self._room // max(1, len(document.source))))
        if len(chosen) > most:
            self.crowded.add(document.source)
        self._room -= len(document.source) * len(chosen[:most])
        locations = (located(document, prompt, runs) for runs in chosen[:most])
        relations = _RELATION.findall(document.source)
        return [
            replace(place, document_span=None)
            for place in locations
            if _RELATION.findall(prompt.source[place.start : place.end]) == relations
        ]
