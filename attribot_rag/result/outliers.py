"""Outliers: unusually high values of a sample."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attribot_rag.errors import InvalidInput

SIGNIFICANCE = 0.05
_MAX_OUTLIERS = 50
_MIN_VALUES = 3
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


def outliers(values: Sequence[float], significance: float = SIGNIFICANCE) -> tuple[int, ...]:
    """Indices of the unusually high values, highest first.

    The generalised extreme studentised deviate test (Rosner, Technometrics 25, 1983; NIST/SEMATECH
    e-Handbook of Statistical Methods, section 1.3.5.17.3), in the form that it has in AttriBoT
    (ICLR 2025): the highest value is an outlier if its deviate exceeds the two-sided critical
    value; it is removed, and the test ends with the first value that is no outlier. Fewer than
    three values, or values that are equal up to rounding, have no outliers. Raises InvalidInput for
    values that are not finite, and for a significance outside (0, 1).
    """
    if not 0 < significance < 1:
        raise InvalidInput(f"significance={significance!r}; use a probability between 0 and 1")
    scores = np.asarray(values, dtype=np.float64)
    if not np.isfinite(scores).all():
        index = int(np.isfinite(scores).argmin())
        raise InvalidInput(f"value {index} is {scores[index]}; outliers need finite values")
    # In sorted order the sums round alike however the caller ordered the values.
    remaining = np.argsort(scores, kind="stable")
    indices: list[int] = []
    while len(remaining) >= _MIN_VALUES and len(indices) < _MAX_OUTLIERS:
        deviates = studentised(scores[remaining])
        if deviates is None:
            break
        position = int(deviates.argmax())
        if not deviates[position] > critical_value(len(remaining), significance):
            break
        indices.append(int(remaining[position]))
        remaining = np.delete(remaining, position)
    return tuple(indices)


def studentised(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
    """Deviations from the mean in sample standard deviations; None if equal up to rounding."""
    deviation = float(scores.std(ddof=1))
    if deviation <= _ROUNDING * float(np.abs(scores).max()):
        return None
    return (scores - float(scores.mean())) / deviation


def critical_value(num_values: int, significance: float = SIGNIFICANCE) -> float:
    """The two-sided lambda for n values: (n-1) t / sqrt((n-2 + t^2) n)."""
    from scipy import stats  # which takes a second

    quantile = float(stats.t.isf(significance / (2 * num_values), num_values - 2))
    return (num_values - 1) * quantile / math.sqrt((num_values - 2 + quantile**2) * num_values)
