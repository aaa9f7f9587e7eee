"""Where the sentences of a retrieved passage stand in the file that it was cut from."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from attribot_rag.attribution import Attribution, cite
from attribot_rag.context import Document
from attribot_rag.context.intervals import Interval
from attribot_rag.context.words import stands_alone

_STARTS = ("start", "start_index")


def cited_spans(
    attribution: Attribution, index: int, sentence: int | None = None
) -> tuple[Interval, ...]:
    """The characters [start, end) of a document that the answer cites, best source first.

    With `sentence`, those that this sentence of the answer cites.
    """
    chosen = cite(attribution).sentences
    if sentence is not None:
        chosen = chosen[sentence : sentence + 1]
    cited = dict.fromkeys(source_id for one in chosen for source_id in one.source_ids)
    places = (place for one in cited for place in attribution.sources[one].occurrences)
    spans = (span for place in places for span in place.spans if span.document == index)
    return tuple(dict.fromkeys((span.start, span.end) for span in spans))


def places_in(text: str, document: Document, spans: Iterable[Interval]) -> tuple[Interval, ...]:
    """The characters of a file's text at which spans of a document cut from it stand.

    White space may differ. The document is found as a whole, and where it stands more than once,
    its metadata (`start`, or `start_index`) must say where. If it does not stand there as a whole,
    a span is found if its text stands once in the file. What is not certain is left out.
    """
    file, own = _Letters.of(text), _Letters.of(document.text)
    found = list(file.find(own.text))
    if len(found) > 1:
        given = [document.metadata.get(key) for key in _STARTS]
        found = [place for place in found if any(start in file.begins(place) for start in given)]
    return tuple(
        place
        for start, end in spans
        if (place := _place(file, own, found, own.inside(start, end))) is not None
    )


def _place(file: _Letters, own: _Letters, found: list[int], span: Interval) -> Interval | None:
    start, end = span
    if start == end:
        return None
    if len(found) == 1:
        return file.interval(found[0] + start, found[0] + end)
    alone = [
        interval
        for place in file.find(own.text[start:end])
        if stands_alone(file.source, *(interval := file.interval(place, place + end - start)))
    ]
    return alone[0] if len(alone) == 1 and not found else None


@dataclass(frozen=True)
class _Letters:
    """A text without white space; `origins` are the places of its characters in `source`."""

    source: str
    text: str
    origins: tuple[int, ...]

    @classmethod
    def of(cls, source: str) -> _Letters:
        origins = tuple(place for place, one in enumerate(source) if not one.isspace())
        return cls(source, "".join(source[place] for place in origins), origins)

    def find(self, text: str) -> Iterator[int]:
        place = self.text.find(text) if text else -1
        while place >= 0:
            yield place
            place = self.text.find(text, place + 1)

    def interval(self, start: int, end: int) -> Interval:
        return self.origins[start], self.origins[end - 1] + 1

    def begins(self, place: int) -> range:
        """Where a text may be said to start that has this character as its first."""
        before = self.origins[place - 1] + 1 if place else 0
        return range(before, self.origins[place] + 1)

    def inside(self, start: int, end: int) -> Interval:
        """The characters here that [start, end) of the source holds."""
        return bisect_left(self.origins, start), bisect_left(self.origins, end)
