"""The audit of the citation markers that the model itself wrote."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from operator import attrgetter

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Context
from attribot_rag.methods.base import total
from attribot_rag.methods.evidence import Evidence
from attribot_rag.result import Marker, Verdict
from attribot_rag.verdicts.marker_syntax import KnownLabels
from attribot_rag.verdicts.markers import WrittenMarker, markers_of
from attribot_rag.verdicts.sentences import AnswerSentence


@dataclass(frozen=True)
class MarkerAudit:
    """Checks whether the scores support the markers of a response.

    A marker is supported if a source of its document is cited for the marked text, or if the
    document is worth `min_effect` nats to it; of several documents with its label, if one of them
    is.
    """

    markers: tuple[WrittenMarker, ...]
    context: Context
    evidence: Evidence
    min_effect: float

    def of_answer(
        self, sentences: Sequence[AnswerSentence], verdicts: Sequence[Verdict]
    ) -> Iterator[Marker]:
        """All markers of the response, each audited by its sentence's citation.

        A sentence that follows from another has the other's sources; "Sources: [1]" speaks of the
        whole answer.
        """
        spoken = (x.tokens for x in sentences if not (x.trivial or x.thinking))
        whole = tuple(chain.from_iterable(spoken))
        cited = frozenset(chain.from_iterable(verdict.source_ids for verdict in verdicts))
        for sentence, verdict in zip(sentences, verdicts, strict=True):
            own = verdict.traced(verdicts).source_ids
            of = (whole, cited) if sentence.trivial else (sentence.tokens, own)
            yield from self.markers_in(sentence.start, sentence.end, *of)

    def markers_in(
        self, start: int, end: int, tokens: Sequence[int], cited: Collection[int]
    ) -> tuple[Marker, ...]:
        """The markers among the characters [start, end) of the response.

        `tokens` are the response tokens before the markers, `cited` the ids of the sources cited
        for these tokens.
        """
        supports = cache(partial(self._supports, tokens, cited))
        by_start = attrgetter("start")
        first, last = (bisect_left(self.markers, edge, key=by_start) for edge in (start, end))
        return markers_of(self.markers[first:last], self._known, supports)

    @cached_property
    def _known(self) -> KnownLabels:
        return KnownLabels.of(self.context)

    def _supports(
        self, tokens: Sequence[int], cited: Collection[int], document: int
    ) -> bool | None:
        """Whether a document supports these tokens, for which sources are cited.

        None if it was not scored, or without tokens that the marker could speak of.
        """
        if any(document in self.context.sources[source_id].documents for source_id in cited):
            return True
        if document in self.context.not_located:
            return False
        own = [source.id for source in self.context.sources if document in source.documents]
        if not own or not tokens:
            return None
        self.evidence.fetch_without([own])
        row = self.evidence.without(own)
        return None if row is None else total(row, tokens) >= self.min_effect
