"""ContextCite: a sparse linear model of random ablations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import cast

import numpy as np
import numpy.typing as npt

from attribot_rag.context import Ablation
from attribot_rag.errors import InvalidInput
from attribot_rag.methods.base import Cost, Method, Scores, Workload
from attribot_rag.scoring import Scorer
from benchmarks.experiment.baselines.similarity import spread_evenly

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ContextCite(Method):
    """The weights of a Lasso that predicts the response from the presence of each source.

    Each of `num_ablations` keeps every source with probability `keep`, drawn with `seed`. The
    target is the response's probability on the logit scale, divided by its number of tokens; inputs
    are standardised, the regularisation is `alpha` (Cohen-Wang et al., ContextCite, NeurIPS 2024,
    with the defaults of its code).
    """

    num_ablations: int = 64
    keep: float = 0.5
    alpha: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_ablations < 2:
            raise InvalidInput(f"num_ablations={self.num_ablations!r}; use at least 2")
        if not 0 < self.keep < 1:
            raise InvalidInput(f"keep={self.keep!r}; use a probability between 0 and 1")
        if not self.alpha > 0:
            raise InvalidInput(f"alpha={self.alpha!r}; use more than 0")

    @property
    def name(self) -> str:
        return f"context_cite ({self.num_ablations} ablations)"

    def run(self, scorer: Scorer) -> Scores:
        generator = np.random.default_rng(self.seed)
        kept = generator.random((self.num_ablations, len(scorer.units))) < self.keep
        ablations = [
            Ablation.of(*(i for unit in compress(scorer.units, ~row) for i in unit)) for row in kept
        ]
        log_likelihoods = scorer.score(ablations)
        scored = np.array(log_likelihoods.is_scored)
        full = tuple(log_likelihoods.full.tolist())
        if scored.sum() < 2:
            return spread_evenly(scorer, None, "logits")
        num_tokens = len(scorer.generation.response_ids)
        logits = logit_scaled(log_likelihoods.ablated[scored].sum(1))
        weights = lasso(kept[scored].astype(np.float64), logits / num_tokens, self.alpha)
        return spread_evenly(scorer, (weights * num_tokens).tolist(), "logits", full)

    def cost(self, workload: Workload) -> Cost:
        """The full row, then `num_ablations` rows of keep·|C| + |Q| + |R| tokens.

        Hardly any of the cached prompt is shared: the first removed source is near its beginning.
        """
        row = self.keep * workload.context_tokens + workload.tail_tokens
        full = workload.unread_tokens + workload.response_tokens
        return workload.cost(full + self.num_ablations * row)


def logit_scaled(log_likelihoods: Array) -> Array:
    """log(p / (1 - p)), from log p."""
    capped = np.minimum(log_likelihoods, -np.finfo(np.float64).tiny)
    return cast(Array, capped - np.log(-np.expm1(capped)))


def lasso(inputs: Array, outputs: Array, alpha: float) -> Array:
    """The weights of a Lasso on standardised `inputs` [rows, features], in the inputs' scale."""
    from sklearn.linear_model import Lasso
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    model = Lasso(alpha=alpha)
    model.fit(scaler.fit_transform(inputs), outputs)
    return cast(Array, model.coef_ / scaler.scale_)
