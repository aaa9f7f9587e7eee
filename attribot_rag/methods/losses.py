"""The losses of a response without some units, and with only some units."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from attribot_rag.context import Ablation
from attribot_rag.methods.base import Scores, TokenScores
from attribot_rag.scoring import Reencoded, Request, Scorer

Result = TypeVar("Result")
# A search for one part: it yields the rows that it needs next, and goes on once they are scored.
Steps = Generator[Sequence[Request], None, Result]


class Losses:
    """Losses of log-likelihood, in nats per response token, from rows that are scored once.

    Rows with only some units are exact: that prompt is short, however long the context is. What the
    response loses without units (their necessity) is masked where the architecture allows it.
    `reliance` [response tokens] is the loss without the whole context. The exact rows of `measured`
    are not scored again.
    """

    def __init__(
        self, scorer: Scorer, reliance: TokenScores, measured: Scores | None = None
    ) -> None:
        self._scorer = scorer
        self.reliance = reliance
        self._recompute: Reencoded | None = "question" if scorer.masked_refusal is None else None
        self._changes: dict[Request, TokenScores] = {}
        rows = zip(measured.token_scores, measured.exact, strict=True) if measured else ()
        for unit, (row, exact) in enumerate(rows):
            if row is not None and exact:
                self._changes[self._ablating([unit], exact=True)] = row

    def loss_without(self, units: Collection[int]) -> TokenScores | None:
        """The loss of each response token without these units, None if it was not scored."""
        exact, masked = self._ablating(units, exact=True), self._ablating(units)
        return self._changes.get(exact, self._changes.get(masked))

    def score_without(self, sets: Iterable[Collection[int]], *, exact: bool = False) -> None:
        """Score the response without each of these sets of units."""
        self._score([self._ablating(units, exact=exact) for units in sets])

    def loss_with_only(self, units: Collection[int]) -> TokenScores | None:
        """The loss of each response token with only these units, None if it was not scored."""
        return self._changes.get(self._keeping(units))

    def score_only(self, sets: Iterable[Collection[int]]) -> None:
        """Score the response with only each of these sets of units."""
        self._score([self._keeping(units) for units in sets])

    def refine(self, scores: Scores) -> Scores:
        """The scores with those of the units that were measured, instead of estimates."""
        rows, exact = list(scores.token_scores), list(scores.exact)
        estimated = list(scores.estimated or (False,) * len(rows))
        for index in range(len(rows)):
            row = self.loss_without([index])
            if row is not None and not exact[index]:
                rows[index], estimated[index] = row, False
                exact[index] = self._ablating([index], exact=True) in self._changes
        return replace(
            scores, token_scores=tuple(rows), exact=tuple(exact), estimated=tuple(estimated)
        )

    def _ablating(self, units: Collection[int], *, exact: bool = False) -> Request:
        """The row without these units."""
        return Ablation(self._ids(units)), None if exact else self._recompute

    def _keeping(self, units: Collection[int]) -> Request:
        """The row with only these units."""
        return self._scorer.context.ablation_of_others(self._ids(units)), None

    def _ids(self, units: Collection[int]) -> frozenset[int]:
        return frozenset(source for unit in units for source in self._scorer.units[unit])

    def _score(self, requests: Iterable[Request]) -> None:
        new = [
            (ablation, recompute)
            for ablation, recompute in dict.fromkeys(requests)
            if not {(ablation, recompute), (ablation, None)} & self._changes.keys()
        ]
        if new:
            pairs = zip(new, self._scorer.score_each(new).changes, strict=True)
            self._changes.update((request, row) for request, row in pairs if row is not None)

    def in_rounds(self, searches: Sequence[Steps[Result]]) -> list[Result]:
        """The results of the searches; what all ask for next is scored at once."""
        results: dict[int, Result] = {}
        wanted: dict[int, Sequence[Request]] = dict.fromkeys(range(len(searches)), ())
        while wanted:
            self._score([request for requests in wanted.values() for request in requests])
            for index in [*wanted]:
                try:
                    wanted[index] = next(searches[index])
                except StopIteration as end:
                    del wanted[index]
                    results[index] = end.value
        return [results[index] for index in range(len(searches))]
