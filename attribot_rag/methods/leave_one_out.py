"""Leave-one-out: one ablation for every unit, exact or masked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attribot_rag.context import Ablation
from attribot_rag.methods.base import Scores, scores_of
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.scoring import Reencoded, Scorer
from attribot_rag.scoring.row import check_recompute


@dataclass(frozen=True)
class LeaveOneOut:
    """The LOO error of every unit (AttriBoT, section 2.1): one ablation for each unit.

    tau_i = log p(R | Q, C) - log p(R | Q, C without s_i) in nats, per response token; positive
    where the source supports the response.
    """

    name = "leave_one_out"

    def run(self, scorer: Scorer) -> Scores:
        scores = scores_of(scorer.score([Ablation.of(*unit) for unit in scorer.units]))
        return replace(scores, num_dropped=scores.num_approximate)

    def cost(self, workload: Workload) -> Cost:
        """The full row of |R| tokens, once for all, then |S| rows of |C|/2 + |Q| + |R|."""
        row = workload.context_tokens / 2 + workload.tail_tokens
        full = workload.unread_tokens + workload.baseline_tokens
        return workload.cost(full + workload.num_sources * row)


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

    def __post_init__(self) -> None:
        check_recompute(self.recompute)

    @property
    def name(self) -> str:
        return "masked" if self.recompute == "question" else f"masked ({self.recompute})"

    def run(self, scorer: Scorer) -> Scores:
        ablations = [Ablation.of(*unit) for unit in scorer.units]
        return scores_of(scorer.score(ablations, recompute=self.recompute))

    def cost(self, workload: Workload) -> Cost:
        """|S| rows of the recomputed tokens, and one for the full row, once for all.

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
        num_rows = workload.num_sources + (not workload.has_baseline)
        return workload.cost(workload.unread_tokens + num_rows * row)
