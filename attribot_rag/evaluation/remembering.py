"""Ablations that several methods share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from attribot_rag.context import Ablation
from attribot_rag.scoring import LogLikelihoods, Reencoded, Scorer
from attribot_rag.scoring.log_likelihoods import Matrix


@dataclass(eq=False)
class RememberingScorer(Scorer):
    """Scores no exact ablation twice."""

    _known: dict[Ablation, tuple[Matrix, bool]] = field(
        init=False, default_factory=dict, repr=False
    )

    def score(
        self, ablations: Sequence[Ablation], *, recompute: Reencoded | None = None
    ) -> LogLikelihoods:
        if recompute is not None:
            return super().score(ablations, recompute=recompute)
        new = [one for one in dict.fromkeys(ablations) if one not in self._known]
        found = super().score(new)
        unscored = (np.full_like(found.full, np.nan), False)
        for one, row, in_step, scored in zip(
            new, found.ablated, found.in_step, found.scored, strict=True
        ):
            if scored:
                self._known[one] = (row, in_step)
        held = [self._known.get(one, unscored) for one in ablations]
        rows = np.array([row for row, _ in held]).reshape(len(held), len(found.full))
        return LogLikelihoods(found.full, rows, tuple(in_step for _, in_step in held))
