"""Scores above the noise, by hand, and the ceiling in the report."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.experiment.grid import CEILING, EXACT
from benchmarks.experiment.measures import (
    ABOVE_NOISE,
    DIFFERENCE,
    FACTOR,
    MeasuredCase,
    cases,
)
from benchmarks.experiment.results import AnswerRecord, ResultStore, ScoreRecord

BACKGROUND = [0.1, -0.1, 0.0, 0.05, -0.05, 0.1, -0.1, 0.0, 0.05, -0.05]
EXACT_SCORES = [5.0, 1.0, *BACKGROUND]
"""Two outliers."""
SECOND = [6.0, -0.2, *BACKGROUND]
"""Off by 1 and 1.2 of 12 sources: rms (2.44 / 12) ** 0.5 = 0.451."""
AUTO = [4.0, *[None] * 5, 5.0, *[None] * 5]
MEASURES = {measure.name: measure for measure in (*ABOVE_NOISE, DIFFERENCE)}


def made(path: Path, scores: dict[str, list[float | None]], count: int = 8) -> ResultStore:
    """The same answer `count` times."""
    results = ResultStore(path)
    for number in range(count):
        key = f"set/{number}"
        documents = [i // 4 for i in range(len(EXACT_SCORES))]
        results.add(AnswerRecord(key, "q", "d", 300, 250, 9, documents, [0], 2.0))
        for name, values in scores.items():
            results.add(ScoreRecord(key, "d", name, name, values, 100, 1e9, 100, 1e9, 2.0))
    return results


METHODS: dict[str, list[float | None]] = {
    EXACT: list(EXACT_SCORES),
    "auto": list(AUTO),
    "masked": [4.0, 2.0, *BACKGROUND],
    "similarity": [0.0, 0.9, *([0.5] * 10)],
    CEILING: list(SECOND),
}


@pytest.fixture
def results(tmp_path: Path) -> ResultStore:
    return made(tmp_path / "results.jsonl", METHODS)


def case_of(results: ResultStore, method: str) -> MeasuredCase:
    return next(cases(results, method))


def test_the_noise_is_the_difference_of_the_definitions(results: ResultStore) -> None:
    case = case_of(results, "auto")
    assert case.noise == pytest.approx((2.44 / 12) ** 0.5)
    assert DIFFERENCE.of(case_of(results, CEILING)) == case.noise
    assert DIFFERENCE.of(case_of(results, "masked")) == pytest.approx((2 / 12) ** 0.5)
    assert DIFFERENCE.of(case_of(results, EXACT)) == 0.0
    assert DIFFERENCE.of(case_of(results, "similarity")) is None  # no nats


def test_only_outliers_above_the_noise_are_wanted(results: ResultStore) -> None:
    """Twice 0.451 is less than 1: both are. A little more noise, and one is."""
    case = case_of(results, "masked")
    assert case.outliers == {0, 1}
    assert case.outliers & case.above_noise == {0, 1}
    second: list[float | None] = [6.0, 2.5, *BACKGROUND]
    noisier = replace(case, second=second)
    assert noisier.noise == pytest.approx((3.25 / 12) ** 0.5)
    assert noisier.outliers & noisier.above_noise == {0}
    similar = replace(case_of(results, "similarity"), second=second)
    assert MEASURES["mAP above noise"].of(noisier) == 1.0
    assert MEASURES["mAP above noise"].of(similar) == pytest.approx(1 / 12)


def test_an_answer_counts_where_its_best_is_above_the_noise(results: ResultStore) -> None:
    case = case_of(results, "auto")
    assert case.above_noise
    # Of the two that it scored, worth -0.05 and 5; possible are 5, and 5 + 1 + 0.1.
    assert MEASURES["captured nats, top 1"].of(case) == pytest.approx(EXACT_SCORES[6] / 5)
    assert MEASURES["captured nats, top 3"].of(case) == pytest.approx(4.95 / 6.1)
    wide: list[float | None] = [-7.0, 1.0, *BACKGROUND]
    unclear = replace(case, second=wide)
    assert unclear.noise == pytest.approx(12 / 12**0.5)
    assert FACTOR * 12 / 12**0.5 > 5.0
    assert not unclear.above_noise
    for measure in ABOVE_NOISE:
        assert measure.of(unclear) is None
        assert measure.of(replace(case, second=None)) is None
