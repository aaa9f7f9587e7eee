"""The sources whose exact scores are unusually high, by the test that AttriBoT uses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

from attribot_rag.errors import InvalidInput

SIGNIFICANCE = 0.05
_MAX_OUTLIERS = 50
_MIN_VALUES = 3
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


def outliers(values: Sequence[float]) -> tuple[int, ...]:
    """Indices of the unusually high values, highest first.

    This is the generalised extreme studentised deviate test (Rosner, Technometrics 25, 1983;
    NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.5.17.3), in the form of AttriBoT
    (ICLR 2025). The highest value is an outlier if its deviate exceeds the two-sided critical
    value. It is removed, and the test repeats until a value is no outlier. Fewer than three values,
    or values that are equal up to rounding, have no outliers. Raises InvalidInput for values that
    are not finite.
    """
    scores = np.asarray(values, dtype=np.float64)
    if not np.isfinite(scores).all():
        index = int(np.isfinite(scores).argmin())
        raise InvalidInput(f"value {index} is {scores[index]}; outliers need finite values")
    # In sorted order, the sums round in the same way for any order of the values.
    remaining = np.argsort(scores, kind="stable")
    indices: list[int] = []
    while len(remaining) >= _MIN_VALUES and len(indices) < _MAX_OUTLIERS:
        deviates = studentised(scores[remaining])
        if deviates is None:
            break
        position = int(deviates.argmax())
        if not deviates[position] > critical_value(len(remaining)):
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


def critical_value(num_values: int) -> float:
    """The two-sided lambda for n values: (n-1) t / sqrt((n-2 + t^2) n)."""
    quantile = float(stats.t.isf(SIGNIFICANCE / (2 * num_values), num_values - 2))
    return (num_values - 1) * quantile / math.sqrt((num_values - 2 + quantile**2) * num_values)
