"""Attention weights and gradients as attributions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attribot_rag.methods.base import Scores, whole_response
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.scoring import Scorer


@dataclass(frozen=True)
class AttentionWeights:
    """The attention weight from the response's tokens to a source's tokens.

    Averaged over heads, summed over layers and tokens (the attention baseline of AttriBoT,
    section 4). Raises UnsupportedModel for architectures whose attention weights cannot be
    observed (docs/evaluation/architectures.md).
    """

    name = "attention_weights"

    def run(self, scorer: Scorer) -> Scores:
        scorer.require_attention()
        weights = scorer.attention("total")
        scorer.session.meter.exhausted |= weights is None
        return whole_response(scorer, weights, "attention")

    def cost(self, workload: Workload) -> Cost:
        """One row of |R| tokens."""
        return workload.cost(workload.unread_tokens + workload.response_tokens)


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
