"""Hierarchical attribution: groups first, then what is in the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from attribot_rag.context.grouping import Level, group
from attribot_rag.methods.base import (
    GroupScore,
    Method,
    Row,
    Scores,
    best,
    num_kept,
    span_totals,
)
from attribot_rag.methods.leave_one_out import LeaveOneOut
from attribot_rag.methods.sentences import answer_sentences
from attribot_rag.scoring import Scorer

_WORTHWHILE = 0.5


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
            group_scores += [
                GroupScore(tuple(kept[unit] for unit in held), row, exact)
                for held, row, exact in zip(groups, found.token_scores, found.exact, strict=True)
                if row is not None
            ]
            inside = [unit for index in self._chosen(scorer, found) for unit in groups[index]]
            kept = [kept[unit] for unit in inside]
            finer = narrowed(current, inside, shorten=self.shorten)
            if finer is None:
                return replace(expanded(found, [], scorer), groups=tuple(group_scores))
            current = finer
        scores = self.fine.run(current)
        return replace(
            expanded(scores, kept, scorer, exact=current.context is scorer.context),
            token_log_likelihoods=scores.token_log_likelihoods or found.token_log_likelihoods,
            groups=(*group_scores, *scores.groups),
        )

    def _chosen(self, scorer: Scorer, found: Scores) -> list[int]:
        """Indices of the groups that go on, best first."""
        chosen = best(found.totals, num_kept(self.keep, len(found.totals)))
        if self.each_sentence:
            chosen += best_of_each_sentence(scorer, found.token_scores)
        return list(dict.fromkeys(chosen))


def best_of_each_sentence(scorer: Scorer, rows: Sequence[Row | None]) -> list[int]:
    """The best row of each answer sentence, if it is worth at least half a nat to it."""
    totals = (span_totals(rows, tokens) for tokens in answer_sentences(scorer))
    winners = ((best(one, 1)[0], one) for one in totals)
    return [index for index, one in winners if (one[index] or 0.0) >= _WORTHWHILE]


def narrowed(scorer: Scorer, kept: list[int], *, shorten: bool) -> Scorer | None:
    """A scorer of these of its units, in a prompt without the others or in the same one.

    None if the budget does not allow to read the shortened prompt.
    """
    units = [scorer.units[index] for index in kept]
    if not shorten:
        return scorer.narrowed(units)
    rebased = scorer.rebased({source_id for unit in units for source_id in unit})
    return None if rebased is None else rebased.narrowed(units)


def expanded(scores: Scores, kept: list[int], scorer: Scorer, *, exact: bool = False) -> Scores:
    """Scores of the kept units as scores of all the scorer's units.

    `exact` only if the kept were scored in the scorer's own prompt.
    """
    rows = dict(zip(kept, scores.token_scores, strict=False))
    flags = dict(zip(kept, scores.exact, strict=False))
    count = len(scorer.units)
    return replace(
        scores,
        token_scores=tuple(rows.get(index) for index in range(count)),
        exact=tuple(exact and flags.get(index, False) for index in range(count)),
    )
