"""Places of a retrieved passage's sentences in the file that it was cut from."""

from __future__ import annotations

from collections.abc import Iterable

from attribot_rag.context import Document
from attribot_rag.context.intervals import Interval
from attribot_rag.context.locating.location import Location
from attribot_rag.context.locating.locator import Locator
from attribot_rag.context.words import stands_alone
from attribot_rag.result import Result, cite

_STARTS = ("start", "start_index")


def cited_spans(
    attribution: Result, index: int, sentence: int | None = None
) -> tuple[Interval, ...]:
    """The characters [start, end) of a document that the answer cites, best source first.

    With `sentence`, those that this sentence of the answer cites.
    """
    sentences = cite(attribution).sentences
    if sentence is not None:
        sentences = sentences[sentence : sentence + 1]
    cited = dict.fromkeys(source_id for cited in sentences for source_id in cited.source_ids)
    places = (place for source_id in cited for place in attribution.sources[source_id].occurrences)
    spans = (span for place in places for span in place.spans if span.document == index)
    return tuple(dict.fromkeys((span.start, span.end) for span in spans))


def places_in(text: str, document: Document, spans: Iterable[Interval]) -> tuple[Interval, ...]:
    """The characters of a file's text at which spans of a document cut from it stand.

    White space, case, mark-up and typography may differ. The document is found as a whole, and
    where it stands more than once, its metadata (`start`, or `start_index`) must say where. If it
    does not stand there as a whole, a span is found if its text stands once in the file. What is
    not certain is left out.
    """
    locator = Locator(text, threshold=1)
    locations = locator.locate(document.text)
    if len(locations) > 1:
        starts = [document.metadata.get(key) for key in _STARTS]
        locations = [
            location
            for location in locations
            if any(start in _begins(text, location) for start in starts)
        ]
    places = []
    for start, end in spans:
        if len(locations) == 1:
            offsets = locations[0].offsets
            places.append((offsets[start], offsets[end]))
        elif not locations:
            alone = locator.locate(document.text[start:end])
            if len(alone) == 1 and stands_alone(text, alone[0].start, alone[0].end):
                places.append((alone[0].start, alone[0].end))
    trimmed = (_trimmed(text, *place) for place in places)
    return tuple(place for place in trimmed if place is not None)


def _begins(text: str, location: Location) -> range:
    """The places where a passage may be said to start: white space before it may count."""
    return range(len(text[: location.start].rstrip()), location.start + 1)


def _trimmed(text: str, start: int, end: int) -> Interval | None:
    """The interval without white space at its ends; None if nothing is left."""
    shown = text[start:end]
    words = shown.strip()
    start += len(shown) - len(shown.lstrip())
    return (start, start + len(words)) if words else None
