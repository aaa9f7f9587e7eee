"""What got better or worse between two results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attribot_rag.evaluation.measures import COSTS, MEASURES, Case, Measure, cases
from attribot_rag.evaluation.metrics import Estimate, estimate
from attribot_rag.evaluation.results import Results


@dataclass(frozen=True)
class Change:
    """The mean of the second's value less the first's, over the examples that both have.

    `verdict` is 'better' or 'worse' if the interval excludes 0, or else 'no difference seen'.
    """

    data_set: str
    method: str
    measure: Measure
    difference: Estimate

    @property
    def verdict(self) -> str:
        low, high = self.difference.low, self.difference.high
        if low is None or high is None or low <= 0 <= high:
            return "no difference seen"
        return "better" if (low > 0) == (self.measure.better > 0) else "worse"


def compare(first: Results, second: Results) -> Iterator[Change]:
    """By data set, method and measure; only what both have."""
    for method in second.methods():
        before = {one.answered.key: one for one in cases(first, method)}
        after = {one.answered.key: one for one in cases(second, method)}
        shared = [key for key in after if key in before]
        for data_set in dict.fromkeys(key.split("/", 1)[0] for key in shared):
            pairs = [(before[key], after[key]) for key in shared if key.startswith(f"{data_set}/")]
            for measure in (*MEASURES, *COSTS):
                difference = estimate([_difference(measure, *pair) for pair in pairs])
                if difference is not None:
                    yield Change(data_set, method, measure, difference)


def comparison(first: Results, second: Results) -> str:
    """A Markdown table of the changes."""
    lines = ["| data | method | measure | answers | second less first | |", "|---" * 6 + "|"]
    for one in compare(first, second):
        difference = format(one.difference, one.measure.form)
        cells = [one.data_set, one.method, one.measure.name, str(one.difference.count)]
        lines.append(f"| {' | '.join([*cells, difference, one.verdict])} |")
    return "\n".join(lines) + "\n"


def _difference(measure: Measure, before: Case, after: Case) -> float | None:
    old, new = measure.of(before), measure.of(after)
    return None if old is None or new is None else new - old
