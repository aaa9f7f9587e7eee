"""ContextCite: a sparse linear model of random ablations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from attribot_rag.context import Ablation
from attribot_rag.errors import InvalidInput
from attribot_rag.methods.base import Scores
from attribot_rag.methods.baselines.whole_response import whole_response
from attribot_rag.methods.cost import Cost, Workload, context_cite
from attribot_rag.scoring import Scorer

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ContextCite:
    """The weights of a Lasso that predicts the response from which sources are there.

    Each of `num_ablations` keeps every source with probability `keep`, drawn by the `seed`; what
    is predicted is the response's probability on the logit scale, divided by its number of tokens,
    with standardised inputs and the regularisation `alpha` (Cohen-Wang et al., ContextCite,
    NeurIPS 2024, with the defaults of its code). Needs scikit-learn.
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
        chooser = np.random.default_rng(self.seed)
        kept = chooser.random((self.num_ablations, len(scorer.units))) < self.keep
        removed = [
            [source_id for unit, here in zip(scorer.units, row, strict=True) if not here
             for source_id in unit]
            for row in kept
        ]  # fmt: skip
        found = scorer.score([Ablation.of(*one) for one in removed])
        scored = np.array(found.scored)
        full = tuple(found.full.tolist())
        if scored.sum() < 2:
            return whole_response(scorer, None, "logits")
        num_tokens = len(scorer.generation.response_ids)
        logits = logit_scaled(found.ablated[scored].sum(1))
        weights = lasso(kept[scored].astype(np.float64), logits / num_tokens, self.alpha)
        return whole_response(scorer, (weights * num_tokens).tolist(), "logits", full)

    def cost(self, workload: Workload) -> Cost:
        return context_cite(workload, num_ablations=self.num_ablations, keep=self.keep)


def logit_scaled(log_likelihoods: Array) -> Array:
    """log(p / (1 - p)) of probabilities p that are given as their logarithms."""
    capped = np.minimum(log_likelihoods, -np.finfo(np.float64).tiny)
    return cast(Array, capped - np.log(-np.expm1(capped)))


def lasso(inputs: Array, outputs: Array, alpha: float) -> Array:
    """The weights of a Lasso on standardised inputs, in the inputs' own scale."""
    try:
        from sklearn.linear_model import Lasso
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise InvalidInput(
            "ContextCite needs scikit-learn: pip install 'attribot-rag[evaluation]'"
        ) from error

    scaler = StandardScaler()
    model = Lasso(alpha=alpha)
    model.fit(scaler.fit_transform(inputs), outputs)
    return cast(Array, model.coef_ / scaler.scale_)
