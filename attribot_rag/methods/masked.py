"""Masked leave-one-out: the context stays encoded, the source is hidden."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.context import Ablation
from attribot_rag.methods.base import Scores
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.methods.leave_one_out import scores_of
from attribot_rag.scoring import Reencoded, Scorer


@dataclass(frozen=True)
class Masked:
    """Masked ablation of every unit on the model's own cache of the prompt.

    The cost per unit is the tokens that are recomputed, however long the context is: the
    'response', the 'question' too (everything after the documents), or also the rest of the
    source's 'document'. The states of later tokens that have read the source stay in the cache, so
    scores are approximate. With 'rest', everything after the source is recomputed, at half a
    context per unit: nothing of the source stays, and leave-one-out differs only in the positions
    of the tokens after it.
    """

    recompute: Reencoded = "question"

    @property
    def name(self) -> str:
        return "masked" if self.recompute == "question" else f"masked ({self.recompute})"

    def run(self, scorer: Scorer) -> Scores:
        ablations = [Ablation.of(*unit) for unit in scorer.units]
        return scores_of(scorer.score(ablations, recompute=self.recompute))

    def cost(self, workload: Workload) -> Cost:
        """|S| + 1 rows of the recomputed tokens.

        |R| or |Q| + |R|; with 'document' (|C|/|G| - |C|/|S|)/2 tokens more, with 'rest'
        (|C| - |C|/|S|)/2.
        """
        row = workload.tail_tokens
        if self.recompute == "response":
            row = workload.response_tokens
        elif self.recompute != "question":
            num_stretches = workload.num_groups if self.recompute == "document" else 1
            stretch = workload.context_tokens / num_stretches
            row += round((stretch - workload.context_tokens / workload.num_sources) / 2)
        return workload.cost(workload.unread_tokens + (workload.num_sources + 1) * row)
