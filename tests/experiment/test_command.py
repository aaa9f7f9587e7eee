"""`python -m benchmarks.experiment`, from files to a report."""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from experiment.test_data_sets import HOTPOTQA
from support.scorers import many_documents
from support.tiny_models import byte_level

from attribot_rag.errors import ScoringFailed
from attribot_rag.methods import Masked
from benchmarks.experiment.__main__ import main
from benchmarks.experiment.experiment import Experiment
from benchmarks.experiment.grid import DEFAULT, methods, select_methods
from benchmarks.experiment.results import ResultStore

LINE = {"question": "who closed it?", "documents": list(many_documents(4))}
FEW = ["--methods", "auto", "masked", "attention weights"]
ONE = ["--methods", "masked"]


@dataclass
class Command:
    """The command on a log of three good lines and a bad one, to a folder."""

    model: str
    log: Path
    folder: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *more: str | Path) -> int:
        common = ["--model", self.model, "--max-new-tokens", "6", "--random", "4", "--no-progress"]
        return main([*common, *map(str, more)])

    def of_log(self, *more: str | Path) -> int:
        return self("--log", self.log, "--output", self.folder, *more)

    def write(self, *lines: object) -> None:
        self.log.write_text("".join(json.dumps(line) + "\n" for line in lines))

    @property
    def results(self) -> Path:
        return self.folder / "results.jsonl"

    @property
    def report(self) -> str:
        return (self.folder / "report.md").read_text()


