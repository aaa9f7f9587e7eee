"""The measures of a method's scores and cost for an answer: the columns of tables."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from benchmarks.experiment.grid import BASELINES, CEILING, EXACT, NAIVE
from benchmarks.experiment.metrics import (
    Estimate,
    average_precision,
    best,
    captured,
    estimate,
    linear_datamodeling_score,
    pearson,
    recall,
    rms_difference,
    spearman,
)
from benchmarks.experiment.results import AnswerRecord, ResultStore, ScoreRecord, SourceSet
from benchmarks.outliers import outliers

TOP = 5

TOPS = (1, 3, 5)
"""The numbers of a method's best sources that are removed together."""

KEPT_TOPS = (1, 3)
"""The numbers of a method's best sources that are left alone in the prompt."""

FACTOR = 2.0
"""Scores above so many times the noise (a root mean square) count as above the noise."""


@dataclass(frozen=True, eq=False)
class MeasuredCase:
    """A method's scores for an answer, with the scores by which they are judged.

    `exact` are those of leave-one-out, `ablations` the exact scores of sources removed together.
    `second` are the scores by the second definition of leave-one-out, None if unknown: removing a
    source moves later tokens to other positions; hiding it and encoding later tokens again at their
    positions does not. Both are equally good definitions of a prompt without the source.
    """

    answered: AnswerRecord
    scored: ScoreRecord
    exact: list[float | None]
    ablations: Mapping[SourceSet, float]
    naive: ScoreRecord | None
    second: list[float | None] | None = None

    @cached_property
    def outliers(self) -> frozenset[int]:
        return frozenset(outliers([score or 0.0 for score in self.exact]))

    @cached_property
    def noise(self) -> float | None:
        """Root mean square difference of the definitions, in nats; None without the second."""
        return None if self.second is None else rms_difference(self.second, self.exact)

    @cached_property
    def above_noise(self) -> frozenset[int]:
        """The sources whose exact scores are above the noise; none if the noise is unknown."""
        least = math.inf if self.noise is None else FACTOR * self.noise
        return frozenset(i for i, score in enumerate(self.exact) if (score or 0.0) > least)

    @property
    def all_sources(self) -> SourceSet:
        return frozenset(range(len(self.answered.documents)))

    @property
    def random(self) -> dict[SourceSet, float]:
        """The random ablations."""
        drawn = self.answered.random_ablations
        return {removed: self.ablations[removed] for removed in drawn if removed in self.ablations}


CasesByMethod = Mapping[str, Sequence[MeasuredCase]]


@dataclass(frozen=True)
class Measure:
    """A number for a case, None if it is undefined there.

    `better` is 1 if more is better, -1 if less is. A `cost` is defined without scores, and
    summarised by its median. `timed`: it depends on the hardware.
    """

    name: str
    _of: Callable[[MeasuredCase], float | None]
    better: int = 1
    form: str = ".3f"
    cost: bool = False
    timed: bool = False

    def of(self, case: MeasuredCase) -> float | None:
        return self._of(case) if case.scored.scores or self.cost else None


def _top_drop(top: int, case: MeasuredCase) -> float | None:
    """None for a method that scored fewer sources."""
    chosen = frozenset(best(case.scored.scores, top, case.answered.key))
    return case.ablations.get(chosen) if len(chosen) == top else None


def _kept(top: int, case: MeasuredCase) -> float | None:
    """The share of the answer's reliance that it keeps with only the best sources.

    None where no reliance above the noise is known, and for a method that scored fewer sources.
    """
    chosen = frozenset(best(case.scored.scores, top, case.answered.key))
    reliance = case.ablations.get(case.all_sources)
    lost = case.ablations.get(case.all_sources - chosen)
    if reliance is None or lost is None or reliance <= FACTOR * (case.noise or 0.0):
        return None
    return 1 - lost / reliance


def _captured(top: int, case: MeasuredCase) -> float | None:
    """None where no exact score is above the noise."""
    if not case.above_noise:
        return None
    return captured(case.scored.scores, case.exact, top, case.answered.key)


def _difference(case: MeasuredCase) -> float | None:
    """None for a method whose scores are not in nats."""
    if case.scored.method in BASELINES:
        return None
    return rms_difference(case.scored.scores, case.exact)


