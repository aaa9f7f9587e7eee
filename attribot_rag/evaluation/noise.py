"""How far two definitions of leave-one-out differ, and what is measured above that.

Removing a source moves all that follows to other positions; hiding it and encoding all that follows
again where it was does not. One is as good a definition of "without it" as the other.
"""

from __future__ import annotations

from functools import partial

from attribot_rag.evaluation.ablations import TOPS
from attribot_rag.evaluation.grid import BASELINES
from attribot_rag.evaluation.measures import Case, Measure
from attribot_rag.evaluation.metrics import average_precision, captured, rms_difference

FACTOR = 2.0
"""A score counts as above the noise from so many times its root mean square on."""


def noise(case: Case) -> float | None:
    """Root mean square difference of the two definitions, in nats; None without the second."""
    return None if case.second is None else rms_difference(case.second, case.exact)


def outliers_above(case: Case) -> frozenset[int]:
    """The outliers whose exact scores are above the noise; none where that is not known."""
    return frozenset(index for index in case.outliers if _is_above(case, case.exact[index]))


def second_above(case: Case) -> list[float]:
    """The scores by the second definition of the sources whose exact ones are above the noise."""
    pairs = zip(case.exact, case.second or (), strict=False)
    return [one for exact, one in pairs if one is not None and _is_above(case, exact)]


def is_clear(case: Case) -> bool:
    """Whether the largest exact score is above the noise."""
    return _is_above(case, max((one for one in case.exact if one is not None), default=None))


def _is_above(case: Case, score: float | None) -> bool:
    size = noise(case)
    return size is not None and score is not None and score > FACTOR * size


def _difference(case: Case) -> float | None:
    """None for a method whose scores are no nats."""
    if case.found.method in BASELINES:
        return None
    return rms_difference(case.found.scores, case.exact)


def _captured(top: int, case: Case) -> float | None:
    if not is_clear(case):
        return None
    return captured(case.found.scores, case.exact, top, case.answered.key)


DIFFERENCE = Measure("difference from exact, nats rms", _difference, -1)

ABOVE_NOISE: tuple[Measure, ...] = (
    Measure(
        "mAP above noise", lambda case: average_precision(case.found.scores, outliers_above(case))
    ),
    *(Measure(f"captured nats, top {top}", partial(_captured, top)) for top in TOPS),
)
