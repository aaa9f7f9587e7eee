"""Masked leave-one-out: the context stays encoded, the source is not seen."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.context import Ablation
from attribot_rag.methods.base import Scores
from attribot_rag.methods.cost import Cost, Workload, masked_leave_one_out
from attribot_rag.methods.leave_one_out import scores_of
from attribot_rag.scoring import Reencoded, Scorer


@dataclass(frozen=True)
class Masked:
    """Every unit by masked ablation on the model's own cache of the prompt.

    Costs the tokens that are recomputed per unit: the 'response', the 'question' too (all that
    follows the documents), or also the rest of the source's 'document', however long the context
    is. What the tokens after a source took from it stays in the cache, so scores are approximate.
    With 'rest', everything after the source is recomputed, at half a context per unit: nothing of
    the source stays, and leave-one-out differs only in the positions of what follows.
    """

    recompute: Reencoded = "question"

    @property
    def name(self) -> str:
        return "masked" if self.recompute == "question" else f"masked ({self.recompute})"

    def run(self, scorer: Scorer) -> Scores:
        ablations = [Ablation.of(*unit) for unit in scorer.units]
        return scores_of(scorer.score(ablations, recompute=self.recompute))

    def cost(self, workload: Workload) -> Cost:
        if self.recompute == "question":
            return masked_leave_one_out(workload)
        return masked_leave_one_out(workload, recomputed=self.recompute)
