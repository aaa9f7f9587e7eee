"""Finding the candidates: by attention where it is seen, otherwise by groups."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attribot_rag.context.groups import Level, group
from attribot_rag.methods.base import Method, Scores, best, num_kept
from attribot_rag.methods.cost import Cost, Workload, attention
from attribot_rag.methods.hierarchical import Hierarchical, expanded
from attribot_rag.methods.leave_one_out import LeaveOneOut
from attribot_rag.methods.masked import Masked
from attribot_rag.scoring import Reencoded, Scorer


@dataclass(frozen=True)
class Screening:
    """Score the units that may matter, in the full context.

    By masked ablation, those `candidates` that the question and the answer attend to most. Where
    attention is not seen, groups and then the units of the `keep` best, exactly where the
    architecture does not allow masking. Few units are scored all.
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
                found = expanded(method.run(finer), chosen, scorer, finer)
                return replace(found, attention=tuple(weights))
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
        """About how many ablations that takes."""
        num_units = len(scorer.units)
        if scorer.sees_attention:
            return min(num_units, self.candidates + 1)
        num_groups = len(group(scorer.context, scorer.units, self.level))
        return num_groups + num_units * num_kept(self.keep, num_groups) // num_groups

    def cost(self, workload: Workload) -> Cost:
        """By masked ablation and attention."""
        masked = Masked(self.recompute)
        if workload.num_sources <= self.candidates:
            return masked.cost(workload)
        attended = attention(workload)
        chosen = workload.after(attended).narrowed(self.candidates / workload.num_sources)
        return attended + masked.cost(chosen)
