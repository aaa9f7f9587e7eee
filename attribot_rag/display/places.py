"""Where the sentences of a retrieved passage stand in the file that it was cut from."""

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
    chosen = cite(attribution).sentences
    if sentence is not None:
        chosen = chosen[sentence : sentence + 1]
    cited = dict.fromkeys(source_id for one in chosen for source_id in one.source_ids)
    places = (place for one in cited for place in attribution.sources[one].occurrences)
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
    found = locator.locate(document.text)
    if len(found) > 1:
        given = [document.metadata.get(key) for key in _STARTS]
        found = [one for one in found if any(start in _begins(text, one) for start in given)]
    places = []
    for start, end in spans:
        if len(found) == 1:
            places.append((found[0].offsets[start], found[0].offsets[end]))
        elif not found:
            alone = [(one.start, one.end) for one in locator.locate(document.text[start:end])]
            places += alone if len(alone) == 1 and stands_alone(text, *alone[0]) else []
    return tuple(one for place in places if (one := _trimmed(text, *place)) is not None)


def _begins(text: str, location: Location) -> range:
    """Where a passage at this location may be said to start: white space before it may count."""
    return range(len(text[: location.start].rstrip()), location.start + 1)


def _trimmed(text: str, start: int, end: int) -> Interval | None:
    """The interval without white space at its ends; None if nothing is left."""
    shown = text[start:end]
    words = shown.strip()
    start += len(shown) - len(shown.lstrip())
    return (start, start + len(words)) if words else None
