"""The sources with the highest necessity for a part of the response."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from attribot_rag.context.context import group
from attribot_rag.methods.base import Carriers, best
from attribot_rag.methods.evidence import Steps
from attribot_rag.methods.order import Order
from attribot_rag.methods.part_losses import PartLosses

_NUM_NEEDED = 2
_NUM_GROUPS = 3
_MASKED_SHARE = 0.45  # of `min_effect`, from where an exact score may reach it


class BudgetEnded(Exception):
    """A row that a search needs was not scored."""


class Necessity:
    """Ablates documents, then units, to find the units that a part needs.

    Raises `BudgetEnded` if a needed row was not scored.
    """

    def __init__(self, losses: PartLosses, order: Order) -> None:
        self._losses = losses
        self._order = order
        self._evidence = losses.evidence
        self._limits = losses.limits

    def decisive(self) -> Steps[Carriers]:
        """Find the one unit that a part with little reliance on the context needs.

        The reliance is no bound: without the context, what speaks against the part is gone, too. So
        the document that holds most of its words is left out, then all others together; documents
        that matter are divided, down to one unit, which is scored exactly.
        """
        evidence, least = self._evidence, _MASKED_SHARE * self._limits.min_effect
        units = [[unit] for unit in range(len(evidence.scorer.units))]
        if not all(evidence.without(unit, exact=True) for unit in units):
            documents = yield from self.mattering_documents(least)
            units = [[unit] for unit in chain.from_iterable(documents)]
        for unit in (yield from self._mattering(units, least))[:1]:
            if (yield from self.decides(unit)):
                yield [evidence.keeping(unit)]
                return Carriers(tuple(unit), sufficient=False)
        return Carriers()

    def decides(self, units: list[int]) -> Steps[bool]:
        """Whether the removal of these units costs the part `min_effect`, by an exact row.

        That is only asked for where a masked one comes near.
        """
        evidence, least = self._evidence, self._limits.min_effect
        if not (yield from self._mattering([units], _MASKED_SHARE * least)):
            return False
        yield [evidence.ablating(units, exact=True)]
        row = evidence.without(units, exact=True)
        if row is None:
            raise BudgetEnded
        return self._losses.of(row) >= least

    def most_needed(self, ranked: Sequence[int]) -> Steps[Carriers]:
        """Find the units with the highest necessity where no set suffices; at least one.

        Those `ranked` first are left out; if none costs half of the reliance, those of the
        document that matters most, too.
        """
        units = [[unit] for unit in ranked[:_NUM_NEEDED]]
        losses = yield from self._without(units)
        half = self._losses.reliance / 2
        if self._evidence.can_mask and all(loss < half for loss in losses):
            documents = yield from self.mattering_documents(half)
            units += [[unit] for unit in chain(*documents[:1]) if [unit] not in units]
            losses = yield from self._without(units)
        order = best(losses)
        if not order:
            raise BudgetEnded
        needed = [index for index in order if losses[index] >= self._limits.min_word]
        members = [*chain(*(units[index] for index in needed[:_NUM_NEEDED] or order[:1]))]
        yield [self._evidence.keeping(members)]
        return Carriers(tuple(members), sufficient=False)

    def mattering_documents(self, least: float) -> Steps[list[list[int]]]:
        """The units of each document without which the part loses `least` nats, most nats first.

        The likeliest is left out, and all others together; then each third of what matters. What
        speaks against another of its set is not found.
        """
        scorer = self._evidence.scorer
        documents = group(scorer.context, scorer.units, "document")
        if len(documents) == 1:  # what the part loses without it is the reliance
            return documents if self._losses.reliance >= least else []
        ordered = self._order.most_alike(self._losses.part, documents)
        found: list[list[int]] = []
        groups = [ordered[:1], ordered[1:]]
        if self._evidence.can_mask and len(ordered) <= scorer.num_spare:
            groups = [[members] for members in ordered]
        while groups := [members for members in groups if members]:
            sets = [[*chain.from_iterable(members)] for members in groups]
            losses = yield from self._without(sets)
            pairs = zip(groups, losses, strict=True)
            likely = [members for members, loss in pairs if loss >= least]
            found += chain.from_iterable(members for members in likely if len(members) == 1)
            split = (members for members in likely if len(members) > 1)
            groups = [members[i::_NUM_GROUPS] for members in split for i in range(_NUM_GROUPS)]
        return (yield from self._mattering(found, least))

    def _mattering(self, sets: Sequence[list[int]], least: float) -> Steps[list[list[int]]]:
        """The sets whose removal costs the part `least` nats, the costliest first."""
        losses = yield from self._without(sets)
        return [sets[index] for index in best(losses) if losses[index] >= least]

    def _without(self, sets: Sequence[Collection[int]]) -> Steps[list[float]]:
        """The loss of the part, in nats, without each of these sets of units."""
        yield [self._evidence.ablating(units) for units in sets]
        rows = [self._evidence.without(units) for units in sets]
        if None in rows:
            raise BudgetEnded
        return [self._losses.of(row) for row in rows]
