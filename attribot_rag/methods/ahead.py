"""The rows that a search may need next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from attribot_rag.methods.evidence import PartLosses
from attribot_rag.methods.necessity import Necessity, Order


class Foresight:
    """Expects the rows that may follow on those of a step, likeliest first.

    They are scored in that step's pass, where a pass takes the same time whatever its tokens; else
    nothing is expected (`Evidence.expect`).
    """

    def __init__(self, losses: PartLosses, order: Order, necessity: Necessity) -> None:
        self._losses = losses
        self._order = order
        self._necessity = necessity
        self._evidence = losses.evidence
        self._is_free = bool(self._evidence.scorer.num_spare)

    def expect_after_first(self, unit: int) -> None:
        """Expect what may replace the first unit, or is tried beside it."""
        if not self._is_free:
            return
        held = self._order.holding(self._losses.part, self._losses.words(None))
        others = [other for other in held if other != unit]
        count = self._losses.limits.num_at_once
        sets = [[unit], *([other] for other in others[:count])]
        self._expect_only([*sets, *([unit, *others[:added]] for added in (1, count))])
        self._expect_lacking([unit])
        self._evidence.expect_without([x] for x in [unit, *others[:count]])

    def expect_after_several(self, units: Sequence[int], growths: Iterable[Sequence[int]]) -> None:
        """Expect the sets that the units may grow to, or what follows if none or they suffice.

        If none suffices, documents are left out; if they do, each of them is.
        """
        if not self._is_free:
            return
        evidence, least = self._evidence, self._losses.limits.search_share * self._losses.reliance
        for larger in growths:
            self._expect_only([larger])
            evidence.expect_without([unit] for unit in larger)
        if evidence.can_mask and self._order.is_ranked:  # else that is not what follows
            evidence.expect(next(self._necessity.mattering_documents(least), ()))
        self._expect_only([self._losses.irreplaceable(units)])
        self._expect_only([other for other in units if other != unit] for unit in units)
        self._expect_lacking(units)
        evidence.expect_without([units])

    def expect_fewer(self, units: Sequence[int], tried: Sequence[int]) -> None:
        """Expect the sets without any of the units that are tried next, in turn.

        Then what follows when one of them is the smallest.
        """
        if not self._is_free:
            return
        gone = [
            {unit, *earlier}
            for index, unit in enumerate(tried)
            for count in range(index + 1)
            for earlier in combinations(tried[:index], count)
        ]
        subsets = [[unit for unit in units if unit not in each] for each in gone]
        self._expect_only(subsets)
        for smallest in filter(None, [units, *subsets]):
            self._evidence.expect_without([smallest])
            self._expect_lacking(smallest)

    def _expect_only(self, sets: Iterable[Sequence[int]]) -> None:
        self._evidence.expect(map(self._evidence.keeping, filter(None, sets)))

    def _expect_lacking(self, units: Sequence[int]) -> None:
        """Expect the units with the one that holds most words that they do not."""
        if (missing := self._order.complement(self._losses.part, units)) is not None:
            self._expect_only([[*units, missing]])
