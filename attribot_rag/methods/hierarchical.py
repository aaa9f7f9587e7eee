"""Methods with several stages: the best units of a cheap stage are scored again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from attribot_rag.context.context import Level, group
from attribot_rag.errors import InvalidInput
from attribot_rag.methods.base import (
    Cost,
    GroupScore,
    Method,
    Scores,
    Workload,
    answer_sentences,
    best,
    check_count,
    in_turn,
    num_kept,
    scores_of,
    span_totals,
)
from attribot_rag.methods.leave_one_out import LeaveOneOut, Masked, Patching
from attribot_rag.scoring import Scorer

Value = TypeVar("Value")

_MIN_GROUP_SCORE = 0.5
"""The score, in nats, from which the best group of a sentence is kept."""


@dataclass(frozen=True)
class Hierarchical(Method):
    """Scores groups, keeps the best groups, and scores their units (AttriBoT, section 3.2).

    Units of groups that were not kept get no score.

    Args:
        levels: The levels of groups, the coarsest first. The scorer's units are below the last one.
        keep: How many groups to keep at each level, a number or a fraction.
        coarse: Scores the groups.
        fine: Scores the units.
        each_sentence: Whether to keep the best group of each answer sentence too, if it is worth at
            least half a nat to it.
        shorten: Whether to remove the other groups from the prompt before the next level, as in the
            paper. Otherwise, units are scored in the full prompt.
    """

    keep: int | float = 3
    levels: tuple[Level, ...] = ("document",)
    coarse: Method = field(default_factory=LeaveOneOut)
    fine: Method = field(default_factory=LeaveOneOut)
    shorten: bool = True
    each_sentence: bool = False

    def __post_init__(self) -> None:
        if not self.levels:
            raise InvalidInput(f"levels={self.levels!r}; name at least one, such as ('document',)")

    @property
    def name(self) -> str:
        how = "" if self.shorten else ", in the full context"
        return f"hierarchical ({self.coarse.name}, {self.fine.name}, keep {self.keep}{how})"

    def run(self, scorer: Scorer) -> Scores:
        level, *below = self.levels
        groups = group(scorer.context, scorer.units, level)
        units = [tuple(i for unit in members for i in scorer.units[unit]) for members in groups]
        scored = self.coarse.run(scorer.narrowed(units))
        group_scores = [
            GroupScore(tuple(members), row, exact)
            for members, row, exact in zip(groups, scored.token_scores, scored.exact, strict=True)
            if row is not None
        ]
        kept = [unit for index in self._chosen(scorer, scored) for unit in groups[index]]
        fine = replace(self, levels=tuple(below)) if below else self.fine
        without_groups = replace(scored, groups=())
        scores = refined(without_groups, fine, scorer, kept, shorten=self.shorten)
        return replace(scores, groups=(*group_scores, *scores.groups))

    def cost(self, workload: Workload) -> Cost:
        """With one level of groups."""
        groups = replace(workload, num_sources=workload.num_groups, num_groups=1)
        share = num_kept(self.keep, workload.num_groups) / workload.num_groups
        coarse = self.coarse.cost(groups)
        rest = workload.after(coarse).narrowed(share, shorten=self.shorten)
        return coarse + self.fine.cost(rest)

    def _chosen(self, scorer: Scorer, groups: Scores) -> list[int]:
        """Indices of the selected groups, best first, among the scored groups."""
        rows = groups.token_scores
        chosen = best(groups.totals, num_kept(self.keep, len(rows)))
        for tokens in answer_sentences(scorer) if self.each_sentence else ():
            totals = span_totals(rows, tokens)
            chosen += [i for i in best(totals, 1) if (totals[i] or 0.0) >= _MIN_GROUP_SCORE]
        return [index for index in dict.fromkeys(chosen) if rows[index] is not None]


def expanded(scores: Scores, kept: Sequence[int], scorer: Scorer, finer: Scorer) -> Scores:
    """The scores of the `finer` scorer's units, spread to the list of all units.

    Scores stay `exact`, and the reliance is the response's, only if both scorers have the same
    prompt.
    """
    in_full = finer.context is scorer.context

    def spread(values: Sequence[Value | None]) -> tuple[Value | None, ...]:
        by_unit = dict(zip(kept, values, strict=True))
        return tuple(by_unit.get(index) for index in range(len(scorer.units)))

    return replace(
        scores,
        token_scores=spread(scores.token_scores),
        exact=tuple(in_full and bool(exact) for exact in spread(scores.exact)),
        groups=tuple(
            replace(
                members,
                units=tuple(kept[unit] for unit in members.units),
                exact=in_full and members.exact,
            )
            for members in scores.groups
        ),
        estimated=tuple(map(bool, spread(scores.estimated))) if scores.estimated else (),
        attention=None
        if scores.attention is None
        else tuple(weight or 0.0 for weight in spread(scores.attention)),
        context_reliance=scores.context_reliance if in_full else None,
    )


def refined(
    first: Scores, method: Method, scorer: Scorer, kept: list[int], *, shorten: bool
) -> Scores:
    """The `first` scores, with the method's scores of the selected units if the budget allows.

    With `shorten`, these are scored in a prompt without the others. Units that were not kept have
    no score.
    """
    units, finer = [scorer.units[index] for index in kept], None
    if units and not shorten:
        finer = scorer.narrowed(units)
    elif units and not scorer.session.meter.exhausted:
        rebased = scorer.rebased({source_id for unit in units for source_id in unit})
        finer = rebased and rebased.narrowed(units)
    if finer is None:
        return replace(
            Scores.empty(scorer, first.token_log_likelihoods),
            unit=first.unit,
            context_reliance=first.context_reliance,
            of_proxy=first.of_proxy,
            notes=first.notes,
        )
    scores = expanded(method.run(finer), kept, scorer, finer)
    if first.of_proxy:
        return scores
    reliance = None if scores.of_proxy else scores.context_reliance
    return replace(
        scores,
        token_log_likelihoods=first.token_log_likelihoods or scores.token_log_likelihoods,
        context_reliance=first.context_reliance or reliance,
        of_proxy=scores.of_proxy and first.token_log_likelihoods is None,
    )


@dataclass(frozen=True)
class Pruned(Method):
    """Selects the best units by one method, and scores them by another (AttriBoT, section 3.4).

    If `first` is a Proxy, this is proxy pruning. Units that were not kept get no score, because the
    scores of the first method have another scale.

    Args:
        first: Ranks all units.
        then: Scores the kept units.
        keep: How many units to keep, a number or a fraction.
        shorten: Whether to remove the other units from the prompt before the second stage, as in
            the paper.
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
        rest = workload.after(first).narrowed(share, shorten=self.shorten)
        return first + self.then.cost(rest)


