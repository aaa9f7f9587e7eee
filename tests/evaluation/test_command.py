"""`attribot-rag evaluate`, from files to a report."""

import json
import re
from pathlib import Path

import pytest
from evaluation.test_data_sets import HOTPOTQA
from support.scorers import many_documents
from support.tiny_models import byte_level

from attribot_rag.cli import main
from attribot_rag.errors import ScoringFailed
from attribot_rag.evaluation.experiment import Experiment
from attribot_rag.evaluation.grid import DEFAULT, methods, select_methods
from attribot_rag.evaluation.results import ResultStore
from attribot_rag.methods import Masked

LINE = {"question": "who closed it?", "documents": list(many_documents(4))}
FEW = ["--methods", "auto", "masked", "attention weights"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    lines = [json.dumps({**LINE, "id": str(number)}) for number in range(3)]
    path.write_text("\n".join([*lines, '{"question": "cut sho']))
    return path


def evaluate(tiny_model: str, *more: str | Path) -> int:
    common = ["--model", tiny_model, "--max-new-tokens", "6", "--random", "4", "--no-progress"]
    return main(["evaluate", *common, *map(str, more)])


def test_from_a_log_to_a_report(
    tiny_model: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "found"
    assert evaluate(tiny_model, "--log", log, "--examples", "2", "--output", folder, *FEW) == 0
    said = capsys.readouterr()
    assert said.err.startswith(f"{log}:4: no JSON")
    assert "mine.jsonl:4: no JSON" in said.out
    assert "1 bad line was left out." in said.out
    text = (folder / "report.md").read_text()
    assert "## mine" in text
    assert "| 2 | 12.0 | 4.0 |" in text
    assert re.search(r"\| leave-one-out \| 2 \| [^|]+\| [^|]+\| 1\.000", text)
    for figure in re.findall(r"\]\((.+?\.svg)\)", text):
        assert (folder / figure).exists()
    assert "    attribot-rag evaluate --" in text
    assert f" --log {log} " in text
    lines = (folder / "results.jsonl").read_text().splitlines()
    assert evaluate(tiny_model, "--log", log, "--examples", "3", "--output", folder, *FEW) == 0
    more = (folder / "results.jsonl").read_text().splitlines()
    assert more[: len(lines)] == lines
    assert sum('"answer"' in line for line in more) == 3


def test_two_results_compared(
    tiny_model: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "found"
    evaluate(tiny_model, "--log", log, "--examples", "2", "--output", folder, *FEW)
    capsys.readouterr()
    assert main(["evaluate", "--compare", str(folder), str(folder / "results.jsonl")]) == 0
    said = capsys.readouterr().out
    assert "| mine | auto | Pearson | 2 | 0.000 | no difference seen |" in said
    nothing = tmp_path / "nothing.jsonl"
    nothing.touch()
    assert main(["evaluate", "--compare", str(folder), str(nothing)]) == 0
    assert "nothing is compared" in capsys.readouterr().out


def test_a_run_that_is_stopped_says_what_is_kept(
    tiny_model: str,
    log: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "run", interrupted)
    assert evaluate(tiny_model, "--log", log, "--output", tmp_path / "found") == 130
    said = capsys.readouterr().err
    assert f"Stopped. {tmp_path / 'found' / 'results.jsonl'} keeps what was computed" in said


def test_a_run_that_is_out_of_time_says_so_in_its_report(
    tiny_model: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "found"
    evaluate(tiny_model, "--log", log, "--output", folder, "--minutes", "1e-6", *FEW)
    said = "The time was up with results of 1 of 3 examples; the same command goes on."
    assert said in capsys.readouterr().out
    text = (folder / "report.md").read_text()
    assert said in text
    assert "Where a baseline" not in text  # none was run


def test_results_are_written_as_progress_where_nobody_watches(
    tiny_model: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--log", log, "--output", tmp_path / "found", "--model", tiny_model, "--random", "2"]
    assert main(["evaluate", *map(str, given), "--max-new-tokens", "4", "--methods", "masked"]) == 0
    assert "evaluating:" in capsys.readouterr().err


def test_the_report_is_of_this_run_alone(tiny_model: str, log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "found"
    both: list[str | Path] = ["--log", log, "--output", folder]
    evaluate(tiny_model, *both, "--examples", "2", "--methods", "auto", "masked")
    evaluate(tiny_model, *both, "--examples", "1", "--methods", "AUTO")
    text = (folder / "report.md").read_text()
    assert "1 answer with exact scores" in text
    assert "| masked |" not in text
    assert "| auto | 1 |" in text


def test_logs_of_the_same_name_are_not_mixed(
    tiny_model: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other" / "mine.jsonl"
    other.parent.mkdir()
    other.write_text(json.dumps({**LINE, "id": "another"}))
    assert evaluate(tiny_model, "--log", log, "--log", other, *FEW) == 2
    assert "two data sets of the name 'mine'; give" in capsys.readouterr().err


def test_a_log_of_a_data_sets_name_is_refused(
    tiny_model: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = log.rename(log.with_name("squad.jsonl"))
    assert evaluate(tiny_model, "--log", named, *FEW) == 2
    assert "two data sets of the name 'squad' (--squad is one)" in capsys.readouterr().err


def test_the_same_id_twice_is_refused(
    tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hotpotqa.json"
    path.write_text(json.dumps([HOTPOTQA[0], HOTPOTQA[0]]))
    for count in ("1", "2"):  # drawn together or not
        assert evaluate(tiny_model, "--hotpotqa", path, "--examples", count, *FEW) == 2
        assert f"'hotpotqa/{HOTPOTQA[0]['_id']}'" in capsys.readouterr().err


def test_what_is_wrong_with_a_log_is_told_and_the_rest_is_used(
    tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Among it an answer under another name, which would not be seen to be missing."""
    log = tmp_path / "mine.jsonl"
    named = json.dumps({**LINE, "id": 7, "response": "The queen did."})
    given = json.dumps({**LINE, "answer": "The queen did."})
    log.write_text(f"{named}\n{given}\n{named}\n")
    folder = tmp_path / "found"
    methods = ["--methods", "masked", "attention weights"]
    assert evaluate(tiny_model, "--log", log, "--output", folder, *methods) == 0
    said = capsys.readouterr().out
    assert f"{log}:3.id: an earlier line has this name" in said
    assert "1 bad line was left out." in said
    assert f"{log}: fields that are not read: response" in said
    text = (folder / "report.md").read_text()
    assert "1 of 2 answers given, not generated here." in text
    assert set(ResultStore(folder / "results.jsonl").answers) == {"mine/7", "mine/2"}


def test_what_was_left_out_is_told_once_and_stands_in_the_report(
    tiny_model: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = {**LINE, "documents": ["A word. " * 9000]}
    log.write_text("".join(json.dumps({**long, "id": number}) + "\n" for number in range(2)))
    folder = tmp_path / "found"
    given: list[str | Path] = ["--log", log, "--output", folder, "--methods", "masked"]
    evaluate(tiny_model, *given)
    assert capsys.readouterr().out.count("positions") == 1
    assert "and 1 more" in (folder / "report.md").read_text()


def test_scores_by_other_options_are_not_told_as_of_these(
    tiny_model: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "found"
    given: list[str | Path] = ["--log", log, "--output", folder, "--methods", "masked"]
    evaluate(tiny_model, *given)
    assert "| masked | 3 |" in (folder / "report.md").read_text()
    lines = (folder / "results.jsonl").read_text().replace("Masked(", "Masked(other=1, ")
    (folder / "results.jsonl").write_text(lines)

    def failing(*_: object) -> None:
        raise ScoringFailed("not today")

    monkeypatch.setattr(Masked, "run", failing)
    evaluate(tiny_model, *given)
    text = (folder / "report.md").read_text()
    assert "not today" in text
    assert "| masked |" not in text


def test_what_a_log_holds_takes_no_effect_in_terminal_or_report(
    tiny_model: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with log.open("a") as file:
        file.write(
            "\n" + json.dumps({**LINE, "evidence": ["\u202e\x9b31m<img src=x> [a](http://b)"]})
        )
    folder = tmp_path / "found"
    assert evaluate(tiny_model, "--log", log, "--output", folder, "--methods", "masked") == 0
    said = "".join(capsys.readouterr())
    text = (folder / "report.md").read_text()
    assert "stands in none of the documents" in said
    assert "stands in none of the documents" in text
    for harmful in ("\u202e", "\x9b"):
        assert harmful not in said
        assert harmful not in text
    assert "<img" not in text
    assert "[a](" not in text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["all"], list(methods())),
        (["leave_one_out"], ["leave-one-out"]),
        (["Leave One Out", "masked"], ["leave-one-out", "masked"]),
        (["contextcite"], [f"ContextCite, {count} ablations" for count in (32, 64, 128, 256)]),
        (["masked_hierarchical"], [f"masked hierarchical, keep {keep}" for keep in (1, 3, 5)]),
    ],
)
def test_names_of_methods_and_families(given: list[str], said: list[str]) -> None:
    assert select_methods(given, methods()) == said


def test_the_default_methods_are_known() -> None:
    assert set(DEFAULT) <= set(methods(byte_level()))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "no data; name at least one file with --hotpotqa"),
        (["--squad", "nowhere.json"], "nowhere.json cannot be read"),
        (["--log", "LOG", "--examples", "0"], "--examples 0; use at least 1"),
        (["--log", "LOG", "--methods", "magic"], "unknown method 'magic'; choose one"),
        (["--log", "LOG", "--methods", "proxy"], "those with a proxy need --proxy"),
        (["--log", "LOG", "--methods", "auto,masked"], "separated by spaces"),
        (["--log", "LOG", "--log", "LOG"], "is named twice"),
        (["--log", "LOG", "--random", "-3"], "num_random=-3; use 0 or more"),
        (["--log", "LOG", "--output", "LOG"], "is not a folder; name one"),
        (["--log", "LOG", "--output", "LOG/in"], "Not a directory"),
        (["--log", "LOG", "--template", "poem"], "unknown prompt template 'poem'; choose one of"),
        (["--log", "LOG", "--minutes", "0"], "minutes=0.0; use more than 0"),
        (["--squad", "LOG"], "mine.jsonl:2: no JSON"),
        (["--compare", "a", "b"], "a is not a file"),
    ],
)
def test_what_cannot_be_run_says_why(
    given: list[str], said: str, tiny_model: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [one.replace("LOG", str(log)) for one in given]
    assert evaluate(tiny_model, *arguments) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""
