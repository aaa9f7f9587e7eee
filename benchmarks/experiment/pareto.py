"""The Pareto front of faithfulness and time."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.experiment.grid import CEILING, EXACT, NAIVE
from benchmarks.experiment.measures import FAITHFULNESS, CasesByMethod, summary


class Point(NamedTuple):
    """Seconds (less is better) and mAP (more is better) of a method."""

    seconds: float
    faithfulness: float

    def beats(self, other: Point) -> bool:
        """At least as good in both, and better in one."""
        as_good = self.seconds <= other.seconds and self.faithfulness >= other.faithfulness
        return as_good and self != other


@dataclass(frozen=True)
class Compared:
    """Methods compared on the same answers.

    mAP is over `num_scored` answers; seconds are the median over `num_timed` of these, on which
    all methods were timed on the same `hardware`.
    """

    points: Mapping[str, Point]
    num_scored: int = 0
    num_timed: int = 0
    hardware: str = ""


def compared(scored: CasesByMethod) -> Compared:
    """The methods with at least half as many timed answers as exact leave-one-out.

    The hardware is that of most exact scores. The ceiling is left out: it costs as much as exact
    leave-one-out.
    """
    by_method = {
        name: {case.answered.key: case for case in cases}
        for name, cases in scored.items()
        if name not in (NAIVE, CEILING)
    }
    machines = Counter(case.scored.hardware for case in by_method.get(EXACT, {}).values())
    if not machines:
        return Compared({})
    hardware, count = machines.most_common(1)[0]
    timed = {
        name: {key for key, case in cases.items() if case.scored.hardware == hardware}
        for name, cases in by_method.items()
    }
    enough = [name for name in by_method if 2 * len(timed[name]) >= count]
    all_scored = set.intersection(*(set(by_method[name]) for name in enough))
    all_timed = set.intersection(*(timed[name] for name in enough))
    points = {}
    for name in enough:
        cases = by_method[name]
        faithfulness = summary(FAITHFULNESS, (cases[key] for key in all_scored))
        if faithfulness is not None and all_timed:
            seconds = statistics.median(cases[key].scored.seconds for key in all_timed)
            points[name] = Point(seconds, faithfulness.mean)
    return Compared(points, len(all_scored), len(all_timed), hardware)


def pareto_front(points: Mapping[str, Point]) -> list[str]:
    """The methods that no other method beats, the fastest first."""
    front = [
        name
        for name, point in points.items()
        if not any(other.beats(point) for other in points.values())
    ]
    return sorted(front, key=lambda name: points[name])
