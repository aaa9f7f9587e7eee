"""Pruning: a cheap method selects the best sources, a better method scores them."""

from __future__ import annotations

from dataclasses import dataclass, field

from attribot_rag.methods.base import Method, Scores, best, num_kept
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.methods.hierarchical import refined
from attribot_rag.methods.leave_one_out import LeaveOneOut
from attribot_rag.scoring import Scorer


@dataclass(frozen=True)
class Pruned:
    """Method `first` keeps the best units, method `then` scores them (AttriBoT, section 3.4).

    With a proxy as `first` this is proxy pruning. `keep` is a number of units or a fraction. With
    `shorten`, as in the paper, the other units are removed from the prompt for the second stage.
    Units that were not kept get no score: the first method's scores are on another scale.
    """

    first: Method
    keep: int | float = 5
    then: Method = field(default_factory=LeaveOneOut)
    shorten: bool = True

    @property
    def name(self) -> str:
        how = "" if self.shorten else ", in the full context"
        return f"pruned ({self.first.name}, {self.then.name}, keep {self.keep}{how})"

    def run(self, scorer: Scorer) -> Scores:
        screened = self.first.run(scorer)
        candidates = best(screened.totals, num_kept(self.keep, len(scorer.units)))
        kept = sorted(index for index in candidates if screened.token_scores[index] is not None)
        return refined(screened, self.then, scorer, kept, shorten=self.shorten)

    def cost(self, workload: Workload) -> Cost:
        share = num_kept(self.keep, workload.num_sources) / workload.num_sources
        first = self.first.cost(workload)
        whole = workload.after(first)
        return first + self.then.cost(
            whole.reduced(share) if self.shorten else whole.narrowed(share)
        )