_ROWS_PER_GATE = 4  # rows that take as long: forward, backward and observing


@dataclass(frozen=True)
class Thorough(Method):
    """Masked scores for the best sources, and estimates for all of them.

    Patching with this number of `gates` estimates the effect of each unit on each answer sentence,
    and observes attention. Masked ablation then scores the `candidates`: the best units of both
    rankings, in turn. If scoring all units takes no longer, it scores all.

    If attention cannot be observed, the candidates are the units of the best three passages, and of
    the best passage of each sentence. If the architecture does not allow masking, they are ablated
    exactly.
    """

    candidates: int = 14
    gates: int = 2

    name = "thorough"

    def __post_init__(self) -> None:
        check_count("candidates", self.candidates, 1)
        check_count("gates", self.gates, 1)

    def run(self, scorer: Scorer) -> Scores:
        bare = scorer.score([scorer.context.without_documents])
        return replace(
            self._candidates(scorer) or self._by_passages(scorer),
            token_log_likelihoods=scores_of(bare).token_log_likelihoods,
            context_reliance=bare.changes[0],
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
        """How many units cost no more to score than the search for candidates."""
        return self.candidates + _ROWS_PER_GATE * self.gates

    def _candidates(self, scorer: Scorer) -> Scores | None:
        """Masked scores of the candidates; None if they cannot be found."""
        if not scorer.can_mask:
            return None
        if len(scorer.units) <= self._few:
            return Masked().run(scorer)
        if not scorer.sees_attention:
            return None
        estimates = scorer.estimate_effects(
            answer_sentences(scorer), self.gates, single_backward_pass=True
        )
        if estimates is None:
            return None
        of_sentences = [best(of_units) for of_units in estimates.effects.tolist()]
        chosen = in_turn([in_turn(of_sentences), best(estimates.attention)])[: self.candidates]
        finer = scorer.narrowed([scorer.units[index] for index in chosen])
        scores = expanded(Masked().run(finer), chosen, scorer, finer)
        return replace(scores, attention=tuple(estimates.attention))

    def _by_passages(self, scorer: Scorer) -> Scores:
        method: Method = Masked() if scorer.can_mask else LeaveOneOut()
        passages = Hierarchical(3, ("passage",), method, method, shorten=False, each_sentence=True)
        return passages.run(scorer)
