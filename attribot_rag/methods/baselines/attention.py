"""Attention weights as an attribution."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.errors import UnsupportedModel
from attribot_rag.methods.base import Scores
from attribot_rag.methods.baselines.whole_response import whole_response
from attribot_rag.methods.cost import Cost, Workload, attention
from attribot_rag.scoring import Scorer


@dataclass(frozen=True)
class AttentionWeights:
    """The weight that the response's tokens give a source's, averaged over heads, in all layers.

    Summed over layers and tokens (the attention baseline of AttriBoT, section 4). Only for
    architectures whose attention is seen (docs/architectures.md).
    """

    name = "attention_weights"

    def run(self, scorer: Scorer) -> Scores:
        if not scorer.sees_attention:
            raise UnsupportedModel(
                f"attention weights are not seen in {scorer.language_model.name!r}; use 'auto'"
            )
        weights = scorer.attention("total")
        scorer.session.meter.exhausted |= weights is None
        return whole_response(scorer, weights, "attention")

    def cost(self, workload: Workload) -> Cost:
        return attention(workload, recomputed="response")
