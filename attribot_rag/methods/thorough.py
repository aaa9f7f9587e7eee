"""A ranking of all sources that may matter: masked ablation, then exact ablation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from attribot_rag.context import Ablation
from attribot_rag.context.groups import Level, group
from attribot_rag.errors import InvalidInput
from attribot_rag.methods.base import (
    WORTHWHILE,
    Method,
    Scores,
    TokenScores,
    answer_sentences,
    best,
    check_count,
    in_turn,
    num_kept,
    scores_of,
)
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.methods.hierarchical import Hierarchical, best_of_each_sentence, expanded
from attribot_rag.methods.leave_one_out import LeaveOneOut, Masked
from attribot_rag.methods.patching import Patching, spread_over
from attribot_rag.scoring import Scorer

_SHARE = 0.05
_AT_STAKE = 1.0
_ROWS_PER_GATE = 4  # which take as long: forward, backward and what is seen between


@dataclass(frozen=True)
class Thorough:
    """The whole context, estimates of all sources, masked scores of the best, exact ones in doubt.

    Patching with as many `gates` estimates what each unit does to each answer sentence, and
    observes attention. Their best, in turn, are the `candidates`, which masked ablation scores.
    Where the best candidate of a sentence has a score within `doubt`, two bounds in nats between
    which a verdict may turn, it is scored exactly, in the full prompt: at most `rescore` units, the
    best first. If masked and exact scores agree less than `min_agreement` (0 to 1), and a nat is
    at stake, the best `rescore` candidates are scored exactly. If there are no more than `rescore`
    units, all are scored exactly.

    Where attention is not observed, the units of the `keep` best groups of a `level` (a number, or
    a fraction of the groups) are the candidates; where the architecture does not allow masking, all
    scores are exact.
    """

    candidates: int = 14
    gates: int = 2
    rescore: int = 6
    doubt: tuple[float, float] = (3.0, 6.0)
    min_agreement: float = 0.75
    keep: int | float = 3
    level: Level = "passage"

    name = "thorough"

    def __post_init__(self) -> None:
        for name, least in (("candidates", 1), ("gates", 1), ("rescore", 0)):
            check_count(name, getattr(self, name), least)
        if not 0 <= self.min_agreement <= 1:
            raise InvalidInput(f"min_agreement={self.min_agreement!r}; use a value in [0, 1]")
        if len(self.doubt) != 2 or self.doubt[0] > self.doubt[1]:
            raise InvalidInput(f"doubt={self.doubt!r}; use two numbers of nats, the lower first")
        num_kept(self.keep, 1)

    def run(self, scorer: Scorer) -> Scores:
        whole = scorer.score([scorer.context.whole])
        screened = self._screened(scorer)
        chosen = self._chosen(scorer, screened)
        scores = rescored(scorer, screened, chosen)
        pairs = scored_twice(screened, scores)
        agreement = agreement_of(pairs)
        at_stake = any(sum(row) >= _AT_STAKE for _, row in pairs)
        if at_stake and agreement is not None and agreement < self.min_agreement:
            further = [index for index in self._worthwhile(screened) if index not in chosen]
            scores = rescored(scorer, scores, further)
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
        if not scores.num_approximate:
            return []
        doubtful = best_of_each_sentence(scorer, scores.token_scores, *self.doubt)
        doubtful.sort(key=lambda index: -(scores.totals[index] or 0.0))
        return list(dict.fromkeys(doubtful))[: self.rescore]

    def _worthwhile(self, scores: Scores) -> list[int]:
        """The best units that are worth at least half a nat, and a twentieth of the best."""
        ranked = best(scores.totals, self.rescore)
        totals = [scores.totals[index] or 0.0 for index in ranked]
        floor = max(WORTHWHILE, _SHARE * max(totals, default=0.0))
        return [index for index, total in zip(ranked, totals, strict=True) if total >= floor]

    def cost(self, workload: Workload) -> Cost:
        """With candidates of the target itself, none of them in doubt."""
        whole = replace(workload, context_tokens=0, num_sources=1, num_groups=1)
        reliance = LeaveOneOut().cost(replace(whole, is_cached=True))
        reliance += workload.cost(workload.unread_tokens)
        rest = workload.after(reliance)
        if rest.num_sources <= self.rescore:
            return reliance + LeaveOneOut().cost(rest)
        if rest.num_sources <= self._few:
            return reliance + Masked().cost(rest)
        read = replace(rest, is_cached=True)
        candidates = Masked().cost(read.narrowed(self.candidates / rest.num_sources))
        return reliance + Patching(self.gates).cost(rest) + candidates

    @property
    def _few(self) -> int:
        """As many units as are scored in the time that finding and scoring candidates takes."""
        return self.candidates + _ROWS_PER_GATE * self.gates

    def _screened(self, scorer: Scorer) -> Scores:
        """Scores of the candidates, in the full context; of all units, where that costs no more."""
        num_units, masked = len(scorer.units), scorer.masked_refusal is None
        if num_units <= self.rescore:
            return LeaveOneOut().run(scorer)
        method: Method = Masked() if masked else LeaveOneOut()
        if masked and num_units > self._few:
            screened = self._by_attention(scorer)
            if screened is not None:
                return screened
        if self._num_ablations(scorer) >= num_units:
            return method.run(scorer)
        hierarchical = Hierarchical(
            self.keep, (self.level,), method, method, shorten=False, each_sentence=True
        )
        return hierarchical.run(scorer)

    def _by_attention(self, scorer: Scorer) -> Scores | None:
        """Masked scores of the candidates; their estimates, if the budget allows no more."""
        sentences = answer_sentences(scorer)
        for gates in dict.fromkeys((self.gates, 1)):  # one where the budget allows no more
            estimates = scorer.patched(sentences, gates, located=True)
            if estimates is not None:
                break
        weights = scorer.attention() if estimates is None else estimates.attention
        if weights is None:
            return None
        rankings = [best(weights)]
        if estimates is not None:
            by_sentence = [best(of_units) for of_units in estimates.effects.tolist()]
            rankings = [in_turn(by_sentence), *rankings]
        chosen = in_turn(rankings)[: self.candidates]
        finer = scorer.narrowed([scorer.units[index] for index in chosen])
        scores = Masked().run(finer)
        if estimates is not None and scorer.session.meter.exhausted:
            rows = spread_over(sentences, estimates.effects[:, chosen].tolist(), finer)
            pairs = zip(scores.token_scores, rows, strict=True)
            scores = replace(scores, token_scores=tuple(row or estimate for row, estimate in pairs))
        scores = expanded(scores, chosen, scorer, finer)
        return replace(scores, attention=tuple(weights))

    def _num_ablations(self, scorer: Scorer) -> int:
        num_units = len(scorer.units)
        if scorer.sees_attention:
            return num_units if num_units <= self._few else self.candidates + 1
        num_groups = len(group(scorer.context, scorer.units, self.level))
        return num_groups + num_units * num_kept(self.keep, num_groups) // num_groups

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
    difference = sum(abs(approximate - exact) for approximate, exact in totals)
    magnitude = sum(abs(approximate) + abs(exact) for approximate, exact in totals)
    return 1.0 - difference / max(magnitude, 1.0, difference)
