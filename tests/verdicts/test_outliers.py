"""The ESD test: the published example, its invariances, and what it must not call an outlier."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribot_rag.errors import InvalidInput
from attribot_rag.verdicts.outliers import Form, extreme_deviates, outliers

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

FORMS: tuple[Form, ...] = ("paper", "rosner")
forms = st.sampled_from(FORMS)
# Whole numbers, so that shifting and scaling them loses no digits.
samples = st.lists(st.integers(-1000, 1000).map(float), max_size=30)


def test_published_example() -> None:
    deviates = extreme_deviates(ROSNER, max_outliers=10, two_sided=True)
    statistics = tuple(math.floor(1000 * deviate.statistic) / 1000 for deviate in deviates)
    critical_values = tuple(
        math.floor(1000 * deviate.critical_value) / 1000 for deviate in deviates
    )
    assert statistics == PUBLISHED_STATISTICS
    assert critical_values == PUBLISHED_CRITICAL_VALUES
    assert outliers(ROSNER, max_outliers=10, two_sided=True) == (53, 52, 51)


def test_published_example_one_sided() -> None:
    assert outliers(ROSNER, max_outliers=10) == (53, 52, 51)
    (first,) = extreme_deviates(ROSNER, max_outliers=1)
    assert first.statistic == pytest.approx(3.1189, abs=1e-4)
    assert first.critical_value < PUBLISHED_CRITICAL_VALUES[0]


def test_paper_critical_values_are_those_of_two_sides() -> None:
    (paper,) = extreme_deviates(ROSNER, form="paper", max_outliers=1)
    (two_sided,) = extreme_deviates(ROSNER, two_sided=True, max_outliers=1)
    assert paper == two_sided


def test_rosner_finds_what_the_paper_form_misses() -> None:
    first, second, *_ = extreme_deviates(MASKED)
    assert not first.significant and second.significant
    assert outliers(MASKED) == (9, 8)
    assert outliers(MASKED, form="paper") == ()


@pytest.mark.parametrize("form", FORMS)
def test_one_clear_outlier(form: Form) -> None:
    assert outliers((0.0, 9.0, 0.1, -0.1, 0.2, 0.05), form=form) == (1,)


@pytest.mark.parametrize("form", FORMS)
def test_low_values_count_only_with_two_sides(form: Form) -> None:
    values = (0.0, -9.0, 0.1, -0.1, 0.2, 0.05)
    assert outliers(values, form=form) == ()
    assert outliers(values, form=form, two_sided=True) == (1,)


def test_max_outliers_limits_how_many() -> None:
    assert outliers(ROSNER, max_outliers=2, two_sided=True) == ()
    assert outliers(ROSNER, max_outliers=3, two_sided=True) == (53, 52, 51)
    assert len(extreme_deviates(tuple(range(100)))) == 50


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "values",
    [
        (),
        (1.0,),
        (1.0, 9.0),
        (0.0, 0.0, 0.0, 0.0),
        (2.5, 2.5, 2.5),
        (0.1 + 0.2, 0.3, 0.3, 0.3, 0.3, 0.3),
        (1e-320, 1e-320, 1e-320),
    ],
)
def test_few_or_equal_values_have_no_outliers(values: Sequence[float], form: Form) -> None:
    assert outliers(values, form=form) == ()


@pytest.mark.parametrize("form", FORMS)
def test_ends_where_the_rest_is_equal(form: Form) -> None:
    assert len(extreme_deviates((1.0, 1.0, 7.0, 1.0), form=form)) == 1
    assert outliers((1.0, 1.0, 7.0, 1.0), form=form) == (2,)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_huge_and_tiny_values(size: float) -> None:
    values = (0.0, 9.0, 0.1, -0.1, 0.2, 0.05)
    assert outliers([size * value for value in values]) == (1,)


def test_tiny_significance_finds_nothing() -> None:
    assert outliers(ROSNER, alpha=1e-300) == ()


@given(samples, forms, st.integers(-1000, 1000), st.sampled_from([0.25, 0.5, 2.0, 64.0]))
def test_shift_and_positive_scale_change_nothing(
    values: list[float], form: Form, shift: int, scale: float
) -> None:
    moved = [scale * value + shift for value in values]
    assert outliers(moved, form=form) == outliers(values, form=form)


@given(st.data(), samples, forms, st.booleans())
def test_order_of_the_values_does_not_matter(
    data: st.DataObject, values: list[float], form: Form, two_sided: bool
) -> None:
    order = data.draw(st.permutations(range(len(values))))
    permuted = [values[index] for index in order]
    expected = outliers(values, form=form, two_sided=two_sided)
    found = outliers(permuted, form=form, two_sided=two_sided)
    assert [permuted[index] for index in found] == [values[index] for index in expected]
    if len(set(values)) == len(values):
        assert tuple(order[index] for index in found) == expected


@given(samples, forms)
def test_outliers_are_the_highest_values(values: list[float], form: Form) -> None:
    found = outliers(values, form=form)
    highest = sorted(values, reverse=True)[: len(found)]
    assert [values[index] for index in found] == highest
    assert len(set(found)) == len(found)


@given(samples)
def test_paper_form_is_the_more_cautious(values: list[float]) -> None:
    paper = outliers(values, form="paper")
    assert outliers(values)[: len(paper)] == paper


@given(samples, st.floats(0.001, 0.5), st.floats(0.001, 0.5))
def test_more_significance_finds_no_less(values: list[float], one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert len(outliers(values, alpha=low)) <= len(outliers(values, alpha=high))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite(value: float) -> None:
    with pytest.raises(InvalidInput, match=f"value 1 is {value}"):
        outliers((0.0, value, 1.0))


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, math.nan])
def test_alpha_out_of_range(alpha: float) -> None:
    with pytest.raises(InvalidInput, match=rf"alpha is {alpha}.*between 0 and 1"):
        outliers(ROSNER, alpha=alpha)


def test_max_outliers_out_of_range() -> None:
    with pytest.raises(InvalidInput, match=r"max_outliers is 0.*from 1"):
        outliers(ROSNER, max_outliers=0)


def test_unknown_form() -> None:
    with pytest.raises(InvalidInput, match="'grubbs'; choose one of paper, rosner"):
        outliers(ROSNER, form="grubbs")  # type: ignore[arg-type]
