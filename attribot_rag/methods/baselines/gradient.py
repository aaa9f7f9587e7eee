"""The gradient's norm as an attribution."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.methods.base import Scores
from attribot_rag.methods.baselines.whole_response import whole_response
from attribot_rag.methods.cost import Cost, Workload, gradient
from attribot_rag.scoring import Scorer


@dataclass(frozen=True)
class GradientNorm:
    """The Frobenius norm of the response's log-likelihood's gradient by a source's embeddings.

    One forward and one backward pass through the whole prompt, whose activations are all kept (the
    gradient baseline of AttriBoT, section 4).
    """

    name = "gradient_norm"

    def run(self, scorer: Scorer) -> Scores:
        return whole_response(scorer, scorer.gradient_norms(), "gradient norm")

    def cost(self, workload: Workload) -> Cost:
        return gradient(workload)
