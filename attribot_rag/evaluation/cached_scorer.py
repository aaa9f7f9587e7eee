"""A scorer that shares ablations between methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from attribot_rag.context import Ablation
from attribot_rag.scoring import LogLikelihoods, Reencoded, Scorer
from attribot_rag.scoring.log_likelihoods import Matrix


@dataclass(eq=False)
class CachedScorer(Scorer):
    """A scorer that computes no exact ablation twice."""

    _known: dict[Ablation, tuple[Matrix, bool]] = field(
        init=False, default_factory=dict, repr=False
    )

    def score(
        self, ablations: Sequence[Ablation], *, recompute: Reencoded | None = None
    ) -> LogLikelihoods:
        if recompute is not None:
            return super().score(ablations, recompute=recompute)
        new = [ablation for ablation in dict.fromkeys(ablations) if ablation not in self._known]
        added = super().score(new)
        for ablation, row, in_step, scored in zip(
            new, added.ablated, added.in_step, added.scored, strict=True
        ):
            if scored:
                self._known[ablation] = (row, in_step)
        unscored = (np.full_like(added.full, np.nan), False)
        known = [self._known.get(ablation, unscored) for ablation in ablations]
        rows = np.array([row for row, _ in known]).reshape(len(known), len(added.full))
        return LogLikelihoods(added.full, rows, tuple(in_step for _, in_step in known))
