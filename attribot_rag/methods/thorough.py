"""A ranking of all candidate sources: estimates, then masked ablation of the best."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attribot_rag.methods.base import (
    Method,
    Scores,
    answer_sentences,
    best,
    check_count,
    in_turn,
    scores_of,
)
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.methods.hierarchical import Hierarchical, expanded
from attribot_rag.methods.leave_one_out import LeaveOneOut, Masked
from attribot_rag.methods.patching import Patching
from attribot_rag.scoring import Scorer

_ROWS_PER_GATE = 4  # which take as long: forward, backward and what is seen between


@dataclass(frozen=True)
class Thorough:
    """The whole context, estimates of all sources, and masked scores of the best.

    Patching with as many `gates` estimates what each unit does to each answer sentence, and
    observes attention. Their best, in turn, are the `candidates`, which masked ablation scores; all
    units, where that takes no longer.

    Where attention is not observed, the units of the best three passages, and of the best passage
    of each sentence, are the candidates; where the architecture does not allow masking, they are
    ablated exactly.
    """

    candidates: int = 14
    gates: int = 2

    name = "thorough"

    def __post_init__(self) -> None:
        check_count("candidates", self.candidates, 1)
        check_count("gates", self.gates, 1)

    def run(self, scorer: Scorer) -> Scores:
        whole = scorer.score([scorer.context.whole])
        return replace(
            self._candidates(scorer) or self._by_passages(scorer),
            token_log_likelihoods=scores_of(whole).token_log_likelihoods,
            context_reliance=whole.changes[0],
        )

    def cost(self, workload: Workload) -> Cost:
        """With estimates, if there are enough sources."""
        reliance = workload.cost(workload.unread_tokens + workload.baseline_tokens)
        reliance += workload.cost(workload.tail_tokens)
        rest = workload.after(reliance)
        if rest.num_sources <= self._few:
            return reliance + Masked().cost(rest)
        candidates = Masked().cost(rest.narrowed(self.candidates / rest.num_sources))
        return reliance + Patching(self.gates).cost(rest) + candidates

    @property
    def _few(self) -> int:
        """The number of units that cost no more to score than the search for candidates."""
        return self.candidates + _ROWS_PER_GATE * self.gates

    def _candidates(self, scorer: Scorer) -> Scores | None:
        """Masked scores of the candidates; None where they can't be found."""
        if scorer.masked_refusal is not None:
            return None
        if len(scorer.units) <= self._few:
            return Masked().run(scorer)
        if scorer.attention is None:
            return None
        estimates = scorer.attention.patched(answer_sentences(scorer), self.gates, located=True)
        if estimates is None:
            return None
        of_sentences = [best(of_units) for of_units in estimates.effects.tolist()]
        chosen = in_turn([in_turn(of_sentences), best(estimates.attention)])[: self.candidates]
        finer = scorer.narrowed([scorer.units[index] for index in chosen])
        scores = expanded(Masked().run(finer), chosen, scorer, finer)
        return replace(scores, attention=tuple(estimates.attention))

    def _by_passages(self, scorer: Scorer) -> Scores:
        method: Method = LeaveOneOut() if scorer.masked_refusal else Masked()
        passages = Hierarchical(3, ("passage",), method, method, shorten=False, each_sentence=True)
        return passages.run(scorer)
