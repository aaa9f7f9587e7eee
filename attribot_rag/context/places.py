"""The pieces into which documents divide the prompt."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from attribot_rag.context.borders import stands_alone
from attribot_rag.context.document import DocumentSpan, Occurrence
from attribot_rag.context.duplicates import words
from attribot_rag.context.intervals import Interval
from attribot_rag.context.location import Location
from attribot_rag.context.runs import find_all

_MIN_COPY_WORDS = 5


class Places:
    """Disjoint pieces of the prompt, split as the longest document that holds them is split."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._intervals: list[Interval] = []
        self._spans: dict[Interval, list[DocumentSpan]] = {}

    def add_document(self, document: int, location: Location, cuts: Sequence[Interval]) -> None:
        """Credit a located document with the pieces that it shares, and add its other pieces."""
        self._credit(document, location)
        for start, end in cuts:
            first, last = location.offsets[start], location.offsets[end]
            for free in self._free(first, last):
                if self._prompt[slice(*free)].strip():
                    self._insert(free)
                    self._spans[free].append(_document_span(document, location, free))

    def occurrences(self) -> list[Occurrence]:
        """All pieces in order, each with the documents that hold at least half of it."""
        return [
            Occurrence(start, end, tuple(sorted(self._spans[start, end], key=_span_order)))
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

    def _credit(self, document: int, location: Location) -> None:
        for interval in self._overlapping(location.start, location.end):
            start, end = max(interval[0], location.start), min(interval[1], location.end)
            held = len(self._prompt[start:end].strip())
            if 2 * held >= len(self._prompt[slice(*interval)].strip()):
                self._spans[interval].append(_document_span(document, location, (start, end)))

    def _overlapping(self, start: int, end: int) -> list[Interval]:
        first = bisect_left(self._intervals, (start, start))
        if first and self._intervals[first - 1][1] > start:
            first -= 1
        last = bisect_left(self._intervals, (end, end))
        return self._intervals[first:last]

    def _free(self, start: int, end: int) -> Iterator[Interval]:
        for first, last in self._overlapping(start, end):
            if start < first:
                yield start, first
            start = max(start, last)
        if start < end:
            yield start, end

    def _insert(self, interval: Interval) -> None:
        self._intervals.insert(bisect_left(self._intervals, interval), interval)
        self._spans[interval] = []


def _document_span(document: int, location: Location, interval: Interval) -> DocumentSpan:
    start, end = (location.document_offset(place) for place in interval)
    return DocumentSpan(document, start, end)


def _span_order(span: DocumentSpan) -> tuple[int, int]:
    return span.document, span.start
