"""The audit of the citation markers that the model itself wrote."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING

from attribot_rag.context import Context
from attribot_rag.context.text import Interval
from attribot_rag.methods.base import Part, total
from attribot_rag.result import Marker, Verdict
from attribot_rag.verdicts.marker_syntax import WrittenMarker
from attribot_rag.verdicts.markers import markers_of
from attribot_rag.verdicts.sentences import AnswerSentence

if TYPE_CHECKING:
    from attribot_rag.methods.evidence import Evidence


@dataclass(frozen=True)
class MarkerAudit:
    """Checks whether the scores support the markers of a response.

    A marker is supported if a source of its document is cited for the marked text, or if the
    document is worth `min_effect` nats to it; of several documents with its label, if one of them
    is. Without `evidence`, only the citations count, and it is not known of a document whose
    sources `may_say` the tokens.
    """

    markers: tuple[WrittenMarker, ...]
    context: Context
    evidence: Evidence | None = None
    min_effect: float = 0.0
    may_say: Callable[[Sequence[int], Sequence[int]], bool] | None = None

    def of_answer(
        self, sentences: Sequence[AnswerSentence], verdicts: Sequence[Verdict]
    ) -> Iterator[Marker]:
        """All markers of the response, each audited by the citations of what it speaks of.

        A sentence that follows from another has the other's sources. A marker where nothing is
        stated speaks of the whole answer.
        """
        starts = [sentence.start for sentence in sentences]
        whole = (0, sentences[-1].end) if sentences else (0, 0)

        @cache
        def said_in(scope: Interval) -> tuple[tuple[int, ...], frozenset[int]]:
            first, last = bisect_right(starts, scope[0]) - 1, bisect_left(starts, scope[1])
            stated = [i for i in range(first, last) if sentences[i].is_judged]
            tokens = chain.from_iterable(sentences[i].tokens for i in stated)
            cited = (verdicts[i].traced(verdicts).source_ids for i in stated)
            return tuple(tokens), frozenset(chain.from_iterable(cited))

        for marker in self.markers:
            index = bisect_right(starts, marker.start) - 1
            own = sentences[index].start, sentences[index].end
            scopes = map(said_in, (*(marker.scopes or (own,)), whole))
            tokens, cited = next((said for said in scopes if said[0]), said_in(whole))
            yield from markers_of([marker], cache(partial(self._supports, tokens, cited)))

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
        if self.evidence is None:
            return None if self.may_say and self.may_say(own, tokens) else False
        evidence = self.evidence.of(Part(tuple(tokens)))
        evidence.fetch_without([own])
        row = evidence.without(own)
        return None if row is None else total(row, tokens) >= self.min_effect
