"""Selection of candidates: by attention weights where they are observed, otherwise by groups."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attribot_rag.context.groups import Level, group
from attribot_rag.methods.base import Method, Scores, best, num_kept
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.methods.hierarchical import Hierarchical, expanded
from attribot_rag.methods.leave_one_out import LeaveOneOut
from attribot_rag.methods.masked import Masked
from attribot_rag.scoring import Reencoded, Scorer


@dataclass(frozen=True)
class Screening:
    """Scores of the units that may matter, in the full context.

    Masked ablation of the `candidates` units that the question and the answer attend to most.
    Where attention weights are not observed: of groups, then of the units in the `keep` best
    groups; by exact ablation where the architecture does not allow masking. If there are few units,
    all are scored.
    """

    candidates: int = 16
    keep: int | float = 3
    level: Level = "passage"
    recompute: Reencoded = "question"

    name = "screening"

    def run(self, scorer: Scorer) -> Scores:
        masked = scorer.masked_refusal is None
        method: Method = Masked(self.recompute) if masked else LeaveOneOut()
        if masked and len(scorer.units) > self.candidates:
            weights = scorer.attention()
            if weights is not None:
                chosen = best(weights, self.candidates)
                finer = scorer.narrowed([scorer.units[index] for index in chosen])
                scores = expanded(method.run(finer), chosen, scorer, finer)
                return replace(scores, attention=tuple(weights))
        if self.num_ablations(scorer) >= len(scorer.units):
            return method.run(scorer)
        hierarchical = Hierarchical(
            keep=self.keep,
            levels=(self.level,),
            coarse=method,
            fine=method,
            shorten=False,
            each_sentence=True,
        )
        return hierarchical.run(scorer)

    def num_ablations(self, scorer: Scorer) -> int:
        """The approximate number of ablations of a run."""
        num_units = len(scorer.units)
        if scorer.sees_attention:
            return min(num_units, self.candidates + 1)
        num_groups = len(group(scorer.context, scorer.units, self.level))
        return num_groups + num_units * num_kept(self.keep, num_groups) // num_groups

    def cost(self, workload: Workload) -> Cost:
        """One row of |Q| + |R| tokens for attention, then masked ablation of the candidates."""
        masked = Masked(self.recompute)
        if workload.num_sources <= self.candidates:
            return masked.cost(workload)
        attention = workload.cost(workload.unread_tokens + workload.tail_tokens)
        candidates = workload.after(attention).narrowed(self.candidates / workload.num_sources)
        return attention + masked.cost(candidates)
