"""An audit of the citation markers that a model wrote itself."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from attribot_rag.attribution import Marker
from attribot_rag.context import Context
from attribot_rag.methods.sufficiency import Sufficiency
from attribot_rag.verdicts.markers import WrittenMarker


def numbered_documents(context: Context) -> Mapping[int, int]:
    """The index of each document by the number that markers give it.

    A document that the prompt gives no number has its place among all, if no other has that number.
    """
    places = {index + 1: index for index in range(len(context.documents))}
    missing = {place: index for place, index in places.items() if index not in context.numbers}
    return missing | {number: index for index, number in context.numbers.items()}


@dataclass(frozen=True)
class MarkerAudit:
    """Checks whether the scores support the markers of a response.

    A marker is supported if a source of its document is cited for the marked text, or if the
    document is worth `min_effect` nats to it.
    """

    markers: tuple[WrittenMarker, ...]
    context: Context
    search: Sufficiency
    min_effect: float

    @cached_property
    def _starts(self) -> list[int]:
        return [marker.start for marker in self.markers]

    def markers_in(
        self, start: int, end: int, tokens: Sequence[int], cited: Collection[int]
    ) -> Iterator[Marker]:
        """The markers among the characters [start, end) of the response.

        `tokens` are the response tokens that the markers speak of, `cited` the ids of the sources
        that are cited for these tokens.
        """
        supporting = {
            document
            for source_id in cited
            for document in self.context.sources[source_id].documents
        }
        documents = numbered_documents(self.context)
        effects: dict[int, float | None] = {}
        first, last = (bisect_left(self._starts, edge) for edge in (start, end))
        for marker in self.markers[first:last]:
            for number in marker.numbers:
                document = documents.get(number)
                supported = None
                if document in supporting:
                    supported = True
                elif document is not None:
                    if document not in effects:
                        effects[document] = self._effect(document, tokens)
                    effect = effects[document]
                    supported = None if effect is None else effect >= self.min_effect
                yield Marker(
                    start=marker.start,
                    end=marker.end,
                    number=number,
                    document=document,
                    supported=supported,
                )

    def _effect(self, document: int, tokens: Sequence[int]) -> float | None:
        """What the document is worth to these tokens in nats.

        None if it was not scored, or without tokens that the marker could speak of.
        """
        own = [source.id for source in self.context.sources if document in source.documents]
        if document in self.context.not_located:
            return 0.0
        if not own or not tokens:
            return None
        self.search.score_without([own])
        row = self.search.without(own)
        return None if row is None else sum(row[i] for i in tokens)
