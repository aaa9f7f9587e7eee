"""The ESD test: the published example and its invariances."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribot_rag.errors import InvalidInput
from benchmarks.outliers import critical_value, outliers, studentised

# Rosner's data, as in the NIST/SEMATECH e-Handbook, section 1.3.5.17.3.
# fmt: off
ROSNER = (
    -0.25, 0.68, 0.94, 1.15, 1.20, 1.26, 1.26, 1.34, 1.38, 1.43, 1.49, 1.49, 1.55, 1.56, 1.58,
    1.65, 1.69, 1.70, 1.76, 1.77, 1.81, 1.91, 1.94, 1.96, 1.99, 2.06, 2.09, 2.10, 2.14, 2.15,
    2.23, 2.24, 2.26, 2.35, 2.37, 2.40, 2.47, 2.54, 2.62, 2.64, 2.90, 2.92, 2.92, 2.93, 3.21,
    3.26, 3.30, 3.59, 3.68, 4.30, 4.64, 5.34, 5.42, 6.01,
)
# fmt: on
PUBLISHED_STATISTICS = (3.118, 2.942, 3.179, 2.810, 2.815, 2.848, 2.279, 2.310, 2.101, 2.067)
PUBLISHED_CRITICAL_VALUES = (3.158, 3.151, 3.143, 3.136, 3.128, 3.120, 3.111, 3.103, 3.094, 3.085)


# The first of two high values hides behind the standard deviation that the second causes.
MASKED = (0.1, -0.2, 0.3, 0.0, 0.2, -0.1, 0.15, -0.3, 6.0, 6.2)

# Whole numbers, so that shifting and scaling them loses no digits.
samples = st.lists(st.integers(-1000, 1000).map(float), max_size=30)


def test_published_example() -> None:
    """The handbook's example is two-sided, so the value that deviates most goes either way."""
    remaining, statistics, critical_values = np.array(ROSNER), [], []
    for _ in PUBLISHED_STATISTICS:
        deviates = studentised(remaining)
        assert deviates is not None
        position = int(np.abs(deviates).argmax())
        statistics.append(math.floor(1000 * abs(deviates[position])) / 1000)
        critical_values.append(math.floor(1000 * critical_value(len(remaining))) / 1000)
        remaining = np.delete(remaining, position)
    assert tuple(statistics) == PUBLISHED_STATISTICS
    assert tuple(critical_values) == PUBLISHED_CRITICAL_VALUES


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # The first value that is no outlier ends the test: of both samples Rosner's own form names
        # outliers, three and two.
        (ROSNER, ()),
        (MASKED, ()),
        ((0.0, 9.0, 0.1, -0.1, 0.2, 0.05), (1,)),
        ((0.0, -9.0, 0.1, -0.1, 0.2, 0.05), ()),  # low values do not count
        ((1.0, 1.0, 7.0, 1.0), (2,)),  # it ends where the rest is equal
        ((), ()),  # few or equal values have no outliers
        ((1.0,), ()),
        ((1.0, 9.0), ()),
        ((0.0, 0.0, 0.0, 0.0), ()),
        ((2.5, 2.5, 2.5), ()),
        ((0.1 + 0.2, 0.3, 0.3, 0.3, 0.3, 0.3), ()),
        ((1e-320, 1e-320, 1e-320), ()),
    ],
)
def test_outliers_by_hand(values: Sequence[float], expected: tuple[int, ...]) -> None:
    assert outliers(values) == expected


def test_there_are_fifty_at_most() -> None:
    assert outliers([*[0.0] * 999, 1.0, *(100.0**power for power in range(60))])[-1] == 1010


@given(samples, st.integers(-1000, 1000), st.sampled_from([0.25, 0.5, 2.0, 64.0]))
def test_shift_and_positive_scale_change_nothing(
    values: list[float], shift: int, scale: float
) -> None:
    moved = [scale * value + shift for value in values]
    assert outliers(moved) == outliers(values)


@given(samples)
def test_outliers_are_the_highest_values(values: list[float]) -> None:
    indices = outliers(values)
    highest = sorted(values, reverse=True)[: len(indices)]
    assert [values[index] for index in indices] == highest
    assert len(set(indices)) == len(indices)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite(value: float) -> None:
    with pytest.raises(InvalidInput, match=f"value 1 is {value}"):
        outliers((0.0, value, 1.0))
