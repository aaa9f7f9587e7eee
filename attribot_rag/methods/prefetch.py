"""The rows that may be needed next: they fill a pass if launching one is expensive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, islice, zip_longest
from typing import TYPE_CHECKING

from attribot_rag.context.context import group
from attribot_rag.methods.base import Part, answer_parts

if TYPE_CHECKING:
    from attribot_rag.methods.evidence import Evidence, PartEvidence, PartLosses
    from attribot_rag.methods.necessity import UnitOrder
    from attribot_rag.scoring import Request, Scorer

_MAX_EARLY = 4
"""How many sources of a part are scored early, with the reliance."""


class Prefetch:
    """Rows that may be needed soon, the most probable first.

    If launching a forward pass is expensive, they fill the pass of the requested rows. Otherwise
    nothing is added, and rows that are generated lazily are never made.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._now: dict[Request, None] = {}  # added in this step of the searches
        self._earlier: dict[Request, None] = {}  # since the last pass

    @property
    def capacity(self) -> int:
        """How many short rows fit into a pass; 0 if only tokens cost time."""
        return self._scorer.num_spare

    @property
    def is_on(self) -> bool:
        return self.capacity > 0

    def add(self, requests: Iterable[Request]) -> None:
        """Score these rows with the next ones that are fetched, as far as they fit."""
        if self.is_on:
            self._now.update(dict.fromkeys(requests))

    def end_step(self) -> None:
        """Rows added in the next step come before those added so far."""
        self._earlier, self._now = self._now | self._earlier, {}

    def take(self) -> dict[Request, None]:
        """The rows for the next pass. Those that do not fit must be added again."""
        requests, self._earlier = self._earlier, {}
        return requests


def first_requests(search: Iterable[Sequence[Request]]) -> Iterator[Request]:
    """The rows that a search requests first. It is started for that, and never goes on."""
    return chain.from_iterable(islice(search, 1))


def requests_after_reliance(evidence: Evidence, order: UnitOrder, few: int) -> Iterator[Request]:
    """The rows that may be needed after the one without any documents.

    With few units, each is left out. Otherwise, for each part in turn, the units with most of its
    words are kept: alone, and every second time also with those before; then they are left out.
    After that, each document is left out, for sentences with little reliance. Finally, the first
    unit of each part is kept together with the unit that has the missing words. Rows of a long
    answer exclude earlier sentences.
    """
    context, units = evidence.scorer.context, evidence.scorer.units
    masked_requests_without = evidence.of_whole_answer.masked_requests_without
    by_part: list[list[Request]] = []
    with_complements: list[Request] = []
    if len(units) <= few:
        by_part.append(masked_requests_without([unit] for unit in range(len(units))))
    for part in answer_parts(evidence.scorer):
        nats = dict.fromkeys(range(len(part.word_tokens)), 1.0)
        with_words = order.with_words_of(part, nats)[:_MAX_EARLY]
        of_part = evidence.for_part(part)
        requests = of_part.exclude_earlier_text()
        for index, unit in enumerate(with_words):
            sets = [[unit], with_words[: index + 1]] if index % 2 else [[unit]]
            for kept in sets:
                requests += [of_part.request_with_only(kept)]
                requests += of_part.masked_requests_without([kept])
        with_complements += _with_complement(of_part, order, part, with_words[:1])
        by_part.append(requests)
    early = dict.fromkeys(filter(None, chain.from_iterable(zip_longest(*by_part))))
    yield from early
    documents = group(context, units, "document")
    capacity = evidence.prefetch.capacity
    room = 2 * (capacity - len(early))  # a row without units has half the tokens
    if 1 < len(documents) <= min(room, capacity):
        yield from masked_requests_without(documents)
        room -= len(documents)
    yield from with_complements[: max(0, room // 2)]


def requests_after_first(losses: PartLosses, order: UnitOrder, unit: int) -> Iterator[Request]:
    """The rows of units that may replace the first one, or are tried with it."""
    part, evidence, count = losses.part, losses.evidence, losses.limits.num_at_once
    with_words = order.with_words_of(part, losses.reliant_words)
    others = [other for other in with_words if other != unit]
    single = [[unit], *([other] for other in others[:count])]
    yield from map(evidence.request_with_only, single)
    for added in (1, count):
        yield evidence.request_with_only([unit, *others[:added]])
    yield from _with_complement(evidence, order, part, [unit])
    yield from evidence.masked_requests_without(single)


def requests_after_several(
    losses: PartLosses,
    order: UnitOrder,
    units: Sequence[int],
    growths: Iterable[Sequence[int]],
    document_search: Iterable[Sequence[Request]],
) -> Iterator[Request]:
    """The rows of the sets that the units may grow to, and those needed if the units are enough.

    If no set is enough, the search for documents begins. If the units are, each is left out.
    """
    evidence = losses.evidence
    for larger in growths:
        yield evidence.request_with_only(larger)
        yield from evidence.masked_requests_without([unit] for unit in larger)
    if evidence.can_mask and order.is_ranked:  # otherwise, other rows follow
        yield from first_requests(document_search)
    fewer = ([other for other in units if other != unit] for unit in units)
    sets = filter(None, [losses.irreplaceable(units), *fewer])
    yield from map(evidence.request_with_only, sets)
    yield from _with_complement(evidence, order, losses.part, units)
    yield from evidence.masked_requests_without([units])


def requests_after_fewer(
    losses: PartLosses, order: UnitOrder, units: Sequence[int], tried: Sequence[int]
) -> Iterator[Request]:
    """The rows of the sets without one of the units that are tried next, in turn.

    Then the rows that are needed if one of these sets is the smallest.
    """
    evidence = losses.evidence
    dropped = [
        {unit, *earlier}
        for index, unit in enumerate(tried)
        for count in range(index + 1)
        for earlier in combinations(tried[:index], count)
    ]
    subsets = [[unit for unit in units if unit not in gone] for gone in dropped]
    yield from map(evidence.request_with_only, filter(None, subsets))
    for smallest in filter(None, [units, *subsets]):
        yield from evidence.masked_requests_without([smallest])
        yield from _with_complement(evidence, order, losses.part, smallest)


def _with_complement(
    evidence: PartEvidence, order: UnitOrder, part: Part, units: Sequence[int]
) -> Iterator[Request]:
    """The row of the units and the unit with most of the words that they lack."""
    missing = order.complement(part, units) if units else None
    if missing is not None:
        yield evidence.request_with_only([*units, missing])
