"""Hierarchical attribution: groups first, then what is in the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from attribot_rag.context.groups import Level, group
from attribot_rag.errors import InvalidInput
from attribot_rag.methods.base import (
    WORTHWHILE,
    GroupScore,
    Method,
    Row,
    Scores,
    best,
    num_kept,
    span_totals,
)
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.methods.leave_one_out import LeaveOneOut
from attribot_rag.methods.sentences import answer_sentences
from attribot_rag.scoring import Scorer


@dataclass(frozen=True)
class Hierarchical:
    """Score groups, keep the best, score what is in them (AttriBoT, section 3.2).

    `levels` go from the coarsest on; the scorer's units are the last, finest one. At each level
    `coarse` scores the groups and `keep` of them (a number, or a fraction) go on; `fine` scores
    the units. With `each_sentence` the best group of every answer sentence goes on too, unless it
    is worth less than half a nat. With `shorten`, as in the paper, the rest of the documents is
    then taken out of the prompt, otherwise the kept are scored in the full prompt. Units of other
    groups get no score.
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
            found = self.coarse.run(current.narrowed(units))
            in_full = current.context is scorer.context
            group_scores += [
                GroupScore(tuple(kept[unit] for unit in held), row, in_full and exact)
                for held, row, exact in zip(groups, found.token_scores, found.exact, strict=True)
                if row is not None
            ]
            inside = [unit for index in self._chosen(scorer, found) for unit in groups[index]]
            finer = narrowed(current, inside, shorten=self.shorten)
            if finer is None:
                return replace(unscored(found, scorer), groups=tuple(group_scores))
            kept = [kept[unit] for unit in inside]
            current = finer
        scores = expanded(self.fine.run(current), kept, scorer, current)
        return replace(
            scores,
            token_log_likelihoods=scores.token_log_likelihoods or found.token_log_likelihoods,
            groups=(*group_scores, *scores.groups),
        )

    def cost(self, workload: Workload) -> Cost:
        """With one level above the sources; each further one costs about as the first."""
        groups = replace(workload, num_sources=workload.num_groups, num_groups=1)
        share = num_kept(self.keep, workload.num_groups) / workload.num_groups
        coarse = self.coarse.cost(groups)
        whole = workload.after(coarse)
        return coarse + self.fine.cost(
            whole.shortened(share) if self.shorten else whole.narrowed(share)
        )

    def _chosen(self, scorer: Scorer, found: Scores) -> list[int]:
        """Indices of the groups that go on, best first; none that was not scored."""
        chosen = best(found.totals, num_kept(self.keep, len(found.totals)))
        if self.each_sentence:
            chosen += best_of_each_sentence(scorer, found.token_scores)
        return [index for index in dict.fromkeys(chosen) if found.token_scores[index] is not None]


def best_of_each_sentence(scorer: Scorer, rows: Sequence[Row | None]) -> list[int]:
    """The best row of each answer sentence, if it is worth at least half a nat to it."""
    totals = (span_totals(rows, tokens) for tokens in answer_sentences(scorer))
    winners = ((best(one, 1)[0], one) for one in totals)
    return [index for index, one in winners if (one[index] or 0.0) >= WORTHWHILE]


def narrowed(scorer: Scorer, kept: list[int], *, shorten: bool) -> Scorer | None:
    """A scorer of these of its units, in a prompt without the others or in the same one.

    None if nothing was kept, if the budget ran out before it was clear what to take out of the
    prompt, or if it does not allow to read the shortened one.
    """
    units = [scorer.units[index] for index in kept]
    if not units or (shorten and scorer.session.meter.exhausted):
        return None
    if not shorten:
        return scorer.narrowed(units)
    rebased = scorer.rebased({source_id for unit in units for source_id in unit})
    return None if rebased is None else rebased.narrowed(units)


def expanded(scores: Scores, kept: Sequence[int], scorer: Scorer, finer: Scorer) -> Scores:
    """Scores of the finer scorer's units, which are the kept ones, as scores of all units.

    Nothing stays `exact` unless it was scored in the scorer's own prompt.
    """
    in_full = finer.context is scorer.context
    places = {index: place for place, index in enumerate(kept)}

    def spread(rows: Sequence[Row | None]) -> tuple[Row | None, ...]:
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
                tuple(kept[unit] for unit in one.units), one.token_scores, in_full and one.exact
            )
            for one in scores.groups
        ),
        screened=None if scores.screened is None else spread(scores.screened),
    )


def unscored(scores: Scores, scorer: Scorer) -> Scores:
    """What was found on the way, without a score for any unit."""
    count = len(scorer.units)
    return replace(scores, token_scores=(None,) * count, exact=(False,) * count, screened=None)
