"""The rows of one answer, by the kept or ablated units of the prompt."""

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


class Evidence:
    """The losses of an answer without some units, or with only some, in nats per response token.

    A row with only some units is exact: that prompt is short, however long the context is. A row
    without some is masked where the architecture allows it, unless it is asked for exactly.
    `reliance` [response tokens] is the loss without the whole context. Rows are the scorer's, which
    scores each once; a row that was not fetched, or is beyond the budget, is None. Where a pass
    takes the same time whatever its tokens, rows that are only `expected` to be needed are scored
    in the pass of those that are. From `end_at` on, rows end with a token of the response, which
    changes nothing before it; those without a single unit do not, as they are its scores.
    """

    def __init__(self, scorer: Scorer, reliance: TokenScores) -> None:
        self.scorer = scorer
        self.reliance = reliance
        self._asked: set[Request] = set()
        self._expected_now: dict[Request, None] = {}  # in this step of the searches
        self._expected: dict[Request, None] = {}  # in earlier steps since the last pass
        self._recompute: Reencoded | None = "question" if scorer.masked_refusal is None else None
        self._beginning = Ablation()

    def end_at(self, num_response_tokens: int) -> None:
        """Read rows that are asked for from now on only up to so many tokens of the response."""
        self._beginning = Ablation(said=tuple(range(num_response_tokens)))

    @property
    def can_mask(self) -> bool:
        return self._recompute is not None

    def without(self, units: Collection[int], *, exact: bool = False) -> TokenScores | None:
        """The loss of each response token without these units; any row, if it need not be exact."""
        row = self.scorer.known(self.ablating(units, exact=True))
        return row if row or exact else self.scorer.known(self.ablating(units))

    def only(self, units: Collection[int]) -> TokenScores | None:
        """The loss of each response token with only these units."""
        return self.scorer.known(self.keeping(units))

    def only_as_asked(self, units: Collection[int]) -> TokenScores | None:
        """The same, if a search asked for that row: whether others are known is chance."""
        return self.only(units) if self.keeping(units) in self._asked else None

    def ablating(self, units: Collection[int], *, exact: bool = False) -> Request:
        """The row without these units."""
        request = Ablation(self._ids(units)), None if exact else self._recompute
        return request if len(units) == 1 else self._begun(request)

    def keeping(self, units: Collection[int]) -> Request:
        """The row with only these units."""
        return self._begun((self.scorer.context.ablation_of_others(self._ids(units)), None))

    def _begun(self, request: Request) -> Request:
        """The row up to where rows end now, unless it was scored whole."""
        ablation, recompute = request
        whole = self.scorer.known(request) is not None
        return request if whole else (ablation | self._beginning, recompute)

    def expect(self, requests: Iterable[Request]) -> None:
        """Score these rows together with those that are fetched next, as far as that is free."""
        if self.scorer.num_spare:
            self._expected_now.update(dict.fromkeys(requests))

    def expect_without(self, sets: Iterable[Collection[int]]) -> None:
        """Expect the rows without each of these sets, where masks make them short."""
        if self.can_mask:
            self.expect(self.ablating(units) for units in sets)

    def fetch(self, requests: Iterable[Request]) -> None:
        """Score these rows in one batch; no masked row whose exact row is known."""
        asked = dict.fromkeys(requests)
        self._asked.update(asked)
        self._expected, self._expected_now = self._expected_now | self._expected, {}
        if new := self._unknown(asked):
            others = [row for row in self._unknown(self._expected) if row not in asked]
            self.scorer.score_each([*new, *self.scorer.filling(new, others)])
            self._expected = {}

    def _unknown(self, requests: Iterable[Request]) -> list[Request]:
        known = self.scorer.known
        return [row for row in requests if not known(row) and not known((row[0], None))]

    def fetch_without(self, sets: Iterable[Collection[int]], *, exact: bool = False) -> None:
        """Fetch the rows without each of these sets of units."""
        self.fetch(self.ablating(units, exact=exact) for units in sets)

    def in_rounds(self, searches: Sequence[Steps[Result]]) -> list[Result]:
        """The results of the searches; what all lack is fetched together, round by round."""
        results: dict[int, Result] = {}
        wanted: dict[int, Sequence[Request]] = dict.fromkeys(range(len(searches)), ())
        while wanted:
            self.fetch(request for requests in wanted.values() for request in requests)
            for index in [*wanted]:
                try:
                    wanted[index] = self._lacking(searches[index])
                except StopIteration as end:
                    del wanted[index]
                    results[index] = end.value
        return [results[index] for index in range(len(searches))]

    def _lacking(self, search: Steps[Result]) -> Sequence[Request]:
        """The next rows of a search of which one is missing."""
        while not self._unknown(requests := next(search)):
            self.fetch(requests)
        return requests

    def refine(self, scores: Scores) -> Scores:
        """The scores, with measured rows in place of estimates."""
        rows, exact = list(scores.token_scores), list(scores.exact)
        estimated = list(scores.estimated or (False,) * len(rows))
        for unit in range(len(rows)):
            asked = {self.ablating([unit]), self.ablating([unit], exact=True)} & self._asked
            if asked and not exact[unit] and (row := self.without([unit])):
                rows[unit], estimated[unit] = row, False
                exact[unit] = self.without([unit], exact=True) is not None
        return replace(
            scores, token_scores=tuple(rows), exact=tuple(exact), estimated=tuple(estimated)
        )

    def _ids(self, units: Collection[int]) -> frozenset[int]:
        return frozenset(source for unit in units for source in self.scorer.units[unit])
