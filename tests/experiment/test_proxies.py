"""How well a proxy's scores stand in for the target's: correlations, and outliers that it keeps."""

from pathlib import Path

from benchmarks.experiment.grid import EXACT
from benchmarks.experiment.results import AnswerRecord, ResultStore, ScoreRecord
from benchmarks.proxies import table

NUM_SOURCES = 24


def rows(scores: list[float], path: Path) -> list[list[str]]:
    """The table's rows for a target with one outlier, the last source."""
    exact = [0.1 * (index % 5) for index in range(NUM_SOURCES - 1)] + [9.0]
    store = ResultStore(path)
    store.add(AnswerRecord("set/0", "q", "d", 300, 250, 9, [0] * NUM_SOURCES, [], 2.0))
    for name, values in ((EXACT, exact), ("masked", exact), ("proxy", scores)):
        listed: list[float | None] = [*values]
        store.add(ScoreRecord("set/0", "d", name, name, listed, 1, 1.0, 1, 1.0, 1.0))
    lines = table([store]).splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[2:-1]] for line in lines]


def test_outliers_are_kept_down_to_their_rank_by_the_proxy(tmp_path: Path) -> None:
    scores = [float(index) for index in range(NUM_SOURCES)]
    scores[-1] = 16.5  # six are better
    ((*kind, pearson, spearman, among3, among5, among10, among20),) = rows(scores, tmp_path / "r")
    assert kind == ["set", "proxy", "1", "1"]
    assert (among3, among5, among10, among20) == ("0.00", "0.00", "1.00", "1.00")
    assert 0 < float(pearson) < 0.5 and 0 < float(spearman) < 0.5


def test_a_proxy_whose_scores_are_twice_the_target_s_is_perfect(tmp_path: Path) -> None:
    scores = [0.2 * (index % 5) for index in range(NUM_SOURCES - 1)] + [18.0]
    assert rows(scores, tmp_path / "r")[0][4:] == ["1.00"] * 6
