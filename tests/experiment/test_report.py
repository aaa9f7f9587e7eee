"""The report, its figures and the comparison agree with the results."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet
import pytest

from benchmarks.experiment.comparison import Change, compare, comparison
from benchmarks.experiment.figures import STYLES, draw
from benchmarks.experiment.grid import EXACT, NAIVE
from benchmarks.experiment.measures import MEASURES, cases, cases_by_method, summary
from benchmarks.experiment.metrics import Estimate
from benchmarks.experiment.pareto import compared
from benchmarks.experiment.report import report
from benchmarks.experiment.results import AblationRecord, AnswerRecord, ResultStore, ScoreRecord
from benchmarks.experiment.tables import write_parquet


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
    text = report(results, "python -m benchmarks.experiment", [tmp_path / "scatter.svg"])
    assert "## set" in text
    assert "8 answers with exact scores, 8 of them with outliers." in text
    assert "| 8 | 12.0 | 3.0 | 250 | 300 | 9.0 | 2.00 |" in text
    assert "| leave-one-out | 8 | 1.000 [1.000, 1.000] |" in text
    assert "exact score of the whole document: 1.000" in text
    assert f"| {NAIVE}* | 8 | 9,000 |" in text
    assert "20.0 | 1.00 |" in text  # auto: 40 / 2 seconds, 2 / 2 seconds of generation
    assert "mAP and seconds, over 8 answers that all have: similarity; auto" in text
    assert "better in one: nowhere." in text
    assert "few answers" not in text
    assert "given, not generated" not in text
    assert "![scatter](scatter.svg)" in text
    assert text.count("| gradient norm |") == 2


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


def test_a_mean_over_fewer_answers_says_so(results: ResultStore) -> None:
    for number in range(8):
        results.add(AblationRecord(f"set/{number}", "d", [number % 12], 9.0))
    few = results.of_method("auto")["set/0"]
    results.add(replace(few, scores=[None] * 12))
    text = report(results, "command", [])
    assert "| 9.00 [9.00, 9.00] (7) |" in text
    assert "| 9.00 [9.00, 9.00] |" in text


def test_a_baseline_that_is_better_is_named(tmp_path: Path) -> None:
    results = made(tmp_path / "results.jsonl", 80.0)
    for score in results.of_method("auto").values():
        exact = results.of_method(EXACT)[score.key].scores
        reverse: list[float | None] = [-(value or 0.0) for value in exact]
        results.add(replace(score, scores=reverse))
    assert "similarity beats auto (mAP" in report(results, "command", [])


def test_without_exact_scores_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    results = ResultStore(tmp_path / "results.jsonl")
    results.add(AnswerRecord("set/1", "q", "d", 50, 40, 5, [0, 0, 1], [2], None))
    assert "nothing to compare with" in report(results, "command", [])
    assert draw(results, tmp_path) == []


def test_means_are_over_the_answers_where_the_measure_is_defined(results: ResultStore) -> None:
    estimate = summary(MEASURES[0], list(cases(results, "auto")))
    assert estimate is not None
    assert estimate.count == 8
    assert estimate.mean == pytest.approx(1.0)


def test_few_examples_show_no_difference(tmp_path: Path) -> None:
    few = made(tmp_path / "few.jsonl", 0.01, count=5)
    worse = made(tmp_path / "worse.jsonl", 80.0, count=5)
    assert {change.verdict for change in compare(few, worse)} == {"no difference seen"}
    assert "may look different by chance" not in comparison(few, worse)
    assert "These are few answers: others may say otherwise." in report(few, "command", [])


def names_compared(results: ResultStore, other: ResultStore) -> set[str]:
    return {change.measure.name for change in compare(results, other)}


@pytest.mark.parametrize("digest", ["d", "e"])  # of the same model, or of another
@pytest.mark.parametrize("changed", [{"clock": "cpu"}, {"hardware": "a third"}])
def test_seconds_of_two_clocks_or_machines_are_not_compared(
    results: ResultStore, tmp_path: Path, changed: dict[str, Any], digest: str
) -> None:
    same, other = (made(tmp_path / f"{name}.jsonl", 0.01) for name in ("same", "other"))
    for answered in list(other.answers.values()):
        other.add(replace(answered, digest=digest))
    for score in list(other.scores.values()):
        other.add(replace(score, digest=digest, **changed))
    assert {"tokens", "seconds"} <= names_compared(results, same)
    assert "seconds" not in names_compared(results, other)
    assert "tokens" in names_compared(results, other)
    notice = "Seconds are not compared where the hardware or the clock differed."
    assert notice in comparison(results, other)
    assert notice not in comparison(results, same)


def test_seconds_of_two_machines_are_not_mixed(results: ResultStore, tmp_path: Path) -> None:
    before = compared(cases_by_method(results, "set")).points
    for score in results.of_method("similarity").values():
        results.add(replace(score, seconds=900.0, hardware="another"))
    assert compared(cases_by_method(results, "set")).points == {
        name: point for name, point in before.items() if name != "similarity"
    }
    text = report(results, "command", [])
    assert "Measured on another:" in text
    assert "| similarity | 8 | 50 | 50 | 1 | 1 | 900.00 | – | – |" in text
    assert "measured on other hardware or on few of the answers: similarity." in text
    assert {"tokens", "seconds"} <= names_compared(results, made(tmp_path / "other.jsonl", 0.01))


def test_scores_count_wherever_they_were_timed(results: ResultStore) -> None:
    """The first answer was scored elsewhere, and by auto quite wrong."""
    for name in (EXACT, "auto", "similarity", "gradient norm"):
        record = results.of_method(name)["set/0"]
        sign = -1 if name == "auto" else 1
        scores: list[float | None] = [sign * (score or 0.0) for score in record.scores]
        results.add(replace(record, scores=scores, seconds=900.0, hardware="another"))
    methods = compared(cases_by_method(results, "set"))
    assert (methods.num_scored, methods.num_timed) == (8, 7)
    assert methods.points["auto"].seconds == 2.0
    table = summary(MEASURES[0], cases(results, "auto"))
    assert table is not None
    assert methods.points["auto"].faithfulness == table.mean < 1.0
    text = report(results, "command", [])
    assert "over 8 answers that all have (seconds over the 7 on " in text


def test_a_ratio_over_some_of_a_rows_answers_says_so(results: ResultStore) -> None:
    """Only one answer has a time without cache on the machine of the others."""
    for number in range(1, 8):
        record = results.of_method(NAIVE)[f"set/{number}"]
        results.add(replace(record, hardware="another"))
    assert "| 20.0 (1) | 1.00 |" in report(results, "command", [])


def test_one_pattern_of_signs_in_so_many_is_the_p_value(tmp_path: Path) -> None:
    """All signs alike: two of 2^n patterns have so large a mean."""
    for count in (5, 6, 9):
        results, worse = (made(tmp_path / f"{name}{count}", 0.01, count) for name in ("a", "b"))
        for score in worse.of_method("auto").values():
            worse.add(replace(score, seconds=3.0))
        (p_value,) = (
            change.p_value
            for change in compare(results, worse)
            if (change.method, change.measure.name) == ("auto", "seconds")
        )
        assert p_value == pytest.approx(2 / 2**count)


def test_an_interval_alone_shows_no_difference() -> None:
    apart = Estimate(0.2, 0.1, 0.3, 8)
    assert Change("set", "auto", MEASURES[0], apart, 0.01).verdict == "better"
    assert Change("set", "auto", MEASURES[0], apart, 0.06).verdict == "no difference seen"


def test_a_method_with_few_answers_does_not_narrow_the_comparison(results: ResultStore) -> None:
    before = compared(cases_by_method(results, "set")).points
    few = results.of_method("auto")["set/0"]
    results.add(replace(few, method="new", options="new"))
    assert compared(cases_by_method(results, "set")).points == before
    text = report(results, "command", [])
    assert "over 8 answers that all have" in text
    assert "on few of the answers: new." in text


def test_the_comparison_warns_of_misleading_differences(
    results: ResultStore, tmp_path: Path
) -> None:
    other = made(tmp_path / "other.jsonl", 80.0)
    other.add(replace(other.answers["set/0"], question="another"))
    text = comparison(results, other)
    assert text.startswith("1 of 8 shared answers are by another model")
    assert "may look different by chance alone" in text


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


def test_figures_name_their_methods(results: ResultStore, tmp_path: Path) -> None:
    paths = draw(results, tmp_path)
    assert [path.name for path in paths] == [
        "faithfulness_and_time.svg",
        "scatter.svg",
        "outlier_recall.svg",
        "cost_and_context.svg",
    ]
    for path in paths:
        assert ElementTree.fromstring(path.read_bytes()).tag.endswith("svg")
    text = paths[0].read_text("utf-8")
    timed = [name for name in compared(cases_by_method(results, "set")).points if name in STYLES]
    assert timed
    for name in timed:  # the SVG names the text that its paths draw, and has it once
        assert text.count(f"<!-- {name} -->") == 1
        assert STYLES[name][0] in text


def test_labels_are_legible() -> None:
    for colour, _, _ in STYLES.values():
        channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        luminance = sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
        assert 1.05 / (luminance + 0.05) >= 4.5


def test_methods_are_compared_over_the_answers_that_all_have(results: ResultStore) -> None:
    before = compared(cases_by_method(results, "set")).points
    exact = results.of_method(EXACT)["set/0"].scores
    key = "set/extra"
    results.add(AnswerRecord(key, "q", "d", 300, 250, 9, [i // 4 for i in range(12)], [0], 2.0))
    for name in (EXACT, "auto"):
        worst: list[float | None] = [-(score or 0.0) for score in exact]
        scores = exact if name == EXACT else worst
        results.add(ScoreRecord(key, "d", name, name, scores, 9, 1e9, 9, 1e9, 500.0))
    assert compared(cases_by_method(results, "set")).points == before


def test_the_table_has_a_row_for_each_answer_and_method(
    results: ResultStore, tmp_path: Path
) -> None:
    path = write_parquet(results, tmp_path / "results.parquet")
    rows = pyarrow.parquet.read_table(path).to_pylist()
    assert len(rows) == 8 * 5
    auto = [row for row in rows if row["method"] == "auto"]
    assert [row["seconds"] for row in auto] == [2.0] * 8
    naive = [row for row in rows if row["method"] == NAIVE]
    assert {row["mAP"] for row in naive} == {None}
