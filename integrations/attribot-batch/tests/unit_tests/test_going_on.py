"""A batch that goes on: alone in its folder, with what was done, and with nothing else."""

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.actors import local as attributor
from support.model_server import model_server
from support.patience import scaled, wait_until
from support.scorers import RECORD
from support.tiny_models import byte_level

from attribot_batch import run_batch
from attribot_rag import Attributor, Budget, NumbersInDocuments, VerdictOptions
from attribot_rag.cli import main
from attribot_rag.errors import InvalidInput

SHORT = {"documents": ["The queen asked."], "question": "Who?", "response": "The queen"}
HELD = {**SHORT, "response": "The queen waits"}
# An annotator that says what it sees, and holds the answer that waits until it may go.
ANNOTATOR = """
import os, time
from pathlib import Path

class Holds:
    def annotate(self, sentences):
        with open("seen", "a") as seen:
            seen.write(f"{os.getpid()} {sentences[0].text}\\n")
        while "waits" in sentences[0].text and not Path("go").exists():
            time.sleep(0.05)
        return [[] for sentence in sentences]
"""


def numbers(path: Path) -> list[int]:
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [json.loads(line)["number"] for line in lines]


def written(path: Path, records: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@contextmanager
def command(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`attribot-rag batch` as a process of its own in this folder, which ends with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "attribot_rag", "batch", *arguments],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The status with which it ended by itself, and what it said."""
    _, said = process.communicate(timeout=scaled(60))
    return process.returncode, said


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the annotator, and a log that begins with the answer that waits."""
    (tmp_path / "holding.py").write_text(ANNOTATOR)
    written(tmp_path / "log.jsonl", [HELD, *[{**SHORT, "id": index} for index in range(1, 7)]])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def seen(folder: Path) -> list[str]:
    path = folder / "seen"
    return path.read_text().splitlines() if path.exists() else []


WORDS = ("log.jsonl", "--output", "out", "--method", "leave_one_out")
HOLDING = ("--annotator", "holding:Holds")


@pytest.mark.slow
def test_a_folder_has_one_batch_at_a_time(held: Path, tiny_model: str) -> None:
    arguments = (*WORDS, *HOLDING, "--model", tiny_model)
    with command(held, *arguments) as first:
        wait_until(lambda: len(seen(held)) == 1)
        with command(held, *arguments) as second:
            status, said = ended(second)
            assert status == 2
            assert said == (
                "attribot-rag: another batch writes to out; wait until it has ended, or pass "
                "another --output\n"
            )
        first.send_signal(signal.SIGKILL)
        first.wait()
    (held / "go").touch()
    assert main(["batch", *arguments]) == 0
    assert numbers(held / "out/results.jsonl") == list(range(7))
    told = json.loads((held / "out/statistics.json").read_text())
    assert (told["records"], told["answers"]) == (7, 7)


@pytest.mark.slow
def test_a_killed_worker_costs_what_it_was_doing(held: Path, tiny_model: str) -> None:
    arguments = (*WORDS, *HOLDING, "--model", tiny_model)
    results = held / "out/results.jsonl"
    with command(held, *arguments, "--workers", "2") as process:
        wait_until(lambda: len(numbers(results)) == 6)
        assert sorted(numbers(results)) == [1, 2, 3, 4, 5, 6]
        (holder,) = (int(line.split()[0]) for line in seen(held) if "waits" in line)
        os.kill(holder, signal.SIGKILL)
        status, said = ended(process)
    assert status == 2 and "the same call continues from there" in said
    lines = results.read_text().splitlines()
    (held / "go").touch()
    assert main(["batch", *arguments]) == 0
    assert numbers(results) == list(range(7))
    assert set(lines) < set(results.read_text().splitlines())
    assert len(seen(held)) == 8  # the one that was lost, again


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_workers(held: Path, tiny_model: str) -> None:
    arguments = (*WORDS, *HOLDING, "--model", tiny_model, "--workers", "2")
    with command(held, *arguments) as process:
        wait_until(lambda: len(numbers(held / "out/results.jsonl")) == 6)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        assert ended(process) == (130, "")
        wait_until(lambda: not any(child.is_running() for child in children))


@pytest.mark.slow
def test_a_second_ctrl_c_does_not_wait_for_a_server(held: Path, tiny_model: str) -> None:
    with model_server(byte_level()) as server:
        served = ("--server", server.url, "--tokenizer", tiny_model)
        with command(held, *WORDS, *served) as process:
            wait_until(lambda: bool(server.bodies))
            server.open.clear()
            wait_until(lambda: len(server.bodies) > server.bodies.count({}) + 1)
            process.send_signal(signal.SIGINT)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1)
            process.send_signal(signal.SIGINT)
            status, said = ended(process)
            assert status in (130, -signal.SIGINT) and "Traceback" not in said
            server.open.set()
