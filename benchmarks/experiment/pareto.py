"""The Pareto front of faithfulness and arithmetic, which is the same on any machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.experiment.grid import CEILING, EXACT, NAIVE
from benchmarks.experiment.measures import FAITHFULNESS, GFLOP, CasesByMethod, summary


class Point(NamedTuple):
    """GFLOP (less is better) and mAP (more is better) of a method."""

    cost: float
    faithfulness: float

    def beats(self, other: Point) -> bool:
        """At least as good in both, and better in one."""
        as_good = self.cost <= other.cost and self.faithfulness >= other.faithfulness
        return as_good and self != other


def compared(scored: CasesByMethod) -> dict[str, Point]:
    """The methods with at least half as many answers as exact leave-one-out, over common answers.

    The ceiling is left out: it costs as much as exact leave-one-out.
    """
    by_method = {
        name: {case.answered.key: case for case in cases}
        for name, cases in scored.items()
        if name not in (NAIVE, CEILING) and cases and 2 * len(cases) >= len(scored[EXACT])
    }
    common = set.intersection(*map(set, by_method.values())) if by_method else set()
    points = {}
    for name, cases in by_method.items():
        faithfulness = summary(FAITHFULNESS, (cases[key] for key in common))
        cost = summary(GFLOP, (cases[key] for key in common))
        if faithfulness is not None and cost is not None:
            points[name] = Point(cost.mean, faithfulness.mean)
    return points


def pareto_front(points: Mapping[str, Point]) -> list[str]:
    """The methods that no other method beats, the cheapest first."""
    front = [
        name
        for name, point in points.items()
        if not any(other.beats(point) for other in points.values())
    ]
    return sorted(front, key=lambda name: points[name])
