"""What got better or worse between two results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import stats

from attribot_rag.evaluation.measures import COSTS, MEASURES, Case, Measure, cases, same_timing
from attribot_rag.evaluation.metrics import Estimate, estimate
from attribot_rag.evaluation.noise import ABOVE_NOISE, DIFFERENCE
from attribot_rag.evaluation.results import Results


@dataclass(frozen=True)
class Change:
    """The mean of the second's value less the first's, over the examples that both have.

    `p_value` is that of the test whether signs are as good as random, over all their patterns for
    up to eleven examples and over 4,095 of them for more; for fewer than six it is never small.
    `verdict` is 'better' or 'worse' if it is below 0.05, and the interval excludes 0, or else
    'no difference seen'.
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


def compare(first: Results, second: Results) -> Iterator[Change]:
    """By data set, method and measure; only what both have."""
    for method in second.methods():
        before = {one.answered.key: one for one in cases(first, method)}
        after = {one.answered.key: one for one in cases(second, method)}
        shared = [key for key in after if key in before]
        for data_set in dict.fromkeys(after[key].answered.data_set for key in shared):
            pairs = [
                (before[key], after[key])
                for key in shared
                if after[key].answered.data_set == data_set
            ]
            for measure in (*MEASURES, *ABOVE_NOISE, DIFFERENCE, *COSTS):
                change = changed(data_set, method, measure, pairs)
                if change is not None:
                    yield change


def changed(
    data_set: str, method: str, measure: Measure, pairs: Iterable[tuple[Case, Case]]
) -> Change | None:
    """Between the first and the second of each pair; None where the measure says nothing."""
    differences = [_difference(measure, *pair) for pair in pairs]
    difference = estimate(differences)
    if difference is None:
        return None
    p_value = _p_value([one for one in differences if one is not None])
    return Change(data_set, method, measure, difference, p_value)


def comparison(first: Results, second: Results) -> str:
    """A Markdown table of the changes."""
    changes = list(compare(first, second))
    if not changes:
        return "The two have no scores of the same examples and methods; nothing is compared.\n"
    lines = [*_warnings(first, second), *_chance(changes)]
    lines += [""] * bool(lines)
    lines += ["| data | method | measure | answers | second less first | |", "|---" * 6 + "|"]
    for one in changes:
        difference = format(one.difference, one.measure.form)
        cells = [one.data_set, one.method, one.measure.name, str(one.difference.count)]
        lines.append(f"| {' | '.join([*cells, difference, one.verdict])} |")
    return "\n".join(lines) + "\n"


def _warnings(first: Results, second: Results) -> Iterator[str]:
    shared = [key for key in second.answers if key in first.answers]
    other = sum(first.answers[key].question != second.answers[key].question for key in shared)
    if other:
        yield (
            f"{other} of {len(shared)} shared answers are by another model or were asked for "
            "otherwise: the question, the prompt, or how long an answer may be."
        )
    timed = [(first.of_method(method), second.of_method(method)) for method in second.methods()]
    elsewhere = any(
        not same_timing(before[key], one)
        for before, after in timed
        for key, one in after.items()
        if key in before
    )
    if elsewhere:
        yield "Seconds are not compared where hardware or clock was another."


def _chance(changes: list[Change]) -> Iterator[str]:
    """Only where there are enough examples for a difference to be seen at all."""
    seen = sum(one.difference.low is not None for one in changes)
    if seen >= 20:
        yield f"Of {seen} comparisons, some {seen / 20:.0f} may look different by chance alone."


def _difference(measure: Measure, before: Case, after: Case) -> float | None:
    """None where it says nothing, as of seconds by two clocks or on two machines."""
    if measure.timed and not same_timing(before.found, after.found):
        return None
    old, new = measure.of(before), measure.of(after)
    return None if old is None or new is None else new - old


def _p_value(differences: list[float]) -> float:
    """How often their mean would be as far from 0 if the signs were thrown (Fisher, 1935)."""
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
