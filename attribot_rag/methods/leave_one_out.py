"""Leave-one-out: each unit is removed exactly, once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attribot_rag.context import Ablation
from attribot_rag.methods.base import Scores
from attribot_rag.methods.cost import Cost, Workload, leave_one_out_cached
from attribot_rag.scoring import LogLikelihoods, Scorer


@dataclass(frozen=True)
class LeaveOneOut:
    """LOO errors of every unit (AttriBoT, section 2.1), one ablation each.

    tau_i = log p(R | Q, C) - log p(R | Q, C without s_i), per response token; positive where the
    source supports the response.
    """

    name = "leave_one_out"

    def run(self, scorer: Scorer) -> Scores:
        scores = scores_of(scorer.score([Ablation.of(*unit) for unit in scorer.units]))
        return replace(scores, num_dropped=scores.num_approximate)

    def cost(self, workload: Workload) -> Cost:
        return leave_one_out_cached(workload)


def scores_of(found: LogLikelihoods) -> Scores:
    """One ablation for each unit."""
    full = tuple(found.full.tolist())
    exact = tuple(bool(a and b) for a, b in zip(found.in_step, found.scored, strict=True))
    return Scores(None if full[0] != full[0] else full, tuple(found.changes), exact)
