"""The report, its figures and the comparison agree with the results."""

import csv
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.experiment.comparison import compare, comparison
from benchmarks.experiment.figures import draw
from benchmarks.experiment.grid import EXACT, NAIVE
from benchmarks.experiment.measures import MEASURES, cases, cases_by_method
from benchmarks.experiment.pareto import compared
from benchmarks.experiment.report import report
from benchmarks.experiment.results import AblationRecord, AnswerRecord, ResultStore, ScoreRecord
from benchmarks.experiment.tables import write_measures


def made(path: Path, noise: float, count: int = 8) -> ResultStore:
    """Results in which 'auto' is exact up to some noise, and a baseline is mostly noise."""
    chooser = random.Random(0)
    results = ResultStore(path)
    for number in range(count):
        key = f"set/{number}"
        exact = [round(chooser.gauss(0, 0.1), 4) for _ in range(12)]
        exact[number % 12] = 9.0
        results.add(AnswerRecord(key, "q", "d", 300, 250, 9, [i // 4 for i in range(12)], [0], 2.0))
        for name, spread, seconds in (
            (EXACT, 0.0, 20.0),
            ("auto", noise, 2.0),
            ("similarity", 50.0, 0.5),
            ("gradient norm", 50.0, 5.0),
        ):
            noisy: list[float | None] = [score + chooser.gauss(0, spread) for score in exact]
            tokens = int(100 * seconds)
            results.add(ScoreRecord(key, "d", name, name, noisy, tokens, 1e9, tokens, 1e9, seconds))
        results.add(
            ScoreRecord(key, "d", NAIVE, NAIVE, [], 9000, 1e10, 9000, 1e10, 40.0, extrapolated=True)
        )
        for document in range(3):
            group = list(range(4 * document, 4 * document + 4))
            results.add(AblationRecord(key, "d", group, sum(exact[i] for i in group)))
    return results


@pytest.fixture
def results(tmp_path: Path) -> ResultStore:
    return made(tmp_path / "results.jsonl", 0.01)


def test_the_report_shows_scores_costs_and_figures(results: ResultStore, tmp_path: Path) -> None:
    paths = draw(results, tmp_path)
    for path in paths:
        assert ElementTree.fromstring(path.read_bytes()).tag.endswith("svg")
    text = report(results, "python -m benchmarks.experiment", paths)
    assert "12.0 sources in 3.0 documents, 250 tokens of context, 300 of prompt" in text
    assert "`auto` ranks the sources most like exact leave-one-out. Its mAP is 1.000" in text
    assert "| leave-one-out | 1.000 [1.000, 1.000] | 2,000 | 20.00 |" in text
    assert f"| {NAIVE}* | – | 9,000 | 40.00 |" in text
    assert len(paths) == 4 and all(f"]({path.name})" in text for path in paths)


def test_the_file_of_measures_has_every_measure(results: ResultStore, tmp_path: Path) -> None:
    with write_measures(results, tmp_path / "measures.csv").open(newline="") as file:
        rows = {(row["method"], row["measure"]): row for row in csv.DictReader(file)}
    assert rows["auto", "times faster than no cache"]["value"] == "20.0"  # 40 / 2 seconds
    assert rows["auto", "attribution / generation time"]["value"] == "1.00"
    assert rows[EXACT, "Pearson"]["95 %"] == "1.000 to 1.000"
    assert (rows[NAIVE, "tokens"]["value"], rows[NAIVE, "tokens"]["answers"]) == ("9000", "8")
    found = {measure for method, measure in rows if method == "auto"}
    assert found >= {"mAP", "recall@5", "Spearman", "evidence mAP", "GFLOP", "seconds"}


def measured(path: Path, scores: list[float | None], removed: dict[tuple[int, ...], float]) -> Any:
    """The measures of these scores where the exact ones are 6 to 1, by their names."""
    results = ResultStore(path)
    results.add(AnswerRecord("set/0", "q", "d", 300, 250, 9, [0] * 6, [0], 2.0))
    exact: list[float | None] = [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    for name, values in ((EXACT, exact), ("some", scores)):
        results.add(ScoreRecord("set/0", "d", name, name, values, 1, 1.0, 1, 1.0, 0.0))
    for sources, score in removed.items():
        results.add(AblationRecord("set/0", "d", [*sources], score))
    (case,) = cases(results, "some")
    return {measure.name: measure.of(case) for measure in MEASURES}


def test_the_drop_of_more_sources_than_were_scored_is_not_reported(tmp_path: Path) -> None:
    few = [6.0, 5.0, 4.0, None, None, None]
    measures = measured(tmp_path / "few.jsonl", few, {(0, 1, 2): 15.0})
    assert measures["top-3 drop, nats"] == 15.0
    assert measures["top-5 drop, nats"] is None


def test_the_share_that_the_best_sources_keep_alone(tmp_path: Path) -> None:
    removed = {(0, 1, 2, 3, 4, 5): 20.0, (1, 2, 3, 4, 5): 5.0, (4, 5): 8.0}
    measures = measured(tmp_path / "kept.jsonl", [6.0, 5.0, 4.0, 3.0, 2.0, 1.0], removed)
    assert (measures["kept by top 1"], measures["kept by top 3"]) == (0.75, None)


def test_the_comparison_finds_changes(results: ResultStore, tmp_path: Path) -> None:
    worse = made(tmp_path / "worse.jsonl", 30.0)
    verdicts = {
        (change.method, change.measure.name): change.verdict for change in compare(results, worse)
    }
    assert verdicts["auto", "Pearson"] == "worse"
    assert verdicts[EXACT, "Pearson"] == "no difference seen"
    assert verdicts["auto", "seconds"] == "no difference seen"
    back = {
        (change.method, change.measure.name): change.verdict for change in compare(worse, results)
    }
    assert back["auto", "Pearson"] == "better"
    assert "| set | auto | Pearson | 8 | -" in comparison(results, worse)


def test_methods_are_compared_over_the_answers_that_all_have(results: ResultStore) -> None:
    before = compared(cases_by_method(results, "set"))
    exact = results.of_method(EXACT)["set/0"].scores
    key = "set/extra"
    results.add(AnswerRecord(key, "q", "d", 300, 250, 9, [i // 4 for i in range(12)], [0], 2.0))
    for name in (EXACT, "auto"):
        worst: list[float | None] = [-(score or 0.0) for score in exact]
        scores = exact if name == EXACT else worst
        results.add(ScoreRecord(key, "d", name, name, scores, 9, 1e9, 9, 1e9, 500.0))
    assert compared(cases_by_method(results, "set")) == before
