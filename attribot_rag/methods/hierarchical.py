"""Hierarchical attribution: groups first, then the units of the best groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from attribot_rag.context.groups import Level, group
from attribot_rag.context.splitter import sentences, split_spans
from attribot_rag.errors import InvalidInput
from attribot_rag.methods.base import (
    WORTHWHILE,
    GroupScore,
    Method,
    Scores,
    TokenScores,
    best,
    num_kept,
    span_totals,
)
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.methods.leave_one_out import LeaveOneOut
from attribot_rag.scoring import Scorer


@dataclass(frozen=True)
class Hierarchical:
    """Score groups, keep the best groups, score their units (AttriBoT, section 3.2).

    `levels` start with the coarsest; the scorer's units are the level below the last. At each level
    `coarse` scores the groups and `keep` of them (a number, or a fraction) are kept; `fine` scores
    the units. With `each_sentence`, the best group of every answer sentence is kept too, if it is
    worth at least half a nat to it. With `shorten`, as in the paper, the other groups are removed
    from the prompt before the next level; otherwise units are scored in the full prompt. Units of
    groups that were not kept get no score.
    """

    keep: int | float = 3
    levels: tuple[Level, ...] = ("document",)
    coarse: Method = field(default_factory=LeaveOneOut)
    fine: Method = field(default_factory=LeaveOneOut)
    shorten: bool = True
    each_sentence: bool = False

    def __post_init__(self) -> None:
        if not self.levels:
            raise InvalidInput(f"levels={self.levels!r}; name at least one, ('document',) say")

    @property
    def name(self) -> str:
        how = "" if self.shorten else ", in the full context"
        return f"hierarchical ({self.coarse.name}, {self.fine.name}, keep {self.keep}{how})"

    def run(self, scorer: Scorer) -> Scores:
        kept = list(range(len(scorer.units)))
        current = scorer
        group_scores: list[GroupScore] = []
        for level in self.levels:
            groups = group(current.context, current.units, level)
            units = [tuple(i for unit in held for i in current.units[unit]) for held in groups]
            scored = self.coarse.run(current.narrowed(units))
            in_full = current.context is scorer.context
            group_scores += [
                GroupScore(tuple(kept[unit] for unit in held), row, in_full and exact)
                for held, row, exact in zip(groups, scored.token_scores, scored.exact, strict=True)
                if row is not None
            ]
            inside = [unit for index in self._chosen(scorer, scored) for unit in groups[index]]
            finer = narrowed(current, inside, shorten=self.shorten)
            if finer is None:
                return replace(unscored(scored, scorer), groups=tuple(group_scores))
            kept = [kept[unit] for unit in inside]
            current = finer
        scores = expanded(self.fine.run(current), kept, scorer, current)
        return replace(
            scores,
            token_log_likelihoods=scores.token_log_likelihoods or scored.token_log_likelihoods,
            groups=(*group_scores, *scores.groups),
        )

    def cost(self, workload: Workload) -> Cost:
        """With one level of groups."""
        groups = replace(workload, num_sources=workload.num_groups, num_groups=1)
        share = num_kept(self.keep, workload.num_groups) / workload.num_groups
        coarse = self.coarse.cost(groups)
        whole = workload.after(coarse)
        return coarse + self.fine.cost(
            whole.reduced(share) if self.shorten else whole.narrowed(share)
        )

    def _chosen(self, scorer: Scorer, groups: Scores) -> list[int]:
        """Indices of the groups that are kept, best first; only groups that were scored."""
        rows = groups.token_scores
        chosen = best(groups.totals, num_kept(self.keep, len(rows)))
        if self.each_sentence:
            chosen += best_of_each_sentence(scorer, rows)
        return [index for index in dict.fromkeys(chosen) if rows[index] is not None]


def answer_sentences(scorer: Scorer) -> list[range]:
    """The response tokens of each sentence, in order; sentences without tokens are left out."""
    spans = split_spans(scorer.response.text, sentences)
    return [tokens for span in spans if (tokens := scorer.response.tokens_in(span))]


def best_of_each_sentence(scorer: Scorer, rows: Sequence[TokenScores | None]) -> list[int]:
    """The index of the best row for each answer sentence, if worth at least half a nat to it."""
    chosen = []
    for tokens in answer_sentences(scorer):
        totals = span_totals(rows, tokens)
        index = best(totals, 1)[0]
        if (totals[index] or 0.0) >= WORTHWHILE:
            chosen.append(index)
    return chosen


def narrowed(scorer: Scorer, kept: list[int], *, shorten: bool) -> Scorer | None:
    """A scorer of the kept units, in the same prompt or, with `shorten`, one without the others.

    None if no unit was kept, or if the budget ran out or does not allow reading the shorter prompt.
    """
    units = [scorer.units[index] for index in kept]
    if not units or (shorten and scorer.session.meter.exhausted):
        return None
    if not shorten:
        return scorer.narrowed(units)
    rebased = scorer.rebased({source_id for unit in units for source_id in unit})
    return None if rebased is None else rebased.narrowed(units)


def expanded(scores: Scores, kept: Sequence[int], scorer: Scorer, finer: Scorer) -> Scores:
    """Scores of the `finer` scorer's units, which are the `kept` units, as scores of all units.

    Scores stay `exact` only if both scorers have the same prompt.
    """
    in_full = finer.context is scorer.context
    places = {index: place for place, index in enumerate(kept)}

    def spread(rows: Sequence[TokenScores | None]) -> tuple[TokenScores | None, ...]:
        return tuple(
            rows[places[index]] if index in places else None for index in range(len(scorer.units))
        )

    return replace(
        scores,
        token_scores=spread(scores.token_scores),
        exact=tuple(
            in_full and index in places and scores.exact[places[index]]
            for index in range(len(scorer.units))
        ),
        groups=tuple(
            GroupScore(
                tuple(kept[unit] for unit in held.units), held.token_scores, in_full and held.exact
            )
            for held in scores.groups
        ),
        screened=None if scores.screened is None else spread(scores.screened),
    )


def unscored(scores: Scores, scorer: Scorer) -> Scores:
    """The same without a score for any of the scorer's units."""
    count = len(scorer.units)
    return replace(scores, token_scores=(None,) * count, exact=(False,) * count, screened=None)
