"""Finding the candidates: masked where the architecture allows it, groups where that pays."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.context.grouping import Level, group
from attribot_rag.methods.base import Method, Scores, num_kept
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.methods.hierarchical import Hierarchical
from attribot_rag.methods.leave_one_out import LeaveOneOut
from attribot_rag.methods.masked import Masked
from attribot_rag.scoring import Recompute, Scorer


@dataclass(frozen=True)
class Screening:
    """Score groups, then the units of the best, in the full context.

    By masked ablation, or exactly where the architecture does not allow that. Scores all units at
    once where groups would not save an ablation.
    """

    keep: int | float = 3
    level: Level = "passage"
    recompute: Recompute = "question"

    name = "screening"

    def run(self, scorer: Scorer) -> Scores:
        masked = scorer.masked_refusal is None
        method: Method = Masked(self.recompute) if masked else LeaveOneOut()
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
        """About how many ablations groups and the units of the best take."""
        num_units = len(scorer.units)
        num_groups = len(group(scorer.context, scorer.units, self.level))
        return num_groups + num_units * num_kept(self.keep, num_groups) // num_groups

    def cost(self, workload: Workload) -> Cost:
        """By masked ablation."""
        masked = Masked(self.recompute)
        kept = num_kept(self.keep, workload.num_groups) / workload.num_groups
        if workload.num_groups + workload.num_sources * kept >= workload.num_sources:
            return masked.cost(workload)
        method = Hierarchical(keep=self.keep, coarse=masked, fine=masked, shorten=False)
        return method.cost(workload)
