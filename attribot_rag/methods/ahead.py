"""The rows that may be needed next, for `Evidence.ahead`; none is worked out while that is off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, islice, zip_longest
from typing import TYPE_CHECKING

from attribot_rag.context.context import group
from attribot_rag.methods.base import Part, answer_parts
from attribot_rag.methods.limits import Limits

if TYPE_CHECKING:
    from attribot_rag.methods.evidence import Evidence, PartLosses
    from attribot_rag.methods.necessity import Order
    from attribot_rag.scoring import Request


def first_step(search: Iterable[Sequence[Request]]) -> Iterator[Request]:
    """The rows that a search requests first."""
    return chain.from_iterable(islice(search, 1))


def after_reliance(evidence: Evidence, order: Order, few: int) -> Iterator[Request]:
    """The rows that may be needed after the one without any documents.

    With few units, each is left out. Otherwise, for each part in turn, the units with most of its
    words are kept: alone, then together; then they are left out. After that, each document is left
    out, for sentences with little reliance. Finally, the first unit of each part is kept together
    with the unit that has the missing words. Rows of a long answer leave out earlier sentences.
    """
    context, units = evidence.scorer.context, evidence.scorer.units
    rows: list[list[Request]] = []
    further: list[Request] = []
    if len(units) <= few:
        rows.append(evidence.ablating_each([unit] for unit in range(len(units))))
    for part in answer_parts(evidence.scorer):
        held = order.holding(part, dict.fromkeys(range(len(part.words)), 1.0))[
            : Limits.num_expected
        ]
        own = evidence.for_part(part)
        of_part = own.leave_out_earlier()
        for index in range(len(held)):
            for kept in ([held[index]], held[: index + 1])[: 1 + index % 2]:
                of_part += [own.keeping(kept), *own.ablating_each([kept])]
        further += _with_complement(own, order, part, held[:1])
        rows.append(of_part)
    expected = dict.fromkeys(filter(None, chain.from_iterable(zip_longest(*rows))))
    yield from expected
    documents = group(context, units, "document")
    room = 2 * (evidence.ahead.room - len(expected))  # a row without units has half the tokens
    if 1 < len(documents) <= min(room, evidence.ahead.room):
        yield from evidence.ablating_each(documents)
        room -= len(documents)
    yield from further[: max(0, room // 2)]


def after_first(losses: PartLosses, order: Order, unit: int) -> Iterator[Request]:
    """The rows of units that may replace the first one, or are tried with it."""
    part, evidence, count = losses.part, losses.evidence, losses.limits.num_at_once
    others = [other for other in order.holding(part, losses.words(None)) if other != unit]
    alone = [[unit], *([other] for other in others[:count])]
    yield from map(evidence.keeping, alone)
    for added in (1, count):
        yield evidence.keeping([unit, *others[:added]])
    yield from _with_complement(evidence, order, part, [unit])
    yield from evidence.ablating_each(alone)


def after_several(
    losses: PartLosses,
    order: Order,
    units: Sequence[int],
    growths: Iterable[Sequence[int]],
    documents: Iterable[Sequence[Request]],
) -> Iterator[Request]:
    """The rows of the sets that the units may grow to, and those needed if the units are enough.

    If no set is enough, the search for `documents` begins. If the units are, each is left out.
    """
    evidence = losses.evidence
    for larger in growths:
        yield evidence.keeping(larger)
        yield from evidence.ablating_each([unit] for unit in larger)
    if evidence.can_mask and order.is_ranked:  # otherwise, other rows follow
        yield from first_step(documents)
    fewer = ([other for other in units if other != unit] for unit in units)
    yield from map(evidence.keeping, filter(None, [losses.irreplaceable(units), *fewer]))
    yield from _with_complement(evidence, order, losses.part, units)
    yield from evidence.ablating_each([units])


def after_fewer(
    losses: PartLosses, order: Order, units: Sequence[int], tried: Sequence[int]
) -> Iterator[Request]:
    """The rows of the sets without one of the units that are tried next, in turn.

    Then the rows that are needed if one of these sets is the smallest.
    """
    evidence = losses.evidence
    gone = [
        {unit, *earlier}
        for index, unit in enumerate(tried)
        for count in range(index + 1)
        for earlier in combinations(tried[:index], count)
    ]
    subsets = [[unit for unit in units if unit not in each] for each in gone]
    yield from map(evidence.keeping, filter(None, subsets))
    for smallest in filter(None, [units, *subsets]):
        yield from evidence.ablating_each([smallest])
        yield from _with_complement(evidence, order, losses.part, smallest)


def _with_complement(
    evidence: Evidence, order: Order, part: Part, units: Sequence[int]
) -> Iterator[Request]:
    """The row of the units and the unit with most of the words that they lack."""
    missing = order.complement(part, units) if units else None
    if missing is not None:
        yield evidence.keeping([*units, missing])