def same_timing(first: ScoreRecord | AnswerRecord, second: ScoreRecord | AnswerRecord) -> bool:
    """Whether the seconds of both can be compared: same clock, same hardware."""
    return (first.clock, first.hardware) == (second.clock, second.hardware)


def _ratio(longer: ScoreRecord | None, shorter: ScoreRecord | AnswerRecord) -> float | None:
    if longer is None or not shorter.seconds or not same_timing(longer, shorter):
        return None
    return longer.seconds / shorter.seconds


FAITHFULNESS = Measure("mAP", lambda case: average_precision(case.scored.scores, case.outliers))

MEASURES: tuple[Measure, ...] = (
    FAITHFULNESS,
    Measure(f"recall@{TOP}", lambda case: recall(case.scored.scores, case.outliers, TOP)),
    Measure("Pearson", lambda case: pearson(case.scored.scores, case.exact)),
    Measure("Spearman", lambda case: spearman(case.scored.scores, case.exact)),
    Measure(
        "evidence mAP", lambda case: average_precision(case.scored.scores, case.answered.evidence)
    ),
    Measure("LDS", lambda case: linear_datamodeling_score(case.scored.scores, case.random)),
    *(Measure(f"top-{top} drop, nats", partial(_top_drop, top), form=".2f") for top in TOPS),
    *(Measure(f"kept by top {top}", partial(_kept, top)) for top in KEPT_TOPS),
)

ABOVE_NOISE: tuple[Measure, ...] = (
    Measure(
        "mAP above noise",
        lambda case: average_precision(case.scored.scores, case.outliers & case.above_noise),
    ),
    *(Measure(f"captured nats, top {top}", partial(_captured, top)) for top in TOPS),
)

DIFFERENCE = Measure("difference from exact, nats rms", _difference, -1)

_amount = partial(Measure, better=-1, form=",.0f", cost=True)
_time = partial(Measure, better=-1, form=".2f", cost=True, timed=True)

TOKENS = _amount("tokens", lambda case: case.scored.tokens)
GFLOP = _amount("GFLOP", lambda case: case.scored.flops / 1e9)
SECONDS = _time("seconds", lambda case: case.scored.seconds)

COSTS: tuple[Measure, ...] = (
    TOKENS,
    _amount("tokens expected", lambda case: case.scored.expected_tokens),
    GFLOP,
    _amount("GFLOP expected", lambda case: case.scored.expected_flops / 1e9),
    SECONDS,
    _time(
        "times faster than no cache",
        lambda case: _ratio(case.naive, case.scored),
        better=1,
        form=".1f",
    ),
    _time("attribution / generation time", lambda case: _ratio(case.scored, case.answered)),
)

ALL = (*MEASURES, *ABOVE_NOISE, DIFFERENCE, *COSTS)


def cases(results: ResultStore, method: str, data_set: str | None = None) -> Iterator[MeasuredCase]:
    """The method's cases: all answers, or those of a data set, with known exact scores."""
    exact, naive = results.of_method(EXACT), results.of_method(NAIVE)
    second = {key: record.scores for key, record in results.of_method(CEILING).items()}
    for key, scored in results.of_method(method).items():
        answered = results.answers[key]
        if key in exact and data_set in (None, answered.data_set):
            ablations = results.ablated(answered)
            truth = exact[key].scores
            yield MeasuredCase(answered, scored, truth, ablations, naive.get(key), second.get(key))


def cases_by_method(results: ResultStore, data_set: str) -> CasesByMethod:
    """The cases of a data set by method, in the order of the results' methods."""
    return {name: list(cases(results, name, data_set)) for name in results.methods()}


def summary(measure: Measure, cases: Iterable[MeasuredCase]) -> Estimate | None:
    """The mean with its interval; for a cost, the median without an interval."""
    values = [value for case in cases if (value := measure.of(case)) is not None]
    if measure.cost and values:
        return Estimate(statistics.median(values), None, None, len(values))
    return estimate(values)


def group_correlation(case: MeasuredCase) -> float | None:
    """Pearson correlation of summed scores of a document's sources with the document's score."""
    groups = [group for group in case.answered.groups if group in case.ablations]
    sums = [sum(case.exact[index] or 0.0 for index in group) for group in groups]
    return pearson(sums, [case.ablations[group] for group in groups]) if len(groups) > 2 else None
