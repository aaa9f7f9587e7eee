"""Results are only appended to, and a cut line loses nothing else."""

from pathlib import Path

import pytest

from attribot_rag.errors import InvalidInput
from benchmarks.experiment.results import AblationRecord, AnswerRecord, ResultStore, ScoreRecord

ANSWERED = AnswerRecord("set/1", "q", "d", 50, 40, 5, [0, 0, 1], [2], 0.5)
SCORED = ScoreRecord("set/1", "d", "auto", "Auto()", [1.0, None, 2.0], 9, 1e3, 8.0, 9e2, 0.25)
ABLATED = AblationRecord("set/1", "d", [0, 2], 3.5)


def test_added_results_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.jsonl"
    ResultStore(path).add(ANSWERED, SCORED, ABLATED)
    again = ResultStore(path)
    assert again.answers == {"set/1": ANSWERED}
    assert again.scored(ANSWERED, "auto", "Auto()") == SCORED
    assert again.ablated(ANSWERED) == {frozenset({0, 2}): ABLATED.score}
    assert again.methods() == ["auto"]
    assert again.of_method("auto") == {"set/1": SCORED}


def test_other_options_or_another_answer_are_not_taken_for_the_same(tmp_path: Path) -> None:
    results = ResultStore(tmp_path / "results.jsonl")
    results.add(ANSWERED, SCORED)
    assert results.scored(ANSWERED, "auto", "Auto(rescore=3)") is None
    results.add(AnswerRecord("set/1", "q", "other", 50, 40, 6, [0, 0, 1], [2], 0.5))
    assert results.of_method("auto") == {}


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    ResultStore(path).add(ANSWERED, SCORED)
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    path.write_bytes(whole[:first] + whole[first:][:60])
    results = ResultStore(path)
    assert results.answers == {"set/1": ANSWERED}
    assert results.methods() == []
    results.add(SCORED, ABLATED)
    again = ResultStore(path)
    assert again.methods() == ["auto"]
    assert again.ablated(ANSWERED) == {frozenset({0, 2}): ABLATED.score}


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text('{"kind": "scores", "key": "a"}\n')
    with pytest.raises(InvalidInput, match=r"notes\.txt:1 is not a result"):
        ResultStore(path)
