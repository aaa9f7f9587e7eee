"""The differences between two results, with tests of their significance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats

from benchmarks.experiment.measures import ALL, Measure, MeasuredCase, cases, same_timing
from benchmarks.experiment.metrics import Estimate, estimate
from benchmarks.experiment.results import ResultStore
from benchmarks.experiment.tables import markdown_table


@dataclass(frozen=True)
class Change:
    """The mean of the second value less the first, over the examples in both results.

    `p_value` is that of a sign-flip permutation test: exact for up to eleven examples, with 4,095
    permutations for more; for fewer than six examples it is never small. `verdict` is 'better' or
    'worse' if it is below 0.05 and the interval excludes 0, otherwise 'no difference seen'.
    """

    data_set: str
    method: str
    measure: Measure
    difference: Estimate
    p_value: float

    @property
    def verdict(self) -> str:
        low, high = self.difference.low, self.difference.high
        if low is None or high is None or low <= 0 <= high or self.p_value >= 0.05:
            return "no difference seen"
        return "better" if (low > 0) == (self.measure.better > 0) else "worse"


def compare(first: ResultStore, second: ResultStore) -> Iterator[Change]:
    """The changes by method, data set and measure, over the examples in both results."""
    for method in second.methods():
        before = {case.answered.key: case for case in cases(first, method)}
        for data_set in second.data_sets():
            pairs = [
                (before[case.answered.key], case)
                for case in cases(second, method, data_set)
                if case.answered.key in before
            ]
            changes = (changed(data_set, method, measure, pairs) for measure in ALL)
            yield from filter(None, changes)


def changed(
    data_set: str, method: str, measure: Measure, pairs: Iterable[tuple[MeasuredCase, MeasuredCase]]
) -> Change | None:
    """The change between the cases of each pair; None where the measure is undefined."""
    differences = [_difference(measure, *pair) for pair in pairs]
    difference = estimate(differences)
    if difference is None:
        return None
    p_value = _p_value([value for value in differences if value is not None])
    return Change(data_set, method, measure, difference, p_value)


def comparison(first: ResultStore, second: ResultStore) -> str:
    """A Markdown table of the changes."""
    changes = list(compare(first, second))
    if not changes:
        return "The two have no scores of the same examples and methods; nothing is compared.\n"
    rows = [
        [
            change.data_set,
            change.method,
            change.measure.name,
            str(change.difference.count),
            format(change.difference, change.measure.form),
            change.verdict,
        ]
        for change in changes
    ]
    header = ["data", "method", "measure", "answers", "second less first", ""]
    warnings = [*_warnings(first, second), *_chance(changes)]
    above = [*warnings, ""] if warnings else []
    return "\n".join([*above, markdown_table(header, rows)]) + "\n"


def _warnings(first: ResultStore, second: ResultStore) -> Iterator[str]:
    shared = [key for key in second.answers if key in first.answers]
    other = sum(first.answers[key].question != second.answers[key].question for key in shared)
    if other:
        yield (
            f"{other} of {len(shared)} shared answers are by another model, or to another question "
            "or prompt, or their length was limited differently."
        )
    timed = [(first.of_method(method), second.of_method(method)) for method in second.methods()]
    elsewhere = any(
        not same_timing(before[key], record)
        for before, after in timed
        for key, record in after.items()
        if key in before
    )
    if elsewhere:
        yield "Seconds are not compared where the hardware or the clock differed."


def _chance(changes: list[Change]) -> Iterator[str]:
    count = sum(change.difference.low is not None for change in changes)
    if count >= 20:
        yield f"Of {count} comparisons, about {count / 20:.0f} may look different by chance alone."


def _difference(measure: Measure, before: MeasuredCase, after: MeasuredCase) -> float | None:
    """None where it is undefined, as of seconds by two clocks or on two machines."""
    if measure.timed and not same_timing(before.scored, after.scored):
        return None
    old, new = measure.of(before), measure.of(after)
    return None if old is None or new is None else new - old


def _p_value(differences: list[float]) -> float:
    """The p-value of their mean under random signs (Fisher, 1935)."""
    if len(differences) < 2 or not any(differences):
        return 1.0
    return float(
        stats.permutation_test(
            (differences,),
            np.mean,
            permutation_type="samples",
            vectorized=True,
            n_resamples=4095,
            rng=np.random.default_rng(0),
        ).pvalue
    )