@pytest.fixture
def command(tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    command = Command(tiny_model, tmp_path / "mine.jsonl", tmp_path / "found", capsys)
    command.write(*({**LINE, "id": str(number)} for number in range(3)))
    with command.log.open("a") as file:
        file.write('{"question": "cut sho')
    return command


def test_from_a_log_to_a_report(command: Command) -> None:
    assert command.of_log("--examples", "2", *FEW) == 0
    captured = command.capsys.readouterr()
    assert captured.err.startswith(f"{command.log}:4: no JSON")
    assert "mine.jsonl:4: no JSON" in captured.out
    assert "1 bad line was left out." in captured.out
    text = command.report
    assert "## mine" in text
    assert "| 2 | 12.0 | 4.0 |" in text
    assert re.search(r"\| leave-one-out \| 2 \| [^|]+\| [^|]+\| 1\.000", text)
    for figure in re.findall(r"\]\((.+?\.svg)\)", text):
        assert (command.folder / figure).exists()
    assert "    python -m benchmarks.experiment --" in text
    assert f" --log {command.log} " in text
    lines = command.results.read_text().splitlines()
    assert command.of_log("--examples", "3", *FEW) == 0
    more = command.results.read_text().splitlines()
    assert more[: len(lines)] == lines
    assert sum('"answer"' in line for line in more) == 3


def test_two_results_compared(command: Command, tmp_path: Path) -> None:
    command.of_log("--examples", "2", *FEW)
    command.capsys.readouterr()
    assert main(["--compare", str(command.folder), str(command.results)]) == 0
    output = command.capsys.readouterr().out
    assert "| mine | auto | Pearson | 2 | 0.000 | no difference seen |" in output
    nothing = tmp_path / "nothing.jsonl"
    nothing.touch()
    assert main(["--compare", str(command.folder), str(nothing)]) == 0
    assert "nothing is compared" in command.capsys.readouterr().out


def test_a_stopped_run_names_the_file_that_it_keeps(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "run", interrupted)
    assert command.of_log() == 130
    errors = command.capsys.readouterr().err
    assert f"Stopped. {command.results} keeps what was computed" in errors


def test_a_run_that_is_out_of_time_says_so_in_its_report(command: Command) -> None:
    command.of_log("--minutes", "1e-6", *FEW)
    notice = "The time was up with results of 1 of 3 examples; the same command goes on."
    assert notice in command.capsys.readouterr().out
    assert notice in command.report
    assert "Where a baseline" not in command.report  # none was run


def test_results_are_written_as_progress_where_nobody_watches(command: Command) -> None:
    arguments = ["--log", command.log, "--output", command.folder, "--model", command.model]
    sizes = ["--random", "2", "--max-new-tokens", "4"]
    assert main([*map(str, arguments), *sizes, *ONE]) == 0
    assert "evaluating:" in command.capsys.readouterr().err


def test_the_report_is_of_this_run_alone(command: Command) -> None:
    command.of_log("--examples", "2", "--methods", "auto", "masked")
    command.of_log("--examples", "1", "--methods", "AUTO")
    assert "1 answer with exact scores" in command.report
    assert "| masked |" not in command.report
    assert "| auto | 1 |" in command.report


def test_data_sets_of_one_name_are_not_mixed(command: Command, tmp_path: Path) -> None:
    other = tmp_path / "other" / "mine.jsonl"
    other.parent.mkdir()
    other.write_text(json.dumps({**LINE, "id": "another"}))
    assert command("--log", command.log, "--log", other, *FEW) == 2
    assert "two data sets of the name 'mine'; give" in command.capsys.readouterr().err
    named = other.rename(tmp_path / "squad.jsonl")
    assert command("--log", named, *FEW) == 2
    errors = command.capsys.readouterr().err
    assert "two data sets of the name 'squad' (--squad is one)" in errors


def test_the_same_id_twice_is_refused(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "hotpotqa.json"
    path.write_text(json.dumps([HOTPOTQA[0], HOTPOTQA[0]]))
    for count in ("1", "2"):  # drawn together or not
        assert command("--hotpotqa", path, "--examples", count, *FEW) == 2
        assert f"'hotpotqa/{HOTPOTQA[0]['_id']}'" in command.capsys.readouterr().err


def test_faults_of_a_log_are_reported_and_the_rest_is_used(command: Command) -> None:
    """Also an answer under another name, whose absence nobody would notice."""
    named = {**LINE, "id": 7, "response": "The queen did."}
    command.write(named, {**LINE, "answer": "The queen did."}, named)
    assert command.of_log("--methods", "masked", "attention weights") == 0
    output = command.capsys.readouterr().out
    assert f"{command.log}:3.id: an earlier line has this name" in output
    assert "1 bad line was left out." in output
    assert f"{command.log}: fields that are not read: response" in output
    assert "1 of 2 answers given, not generated here." in command.report
    assert set(ResultStore(command.results).answers) == {"mine/7", "mine/2"}


def test_examples_left_out_are_named_once_and_in_the_report(command: Command) -> None:
    long = {**LINE, "documents": ["A word. " * 9000]}
    command.write(*({**long, "id": number} for number in range(2)))
    command.of_log(*ONE)
    assert command.capsys.readouterr().out.count("positions") == 1
    assert "and 1 more" in command.report


def test_scores_by_other_options_are_not_reported_as_of_these(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.of_log(*ONE)
    assert "| masked | 3 |" in command.report
    lines = command.results.read_text().replace("Masked(", "Masked(other=1, ")
    command.results.write_text(lines)

    def failing(*_: object) -> None:
        raise ScoringFailed("not today")

    monkeypatch.setattr(Masked, "run", failing)
    command.of_log(*ONE)
    assert "not today" in command.report
    assert "| masked |" not in command.report


def test_texts_of_a_log_take_no_effect_in_terminal_or_report(command: Command) -> None:
    command.write(LINE, {**LINE, "evidence": ["\u202e\x9b31m<img src=x> [a](http://b)"]})
    assert command.of_log(*ONE) == 0
    output = "".join(command.capsys.readouterr())
    for text in (output, command.report):
        assert "stands in none of the documents" in text
        assert not {"\u202e", "\x9b"} & {*text}
    assert "<img" not in command.report
    assert "[a](" not in command.report


@pytest.mark.parametrize("module", ["matplotlib", "pyarrow", "sklearn", "sentence_transformers"])
def test_a_missing_package_is_named_before_anything_is_loaded(
    command: Command, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert command.of_log("--model", "./no-model") == 2
    error = command.capsys.readouterr().err
    assert f"needs {module}: pip install --group experiment in a clone of attribot-rag" in error
    assert "no-model" not in error


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["all"], list(methods())),
        (["leave_one_out"], ["leave-one-out"]),
        (["Leave One Out", "masked"], ["leave-one-out", "masked"]),
        (["contextcite"], [f"ContextCite, {count} ablations" for count in (32, 64, 128, 256)]),
        (["masked_hierarchical"], [f"masked hierarchical, keep {keep}" for keep in (1, 3, 5)]),
    ],
)
def test_names_of_methods_and_families(names: list[str], expected: list[str]) -> None:
    assert select_methods(names, methods()) == expected


def test_the_default_methods_are_known() -> None:
    assert set(DEFAULT) <= set(methods(byte_level()))


@pytest.mark.parametrize(
    ("arguments", "message"),
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
def test_wrong_arguments_are_errors_with_their_reason(
    command: Command, arguments: list[str], message: str
) -> None:
    assert command(*(argument.replace("LOG", str(command.log)) for argument in arguments)) == 2
    shown = command.capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
