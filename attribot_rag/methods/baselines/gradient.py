"""The gradient's norm as an attribution."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attribot_rag.methods.base import Scores
from attribot_rag.methods.baselines.whole_response import whole_response
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.scoring import Scorer


@dataclass(frozen=True)
class GradientNorm:
    """The Frobenius norm of the log-likelihood's gradient with respect to a source's embeddings.

    One forward and one backward pass through prompt and response with all activations in memory
    (the gradient baseline of AttriBoT, section 4).
    """

    name = "gradient_norm"

    def run(self, scorer: Scorer) -> Scores:
        return whole_response(scorer, scorer.gradient_norms(), "gradient norm")

    def cost(self, workload: Workload) -> Cost:
        """One row of |C| + |Q| + |R| tokens; the backward pass takes twice the forward FLOPs."""
        forward = workload.cost(workload.prompt_tokens + workload.response_tokens)
        return replace(forward, flops=3 * forward.flops)
