"""Which methods no other beats at both faithfulness and time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Point(NamedTuple):
    """Seconds (less is better) and mAP (more is better) of one method."""

    seconds: float
    faithfulness: float

    def beats(self, other: Point) -> bool:
        """At least as good in both, and better in one."""
        as_good = self.seconds <= other.seconds and self.faithfulness >= other.faithfulness
        return as_good and self != other


def pareto_front(points: Mapping[str, Point]) -> list[str]:
    """The methods that none beats, the fastest first."""
    front = [
        name
        for name, point in points.items()
        if not any(other.beats(point) for other in points.values())
    ]
    return sorted(front, key=lambda name: points[name])
