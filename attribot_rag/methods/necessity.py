"""The sources without which a part of the response loses most."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from attribot_rag.context.groups import group
from attribot_rag.methods.base import Carriers, Part, Scores, TokenScores, best, total
from attribot_rag.methods.holders import Holders
from attribot_rag.methods.losses import Losses, Steps
from attribot_rag.methods.thresholds import Thresholds
from attribot_rag.scoring import Scorer

_NUM_NEEDED = 2
_NUM_GROUPS = 3
_MASKED_SHARE = 0.45  # of `min_effect`, from where an exact score may reach it


class BudgetEnded(Exception):
    """A row that a search cannot do without was not scored."""


class Necessity(Losses):
    """Leaves out documents, then units, to find those that a part cannot do without.

    Raises `BudgetEnded` where a row that it needs was not scored.
    """

    def __init__(
        self,
        scorer: Scorer,
        reliance: TokenScores,
        thresholds: Thresholds,
        measured: Scores | None = None,
    ) -> None:
        super().__init__(scorer, reliance, measured)
        self._thresholds = thresholds
        self._holders = Holders(scorer)

    def decisive(self, part: Part) -> Steps[Carriers]:
        """The unit without which a part that hardly relies on the context loses `min_effect`.

        The reliance is no bound: without the context, what speaks against the part is gone, too.
        So the document that holds most of its words is left out, then all others together; what
        matters of these is looked into, down to a unit, which is scored exactly.
        """
        units = [[unit] for unit in range(len(self._scorer.units))]
        if not all(self._ablating(unit, exact=True) in self._changes for unit in units):
            documents = yield from self._mattering_documents(part, self._least)
            units = [[unit] for unit in chain.from_iterable(documents)]
        for unit in (yield from self._mattering(part, units, self._least))[:1]:
            exact = self._ablating(unit, exact=True)
            yield [exact]
            if exact not in self._changes:
                raise BudgetEnded
            if total(self.loss_without(unit), part.tokens) >= self._thresholds.min_effect:
                yield [self._keeping(unit)]
                return Carriers(tuple(unit), sufficient=False)
        return Carriers()

    def most_needed(self, part: Part, ranked: Sequence[int]) -> Steps[Carriers]:
        """The units without which the part loses most, where no set suffices; at least one.

        Those `ranked` first are left out; if none costs half of the reliance, those of the
        document that matters most, too.
        """
        units = [[unit] for unit in ranked[:_NUM_NEEDED]]
        losses = yield from self._losses_without(part, units)
        half = total(self.reliance, part.tokens) / 2
        if self._recompute and all(loss < half for loss in losses):
            documents = yield from self._mattering_documents(part, half)
            units += [[unit] for unit in chain(*documents[:1]) if [unit] not in units]
            losses = yield from self._losses_without(part, units)
        order = best(losses)
        if not order:
            raise BudgetEnded
        needed = [index for index in order if losses[index] >= self._thresholds.min_word]
        members = [*chain(*(units[index] for index in needed[:_NUM_NEEDED] or order[:1]))]
        yield [self._keeping(members)]
        return Carriers(tuple(members), sufficient=False)

    def _mattering_documents(self, part: Part, least: float) -> Steps[list[list[int]]]:
        """The units of each document without which the part loses `least` nats, most nats first.

        The likeliest is left out, and all others together; then each third of what matters. What
        speaks against another of its set is not found.
        """
        documents = group(self._scorer.context, self._scorer.units, "document")
        if len(documents) == 1:  # what the part loses without it is the reliance
            return documents if total(self.reliance, part.tokens) >= least else []
        ordered = self._holders.most_alike(part, documents)
        found: list[list[int]] = []
        groups = [ordered[:1], ordered[1:]]
        while groups := [members for members in groups if members]:
            sets = [[*chain.from_iterable(members)] for members in groups]
            losses = yield from self._losses_without(part, sets)
            pairs = zip(groups, losses, strict=True)
            likely = [members for members, loss in pairs if loss >= least]
            found += chain.from_iterable(members for members in likely if len(members) == 1)
            split = (members for members in likely if len(members) > 1)
            groups = [members[i::_NUM_GROUPS] for members in split for i in range(_NUM_GROUPS)]
        return (yield from self._mattering(part, found, least))

    def _mattering(
        self, part: Part, sets: Sequence[list[int]], least: float
    ) -> Steps[list[list[int]]]:
        """Those of the sets without which the part loses `least` nats, most nats first."""
        losses = yield from self._losses_without(part, sets)
        return [sets[index] for index in best(losses) if losses[index] >= least]

    @property
    def _least(self) -> float:
        """From this masked loss on, in nats, an exact one may be `min_effect`."""
        return _MASKED_SHARE * self._thresholds.min_effect

    def _losses_without(self, part: Part, sets: Sequence[list[int]]) -> Steps[list[float]]:
        """The loss of the part, in nats, without each of these sets of units."""
        yield [self._ablating(units) for units in sets]
        rows = [self.loss_without(units) for units in sets]
        if None in rows:
            raise BudgetEnded
        return [total(row, part.tokens) for row in rows]
