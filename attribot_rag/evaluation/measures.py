"""What is measured of a method's scores for one answer."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from attribot_rag.evaluation.ablations import (
    TOPS,
    Removed,
    group_ablations,
    random_ablations,
)
from attribot_rag.evaluation.grid import CEILING, EXACT, NAIVE
from attribot_rag.evaluation.metrics import (
    Estimate,
    average_precision,
    best,
    estimate,
    exact_outliers,
    linear_datamodeling_score,
    pearson,
    recall,
    spearman,
)
from attribot_rag.evaluation.results import Answered, Results, Scored

TOP = 5


@dataclass(frozen=True, eq=False)
class Case:
    """One method's scores for one answer, and what they are judged by.

    `ablations` are the exact scores of sources that were removed together, `second` the scores by
    the second definition of leave-one-out, if they are known.
    """

    answered: Answered
    found: Scored
    exact: list[float | None]
    ablations: Mapping[Removed, float]
    naive: Scored | None
    second: list[float | None] | None = None

    @cached_property
    def outliers(self) -> frozenset[int]:
        return exact_outliers([score or 0.0 for score in self.exact])

    @property
    def random(self) -> dict[Removed, float]:
        """Those of the ablations that were drawn at random."""
        drawn = random_ablations(self.answered, self.answered.num_random)
        return {one: self.ablations[one] for one in drawn if one in self.ablations}


@dataclass(frozen=True)
class Measure:
    """A number for a case, or None where it says nothing.

    `better` is 1 if more is better, -1 if less is. A `cost` needs no scores, and is summed up by
    its median. What is `timed` is another on other hardware.
    """

    name: str
    _of: Callable[[Case], float | None]
    better: int = 1
    form: str = ".3f"
    cost: bool = False
    timed: bool = False

    def of(self, case: Case) -> float | None:
        return self._of(case) if case.found.scores or self.cost else None


def _top_drop(top: int, case: Case) -> float | None:
    """None for a method that scored fewer sources."""
    chosen = frozenset(best(case.found.scores, top, case.answered.key))
    return case.ablations.get(chosen) if len(chosen) == top else None


def same_timing(one: Scored | Answered, other: Scored | Answered) -> bool:
    """Whether the seconds of the two can be compared."""
    return (one.clock, one.hardware) == (other.clock, other.hardware)


def _ratio(longer: Scored | None, shorter: Scored | Answered) -> float | None:
    if longer is None or not shorter.seconds or not same_timing(longer, shorter):
        return None
    return longer.seconds / shorter.seconds


MEASURES: tuple[Measure, ...] = (
    Measure("mAP", lambda case: average_precision(case.found.scores, case.outliers)),
    Measure(f"recall@{TOP}", lambda case: recall(case.found.scores, case.outliers, TOP)),
    Measure("Pearson", lambda case: pearson(case.found.scores, case.exact)),
    Measure("Spearman", lambda case: spearman(case.found.scores, case.exact)),
    Measure(
        "evidence mAP", lambda case: average_precision(case.found.scores, case.answered.evidence)
    ),
    Measure("LDS", lambda case: linear_datamodeling_score(case.found.scores, case.random)),
    *(Measure(f"top-{top} drop, nats", partial(_top_drop, top), form=".2f") for top in TOPS),
)

COSTS: tuple[Measure, ...] = (
    Measure("tokens", lambda case: case.found.tokens, -1, ",.0f", cost=True),
    Measure("tokens expected", lambda case: case.found.expected_tokens, -1, ",.0f", cost=True),
    Measure("GFLOP", lambda case: case.found.flops / 1e9, -1, ",.0f", cost=True),
    Measure("GFLOP expected", lambda case: case.found.expected_flops / 1e9, -1, ",.0f", cost=True),
    Measure("seconds", lambda case: case.found.seconds, -1, ".2f", cost=True, timed=True),
    Measure(
        "times faster than no cache",
        lambda case: _ratio(case.naive, case.found),
        1,
        ".1f",
        cost=True,
        timed=True,
    ),
    Measure(
        "attribution / generation time",
        lambda case: _ratio(case.found, case.answered),
        -1,
        ".2f",
        cost=True,
        timed=True,
    ),
)


def cases(results: Results, method: str, data_set: str | None = None) -> Iterator[Case]:
    """Of all answers, or those of a data set, whose exact scores are known."""
    exact, naive = results.of_method(EXACT), results.of_method(NAIVE)
    second = {key: one.scores for key, one in results.of_method(CEILING).items()}
    for key, found in results.of_method(method).items():
        answered = results.answers[key]
        if key in exact and data_set in (None, answered.data_set):
            known = results.ablated(key, answered.digest)
            ablations = {removed: one.score for removed, one in known.items()}
            truth = exact[key].scores
            yield Case(answered, found, truth, ablations, naive.get(key), second.get(key))


def summary(measure: Measure, held: Iterable[Case]) -> Estimate | None:
    """The mean with its interval, or the median without one."""
    known = [value for case in held if (value := measure.of(case)) is not None]
    if measure.cost and known:
        return Estimate(statistics.median(known), None, None, len(known))
    return estimate(known)


def group_correlation(case: Case) -> float | None:
    """Of the sums of the sources' exact scores with those of whole documents."""
    groups = [one for one in group_ablations(case.answered) if one in case.ablations]
    sums = [sum(case.exact[index] or 0.0 for index in group) for group in groups]
    return pearson(sums, [case.ablations[group] for group in groups]) if len(groups) > 2 else None
