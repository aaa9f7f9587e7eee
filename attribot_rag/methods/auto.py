"""The default method: masked ablation of the most attended sources, then exact ablation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from attribot_rag.context import Ablation
from attribot_rag.context.groups import Level, group
from attribot_rag.errors import InvalidInput
from attribot_rag.language_model import LanguageModel
from attribot_rag.methods.base import WORTHWHILE, Method, Scores, TokenScores, best, num_kept
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.methods.hierarchical import Hierarchical, best_of_each_sentence, expanded
from attribot_rag.methods.leave_one_out import LeaveOneOut, Masked, scores_of
from attribot_rag.methods.proxy import Proxy
from attribot_rag.scoring import Scorer

_SHARE = 0.05
_AT_STAKE = 1.0


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

    name = "screening"

    def run(self, scorer: Scorer) -> Scores:
        masked = scorer.masked_refusal is None
        method: Method = Masked() if masked else LeaveOneOut()
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
        masked = Masked()
        if workload.num_sources <= self.candidates:
            return masked.cost(workload)
        attention = workload.cost(workload.unread_tokens + workload.tail_tokens)
        candidates = workload.after(attention).narrowed(self.candidates / workload.num_sources)
        return attention + masked.cost(candidates)


@dataclass(frozen=True)
class Auto:
    """The whole context, masked scores of candidates, exact scores of the best candidates.

    Candidates are the `candidates` units that the question and the answer attend to most, scored
    by masked ablation. Scored exactly, in the full prompt, are the best candidate and the most
    attended candidate; if worth half a nat, also the best `rescore` candidates, down to a twentieth
    of the best score, and the best candidate of every answer sentence. If masked and exact scores
    agree less than `min_agreement` (0 to 1), and a nat is at stake, all candidates are scored
    exactly. If there are no more than `rescore` units, all are scored exactly.

    Where attention weights are not observed, the units of the `keep` best groups of a `level`
    (a number, or a fraction of the groups) are the candidates; where the architecture does not
    allow masking, all scores are exact. A `proxy` selects the candidates where this takes fewer
    FLOPs.
    """

    candidates: int = 16
    rescore: int = 6
    min_agreement: float = 0.75
    keep: int | float = 3
    level: Level = "passage"
    proxy: LanguageModel | None = None

    name = "auto"

    def __post_init__(self) -> None:
        for name, least in (("candidates", 1), ("rescore", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidInput(f"{name}={value!r}; use a whole number of at least {least}")
        if not 0 <= self.min_agreement <= 1:
            raise InvalidInput(f"min_agreement={self.min_agreement!r}; use a value in [0, 1]")
        num_kept(self.keep, 1)

    def run(self, scorer: Scorer) -> Scores:
        whole = scorer.score([scorer.context.whole])
        screening = self._screening(scorer)
        screened = screening.run(scorer)
        exact = isinstance(screening, LeaveOneOut)
        exact |= screening is self._on_target and scorer.masked_refusal is not None
        chosen = [] if exact else self._chosen(scorer, screened)
        scores = rescored(scorer, screened, chosen)
        pairs = scored_twice(screened, scores)
        agreement = agreement_of(pairs)
        at_stake = any(sum(row) >= _AT_STAKE for _, row in pairs)
        if at_stake and agreement is not None and agreement < self.min_agreement:
            order = best(screened.totals, len(scorer.units))
            candidates = [index for index in order if screened.token_scores[index] is not None]
            others = [index for index in candidates if index not in chosen]
            scores = rescored(scorer, scores, others)
            agreement = agreement_of(scored_twice(screened, scores))
        return replace(
            scores,
            token_log_likelihoods=scores_of(whole).token_log_likelihoods,
            context_reliance=whole.changes[0],
            agreement=agreement,
            screened=screened.token_scores,
            notes=tuple(self._notes(screened, agreement if at_stake else None)),
        )

    def _chosen(self, scorer: Scorer, scores: Scores) -> list[int]:
        """Indices of the units to score exactly, best first."""
        rows = scores.token_scores
        order = [index for index in best(scores.totals, len(rows)) if rows[index] is not None]
        if not self.rescore or not order:
            return []
        totals = {index: sum(rows[index] or ()) for index in order}
        floor = max(WORTHWHILE, _SHARE * totals[order[0]])
        worthwhile = [index for index in order[: self.rescore] if totals[index] >= floor]
        attended = [index for index in best(scores.attention or (), 1) if index in totals]
        return [
            *dict.fromkeys([order[0], *worthwhile, *attended, *best_of_each_sentence(scorer, rows)])
        ]

    def cost(self, workload: Workload) -> Cost:
        """With candidates of the target itself, all of `rescore`, and no widening."""
        few = workload.num_sources <= self.rescore
        screening = (LeaveOneOut() if few else self._on_target).cost(workload)
        read = workload.after(screening)
        reliance = LeaveOneOut().cost(replace(read, context_tokens=0, num_sources=1, num_groups=1))
        if few or not self.rescore:
            return reliance + screening
        share = self.rescore / workload.num_sources
        return reliance + screening + LeaveOneOut().cost(read.narrowed(share))

    def _screening(self, scorer: Scorer) -> Method:
        """The method that selects the candidates; leave-one-out if there are few units."""
        if len(scorer.units) <= self.rescore:
            return LeaveOneOut()
        on_proxy = self._on_proxy
        if on_proxy is not None and self._proxy_pays(scorer, on_proxy.language_model):
            return on_proxy
        return self._on_target

    @cached_property
    def _on_target(self) -> Screening:
        return Screening(self.candidates, self.keep, self.level)

    @cached_property
    def _on_proxy(self) -> Proxy | None:
        return None if self.proxy is None else Proxy(self.proxy, self._on_target)

    def _proxy_pays(self, scorer: Scorer, proxy: LanguageModel) -> bool:
        """Whether candidates cost fewer FLOPs on the proxy, which has to read the prompt first."""
        generation, context = scorer.generation, scorer.context
        num_prompt, num_response = len(generation.prompt_ids), len(generation.response_ids)
        masked = scorer.masked_refusal is None
        per_ablation = (num_prompt - context.end if masked else num_prompt // 2) + num_response
        tokens = self._on_target.num_ablations(scorer) * per_ablation
        own = scorer.language_model.num_parameters * tokens
        return proxy.num_parameters * (num_prompt + tokens) < own

    def _notes(self, scores: Scores, agreement: float | None) -> Iterator[str]:
        yield from scores.notes
        if agreement is not None and agreement < self.min_agreement:
            yield (
                f"Approximate and exact scores agree little here ({agreement:.2f} of 1): use "
                "leave-one-out where every source matters."
            )


def rescored(scorer: Scorer, scores: Scores, chosen: Sequence[int]) -> Scores:
    """The same with exact scores of the chosen units, as far as the budget allows."""
    if not chosen:
        return scores
    exact = scorer.score([Ablation.of(*scorer.units[index]) for index in chosen])
    rows, flags, num_dropped = list(scores.token_scores), list(scores.exact), scores.num_dropped
    for index, row, in_step in zip(chosen, exact.changes, exact.in_step, strict=True):
        if row is not None:
            rows[index], flags[index] = row, in_step
            num_dropped += not in_step
    return replace(scores, token_scores=tuple(rows), exact=tuple(flags), num_dropped=num_dropped)


def scored_twice(screened: Scores, scores: Scores) -> list[tuple[TokenScores, TokenScores]]:
    """(approximate, exact) scores of the units that were rescored."""
    pairs = zip(screened.token_scores, scores.token_scores, strict=True)
    return [(before, row) for before, row in pairs if before and row and row is not before]


def agreement_of(pairs: Sequence[tuple[TokenScores, TokenScores]]) -> float | None:
    """The agreement of (approximate, exact) scores, from 0 (unrelated) to 1 (equal).

    1 - sum |approximate - exact| / sum (|approximate| + |exact|), over the sources' totals; the
    denominator is at least one nat. None without pairs.
    """
    if not pairs:
        return None
    totals = [(sum(approximate), sum(exact)) for approximate, exact in pairs]
    difference = sum(abs(left - right) for left, right in totals)
    magnitude = sum(abs(left) + abs(right) for left, right in totals)
    return 1.0 - difference / max(magnitude, 1.0, difference)
