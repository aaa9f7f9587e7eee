"""Metrics against values by hand, scipy and scikit-learn."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.experiment.metrics import (
    average_precision,
    best,
    captured,
    estimate,
    linear_datamodeling_score,
    pearson,
    recall,
    rms_difference,
    spearman,
)
from benchmarks.experiment.pareto import Point, pareto_front

SCORES = [0.1, 5.0, None, 2.0, -1.0, 3.0]


def test_average_precision_by_hand() -> None:
    # Ranked: 1, 5, 3, 0, 4, then the unscored 2. Wanted at ranks 1 and 3: (1/1 + 2/3) / 2.
    assert average_precision(SCORES, {1, 3}) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(SCORES, {2}) == pytest.approx(1 / 6)
    assert average_precision(SCORES, ()) is None


@given(
    st.lists(st.integers(-3, 3), min_size=2, max_size=20),
    st.sets(st.integers(0, 19), min_size=1),
)
def test_average_precision_is_the_mean_precision_at_the_wanted_sources(
    scores: list[float], places: set[int]
) -> None:
    """Of all that score as high or higher."""
    wanted = {place % len(scores) for place in places}
    precisions = []
    for place in wanted:
        above = {index for index, score in enumerate(scores) if score >= scores[place]}
        precisions.append(len(above & wanted) / len(above))
    assert average_precision(scores, wanted) == pytest.approx(np.mean(precisions))


def test_recall_and_the_best_by_hand() -> None:
    assert best(SCORES, 3, "a") == [1, 5, 3]
    assert best(SCORES, 9, "a") == [1, 5, 3, 0, 4]
    assert recall(SCORES, {1, 3}, 2) == 0.5
    assert recall(SCORES, {1, 3}, 3) == 1.0
    assert recall(SCORES, (), 3) is None
    assert recall([2.0, 1.0, 1.0, 1.0, None], {0, 1}, 2) == pytest.approx((1 + 1 / 3) / 2)
    assert recall([2.0, 0.0, 0.0, None], {2, 3}, 3) == 0.5
    assert recall([None, None], {0}, 1) == 0.0
    assert recall(SCORES, {1, 3}, 0) == 0.0


def test_captured_nats_by_hand() -> None:
    exact = [5.0, 3.0, 1.0, -1.0]
    estimated = [0.2, 0.9, -0.5, 0.4]  # best first: 1, 3, 0, 2
    assert captured(estimated, exact, 1, "a") == pytest.approx(3 / 5)
    assert captured(estimated, exact, 2, "a") == pytest.approx((3 - 1) / (5 + 3))
    assert captured(estimated, exact, 3, "a") == pytest.approx((3 - 1 + 5) / (5 + 3 + 1))
    assert captured(estimated, exact, 5, "a") == pytest.approx((3 - 1 + 5 + 1) / (5 + 3 + 1))
    assert captured(exact, exact, 3, "a") == 1.0
    assert captured([None, 2.0, None, None], exact, 3, "a") == pytest.approx(3 / 9)
    assert captured([None] * 4, exact, 3, "a") == 0.0
    assert captured(estimated, [-1.0, 0.0, -2.0, None], 1, "a") is None


def test_the_rms_difference_by_hand() -> None:
    assert rms_difference([1.0, 2.0, None, 3.0], [1.0, 4.0, 9.0, None]) == pytest.approx(2**0.5)
    assert rms_difference([None, 1.0], [1.0, None]) is None


def test_correlations_are_those_of_scipy() -> None:
    exact = [0.0, 4.0, 1.0, 2.5, -2.0, 3.5]
    filled = [score or 0.0 for score in SCORES]
    assert pearson(SCORES, exact) == pytest.approx(stats.pearsonr(filled, exact).statistic)
    assert spearman(SCORES, exact) == pytest.approx(stats.spearmanr(filled, exact).statistic)
    assert pearson([1.0, 1.0], [1.0, 2.0]) == 0.0
    assert spearman([1.0, 2.0], [1.0, 1.0]) is None


def test_the_linear_datamodeling_score_by_hand() -> None:
    scores = [1.0, 2.0, 4.0]
    removed = [frozenset({0}), frozenset({1}), frozenset({2}), frozenset({0, 1})]  # 1, 2, 4, 3
    same_order = dict(zip(removed, [10.0, 11.0, 13.0, 12.0], strict=True))
    assert linear_datamodeling_score(scores, same_order) == pytest.approx(1.0)
    # Predicted ranks 1 2 4 3, actual 1 2 3 4: 1 - 6 * 2 / (4 * 15).
    other = dict(zip(removed, [10.0, 11.0, 12.0, 13.0], strict=True))
    assert linear_datamodeling_score(scores, other) == pytest.approx(0.8)
    assert linear_datamodeling_score(scores, dict(list(other.items())[:2])) is None
    assert linear_datamodeling_score([0.0, 0.0, 0.0], other) == 0.0
    assert linear_datamodeling_score(scores, dict.fromkeys(removed, 1.0)) is None


def test_the_interval_is_that_of_all_resamples() -> None:
    """Six values have 6^6 of them, few enough to draw every one."""
    values = [0.2, 0.9, 0.4, 0.7, 0.5, None, 0.6]
    estimated = estimate(values)
    measured = [value for value in values if value is not None]
    means = np.mean(list(itertools.product(measured, repeat=6)), axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    assert estimated is not None
    assert estimated.low is not None
    assert estimated.high is not None
    assert estimated.count == 6
    assert estimated.mean == pytest.approx(0.55)
    assert estimated.low == pytest.approx(low, abs=0.02)
    assert estimated.high == pytest.approx(high, abs=0.02)
    assert f"{estimated:.1f}" == "0.6 [0.4, 0.7]"


def test_the_pareto_front_by_hand() -> None:
    points = {
        "slow and best": Point(10, 0.9),
        "fast": Point(1, 0.5),
        "beaten in both": Point(11, 0.8),
        "as fast, worse": Point(1, 0.4),
        "between": Point(5, 0.7),
        "twin": Point(5, 0.7),
    }
    assert pareto_front(points) == ["fast", "between", "twin", "slow and best"]
