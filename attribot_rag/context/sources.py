"""The sources: the pieces into which documents divide the prompt, equal pieces joined."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import attrgetter

from attribot_rag.context.document import DocumentSpan, Occurrence, Source
from attribot_rag.context.duplicates import group_duplicates
from attribot_rag.context.intervals import Interval, subtract
from attribot_rag.context.location import Location
from attribot_rag.context.splitter import Splitter, split_spans
from attribot_rag.context.words import find_all, stands_alone, words

_MIN_COPY_WORDS = 5


def divide(
    prompt: str,
    texts: Sequence[str],
    locations: Mapping[int, Sequence[Location]],
    splitter: Splitter,
    *,
    duplicate_threshold: float,
) -> tuple[Source, ...]:
    """Sources from equal and near-equal pieces, with their copies outside of the documents.

    `locations` are those of the documents' `texts`, by index.
    """
    cuts = {index: split_spans(texts[index], splitter) for index in locations}
    pieces = _Pieces(prompt)
    for index, location in sorted(
        ((index, location) for index, places in locations.items() for location in places),
        key=lambda item: (item[1].start - item[1].end, item[1].start, texts[item[0]], item[0]),
    ):
        pieces.add_document(index, location, cuts[index])
    occurrences = pieces.occurrences()
    shown = [prompt[occurrence.start : occurrence.end].strip() for occurrence in occurrences]
    groups = group_duplicates(shown, threshold=duplicate_threshold)
    held = [[occurrences[member] for member in members] for members in groups]
    variants = {shown[member]: index for index, group in enumerate(groups) for member in group}
    for text in sorted(variants, key=lambda text: (-len(text), text)):
        held[variants[text]] += pieces.add_copies(text)
    for places in held:
        places.sort(key=lambda place: place.start)
    ordered = sorted(zip(held, groups, strict=True), key=lambda item: item[0][0].start)
    return tuple(
        Source(index, shown[group[0]], tuple(places))
        for index, (places, group) in enumerate(ordered)
    )


class _Pieces:
    """Disjoint pieces of the prompt, split as the longest document that holds them is split."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._intervals: list[Interval] = []
        self._spans: dict[Interval, list[DocumentSpan]] = {}

    def add_document(self, document: int, location: Location, cuts: Sequence[Interval]) -> None:
        """Credit a located document with the pieces that it shares, and add its other pieces."""
        for interval in self._overlapping(location.start, location.end):
            start, end = max(interval[0], location.start), min(interval[1], location.end)
            held = len(self._prompt[start:end].strip())
            if 2 * held >= len(self._prompt[slice(*interval)].strip()):
                self._spans[interval].append(_document_span(document, location, (start, end)))
        for start, end in cuts:
            first, last = location.offsets[start], location.offsets[end]
            for free in subtract((first, last), self._overlapping(first, last)):
                if self._prompt[slice(*free)].strip():
                    self._insert(free)
                    self._spans[free].append(_document_span(document, location, free))

    def occurrences(self) -> list[Occurrence]:
        """All pieces in order, each with the documents that hold at least half of it."""
        return [
            Occurrence(
                start,
                end,
                tuple(sorted(self._spans[start, end], key=attrgetter("document", "start"))),
            )
            for start, end in self._intervals
        ]

    def add_copies(self, text: str) -> list[Occurrence]:
        """Add the copies of a text outside of the documents, in an earlier turn for example.

        A text of fewer than five words has no copies: it may be repeated by chance.
        """
        if len(words(text)) < _MIN_COPY_WORDS:
            return []
        copies = []
        for start in find_all(self._prompt, text):
            end = start + len(text)
            if not self._overlapping(start, end) and stands_alone(self._prompt, start, end):
                self._insert((start, end))
                copies.append(Occurrence(start, end, ()))
        return copies

    def _overlapping(self, start: int, end: int) -> list[Interval]:
        first = bisect_left(self._intervals, (start, start))
        if first and self._intervals[first - 1][1] > start:
            first -= 1
        last = bisect_left(self._intervals, (end, end))
        return self._intervals[first:last]

    def _insert(self, interval: Interval) -> None:
        self._intervals.insert(bisect_left(self._intervals, interval), interval)
        self._spans[interval] = []


def _document_span(document: int, location: Location, interval: Interval) -> DocumentSpan:
    start, end = (location.document_offset(place) for place in interval)
    return DocumentSpan(document, start, end)
