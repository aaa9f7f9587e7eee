"""The difference of two definitions of leave-one-out, and measures above this noise.

Removing a source moves later tokens to other positions; hiding it and encoding later tokens again
at their positions does not. Both are equally good definitions of a prompt without the source.
"""

from __future__ import annotations

from functools import partial

from attribot_rag.evaluation.ablations import TOPS
from attribot_rag.evaluation.grid import BASELINES
from attribot_rag.evaluation.measures import Measure, MeasuredCase
from attribot_rag.evaluation.metrics import average_precision, captured, rms_difference

FACTOR = 2.0
"""Scores above so many times the noise (a root mean square) count as above the noise."""


def noise(case: MeasuredCase) -> float | None:
    """Root mean square difference of the definitions, in nats; None if the second is unknown."""
    return None if case.second is None else rms_difference(case.second, case.exact)


def outliers_above(case: MeasuredCase) -> frozenset[int]:
    """The outliers whose exact scores are above the noise; none if the noise is unknown."""
    return frozenset(index for index in case.outliers if _is_above(case, case.exact[index]))


def second_above(case: MeasuredCase) -> list[float]:
    """The second definition's scores of the sources with exact scores above the noise."""
    pairs = zip(case.exact, case.second or (), strict=False)
    return [second for exact, second in pairs if second is not None and _is_above(case, exact)]


def is_clear(case: MeasuredCase) -> bool:
    """Whether the largest exact score is above the noise."""
    return _is_above(case, max((score for score in case.exact if score is not None), default=None))


def _is_above(case: MeasuredCase, score: float | None) -> bool:
    size = noise(case)
    return size is not None and score is not None and score > FACTOR * size


def _difference(case: MeasuredCase) -> float | None:
    """None for a method whose scores are not in nats."""
    if case.scored.method in BASELINES:
        return None
    return rms_difference(case.scored.scores, case.exact)


def _captured(top: int, case: MeasuredCase) -> float | None:
    if not is_clear(case):
        return None
    return captured(case.scored.scores, case.exact, top, case.answered.key)


DIFFERENCE = Measure("difference from exact, nats rms", _difference, -1)

ABOVE_NOISE: tuple[Measure, ...] = (
    Measure(
        "mAP above noise", lambda case: average_precision(case.scored.scores, outliers_above(case))
    ),
    *(Measure(f"captured nats, top {top}", partial(_captured, top)) for top in TOPS),
)
