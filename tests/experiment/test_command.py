"""`python -m benchmarks.experiment`, from files to a report."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.scorers import many_documents

from benchmarks.experiment.__main__ import main
from benchmarks.experiment.results import ResultStore

LINE = {"question": "who closed it?", "documents": list(many_documents(4))}
FEW = ["--methods", "auto", "masked", "attention weights"]


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
    def measures(self) -> str:
        return (self.folder / "measures.csv").read_text()

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
    assert "On average, there are 12.0 sources in 4.0 documents" in text
    assert "mine,leave-one-out,Pearson,,2,1.000," in command.measures
    for figure in re.findall(r"\]\((.+?\.svg)\)", text):
        assert (command.folder / figure).exists()
    assert "    python -m benchmarks.experiment --" in text
    assert f" --log {command.log} " in text
    lines = command.results.read_text().splitlines()
    (command.folder / "report.md").unlink()
    assert command("--report", "--output", command.folder) == 0
    assert "| masked |" in text
    assert re.findall(r"(?m)^\|.*", command.report) == re.findall(r"(?m)^\|.*", text)
    assert command.of_log("--examples", "3", *FEW) == 0
    more = command.results.read_text().splitlines()
    assert more[: len(lines)] == lines
    assert sum('"answer"' in line for line in more) == 3


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no data; name at least one file with --hotpotqa"),
        (["--log", "LOG", "--methods", "magic"], "unknown method 'magic'; choose one"),
        (["--log", "LOG", "--output", "LOG"], "is not a folder; name one"),
    ],
)
def test_wrong_arguments_are_errors_with_their_reason(
    command: Command, arguments: list[str], message: str
) -> None:
    assert command(*(argument.replace("LOG", str(command.log)) for argument in arguments)) == 2
    shown = command.capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
