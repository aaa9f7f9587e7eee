"""Outliers among scores: the generalised extreme studentised deviate (ESD) test.

Rosner, Percentage Points for a Generalized ESD Many-Outlier Procedure, Technometrics 25 (1983);
NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.5.17.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from scipy import stats

from attribot_rag.errors import InvalidInput

Form = Literal["paper", "rosner"]

_FEWEST_VALUES = 3
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


class Deviate(NamedTuple):
    """The most extreme of the values left: its index, its R_i, and the lambda_i it must exceed."""

    value_index: int
    statistic: float
    critical_value: float

    @property
    def significant(self) -> bool:
        return self.statistic > self.critical_value


def outliers(
    values: Sequence[float],
    *,
    form: Form = "rosner",
    alpha: float = 0.05,
    max_outliers: int = 50,
    two_sided: bool = False,
) -> tuple[int, ...]:
    """Indices of the unusually high values, most extreme first.

    `rosner`: all up to the last significant deviate, so that several outliers do not mask each
    other. `paper` (AttriBoT, ICLR 2025): all before the first deviate that is not significant, at
    alpha / 2n. With `two_sided`, low values count too.

    Fewer than three values, or values that are equal up to rounding, have no outliers. Raises
    InvalidInput for a value that is not finite and for options out of range.
    """
    deviates = extreme_deviates(
        values, form=form, alpha=alpha, max_outliers=max_outliers, two_sided=two_sided
    )
    significant = [deviate.significant for deviate in deviates]
    if form == "paper":
        count = (*significant, False).index(False)
    else:
        count = max((i for i, found in enumerate(significant, start=1) if found), default=0)
    return tuple(deviate.value_index for deviate in deviates[:count])


def extreme_deviates(
    values: Sequence[float],
    *,
    form: Form = "rosner",
    alpha: float = 0.05,
    max_outliers: int = 50,
    two_sided: bool = False,
) -> tuple[Deviate, ...]:
    """R_i and lambda_i of the test, i = 1, 2, ..., each after removing the ones before it.

    At most `max_outliers`; ends early where fewer than three values, or equal ones, are left.
    Arguments and errors are those of `outliers`.
    """
    _check_options(form, alpha, max_outliers)
    scores = np.asarray(values, dtype=np.float64)
    if not np.isfinite(scores).all():
        index = int(np.isfinite(scores).argmin())
        raise InvalidInput(f"value {index} is {scores[index]}; outliers need finite values")

    tail = alpha / 2 if two_sided or form == "paper" else alpha
    # In sorted order the sums round alike however the caller ordered the values.
    left = np.argsort(scores, kind="stable")
    found: list[Deviate] = []
    while len(left) >= _FEWEST_VALUES and len(found) < max_outliers:
        studentised = _studentised(scores[left])
        if studentised is None:
            break
        extremity = np.abs(studentised) if two_sided else studentised
        position = int(extremity.argmax())
        statistic = float(extremity[position])
        found.append(Deviate(int(left[position]), statistic, _critical_value(len(left), tail)))
        left = np.delete(left, position)
    return tuple(found)


def _studentised(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
    """Deviations from the mean in sample standard deviations; None if equal up to rounding."""
    size = float(np.abs(scores).max())
    if size == 0:
        return None
    # Squares of huge or tiny scores would overflow or vanish.
    scaled = scores / size
    deviation = float(scaled.std(ddof=1))
    if deviation <= _ROUNDING:
        return None
    return (scaled - float(scaled.mean())) / deviation


def _critical_value(num_left: int, tail: float) -> float:
    """lambda_i where n - i + 1 values are left: (n-i) t / sqrt((n-i-1 + t^2) (n-i+1)).

    `tail` is the significance before it is divided by the number of values left.
    """
    quantile = float(stats.t.isf(tail / num_left, num_left - 2))
    # t^2 may overflow for a tiny significance, so the fraction is reduced by t.
    root = math.hypot(1, math.sqrt(num_left - 2) / quantile) * math.sqrt(num_left)
    return (num_left - 1) / root


def _check_options(form: str, alpha: float, max_outliers: int) -> None:
    if form not in get_args(Form):
        raise InvalidInput(f"unknown form {form!r}; choose one of {', '.join(get_args(Form))}")
    if not 0 < alpha < 1:
        raise InvalidInput(f"alpha is {alpha!r}; choose a number between 0 and 1, both excluded")
    if max_outliers < 1:
        raise InvalidInput(f"max_outliers is {max_outliers!r}; choose a whole number from 1 up")
