"""Leave-one-out: every unit is removed exactly, once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan

from attribot_rag.context import Ablation
from attribot_rag.methods.base import Scores
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.scoring import LogLikelihoods, Scorer


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
        """The full row of |R| tokens, then |S| rows of |C|/2 + |Q| + |R|."""
        row = workload.context_tokens / 2 + workload.tail_tokens
        full = workload.unread_tokens + workload.response_tokens
        return workload.cost(full + workload.num_sources * row)


def scores_of(log_likelihoods: LogLikelihoods) -> Scores:
    """The scores of units, from the log-likelihoods under one ablation for each unit."""
    full = tuple(log_likelihoods.full.tolist())
    exact = tuple(
        bool(in_step and scored)
        for in_step, scored in zip(log_likelihoods.in_step, log_likelihoods.scored, strict=True)
    )
    changes = tuple(log_likelihoods.changes)
    return Scores(None if isnan(full[0]) else full, changes, exact)
