"""A scorer whose log-likelihoods follow from which sources are left in the prompt."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attribot_rag.context import Ablation
from attribot_rag.scoring import LogLikelihoods, Recomputed, Request, Scorer
from attribot_rag.scoring.scorer import ScoredRow

Worth = Callable[[frozenset[int]], Mapping[int, float]]


class Scripted:
    """A real scorer, except for ablations of its sources: `worth` gives their log-likelihoods.

    It maps the sources that a row keeps to the nats by which some response tokens are more likely
    than without any source. `kept_by_row` has these sources for each scored row, and `num_calls`
    counts the calls. After `most_rows`, the budget is over. With `real_bare`, the model scores the
    row without any documents.
    """

    def __init__(self, scorer: Scorer, worth: Worth, *, real_bare: bool = False) -> None:
        self._scorer = scorer
        self._worth = worth
        self._present = frozenset(scorer.context.present)
        self._real_bare = real_bare
        self.kept_by_row: list[frozenset[int]] = []
        self.scored: dict[Request, ScoredRow] = {}
        self.num_calls = 0
        self.most_rows: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scorer, name)

    def score(
        self, ablations: Sequence[Ablation], *, recompute: Recomputed | None = None
    ) -> LogLikelihoods:
        return self.score_each([Request(ablation, recompute) for ablation in ablations])

    def score_each(
        self, requests: Sequence[Request], also: Iterable[Request] = ()
    ) -> LogLikelihoods:
        self.num_calls += 1
        if self.num_spare_rows:
            also = [request for request in also if request not in self.scored]
            requests = [*dict.fromkeys([*requests, *self.rows_for_one_pass(requests, also)])]
        if all(map(self._is_real, requests)):
            result = self._scorer.score_each(requests)
        else:
            result = self._scored(requests)
        for request, row, loss in zip(requests, result.ablated, result.changes, strict=True):
            is_exact = request.recompute is None
            if loss is not None:
                self.scored[request] = ScoredRow(tuple(row.tolist()), is_exact, loss)
        return result

    def _is_real(self, request: Request) -> bool:
        """Whether it takes away earlier sentences or turns, or all sources where that is real."""
        ablation, context = request.ablation, self._scorer.context
        if ablation == context.without_documents:
            return self._real_bare
        turns = bool(context.conversation) and context.conversation[-1] in ablation.characters
        is_bare = replace(ablation, kept_response=None) == context.without_documents
        return turns or (is_bare and ablation.kept_response is not None)

    def _scored(self, requests: Sequence[Request]) -> LogLikelihoods:
        full, rows = self._row(self._present), []
        for request in requests:
            ablation = request.ablation
            if self._is_real(request):
                rows.append(self._scorer.score([ablation]).ablated[0])
                continue
            is_bare = ablation == self._scorer.context.without_documents
            kept = frozenset() if is_bare else self._present - ablation.source_ids
            late = self.most_rows is not None and len(self.kept_by_row) >= self.most_rows
            row = np.full(len(full), np.nan) if late else self._row(kept)
            if ablation.kept_response is not None:
                row[[i for i in range(len(full)) if i not in ablation.kept_response]] = np.nan
            rows.append(row)
            if not late:
                self.kept_by_row.append(kept)
        return LogLikelihoods(
            full,
            np.array(rows),
            tuple(
                request.recompute is None and bool(np.isfinite(row).any())
                for request, row in zip(requests, rows, strict=True)
            ),
        )

    def _row(self, kept: frozenset[int]) -> Any:
        row = np.zeros(len(self._scorer.generation.response_ids))
        for token, nats in self._worth(kept).items():
            row[token] += nats
        return row
