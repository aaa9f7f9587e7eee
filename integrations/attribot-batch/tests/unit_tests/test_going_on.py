"""A batch that goes on: alone in its folder, with what was done, and with nothing else."""

import json
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.actors import local as attributor
from support.model_server import model_server
from support.patience import scaled, wait_until
from support.tiny_models import byte_level

from attribot_batch import run_batch
from attribot_rag import Attributor, Budget, VerdictOptions
from attribot_rag.cli import main
from attribot_rag.errors import InvalidInput

LOCAL = byte_level()
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
        preexec_fn=heed_ctrl_c,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def heed_ctrl_c() -> None:
    """Tests in the background of a script inherit that it is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


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


def heeds_ctrl_c(process: int) -> bool:
    """Whether a process catches it, by Linux."""
    told = Path(f"/proc/{process}/status").read_text()
    (caught,) = (line.split()[1] for line in told.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) & 1 << signal.SIGINT - 1)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_a_second_ctrl_c_ends_what_the_first_waits_for(held: Path, tiny_model: str) -> None:
    """Threads that ask a server cannot be ended, and Python waits for them when it exits."""
    with model_server(byte_level()) as server:
        arguments = (*WORDS, *HOLDING, "--server", server.url, "--tokenizer", tiny_model)
        with command(held, *arguments) as process:
            wait_until(lambda: len(numbers(held / "out/results.jsonl")) == 6)
            process.send_signal(signal.SIGINT)
            wait_until(lambda: not heeds_ctrl_c(process.pid))
            process.send_signal(signal.SIGINT)
            assert ended(process) == (-signal.SIGINT, "")


def log_of(folder: Path, *records: object) -> Path:
    return written(folder / "log.jsonl", records)


def records(count: int) -> list[dict[str, object]]:
    return [{**SHORT, "id": index} for index in range(count)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": Budget(seconds=50)}, "seconds was None, now it is 50"),
        ({"budget": Budget(tokens=10**6)}, "tokens was None, now it is 1000000"),
        ({"annotator": None}, "annotator was 'NumbersInDocuments.*', now it is None"),
        ({"method": "hierarchical"}, "method was 'leave_one_out', now it is 'hierarchical'"),
        ({"verdicts": VerdictOptions(min_effect=0.5)}, "verdicts was .*min_effect=0.5"),
        ({"is_reader": True}, "basis was 'cause', now it is 'reader'"),
    ],
)
def test_other_settings_are_not_mixed_in_silence(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    usual: dict[str, Any] = {"method": "leave_one_out", "progress": False}
    run_batch(Attributor(LOCAL, **usual), log_of(tmp_path, SHORT), tmp_path / "out")
    setting = json.loads((tmp_path / "out/batch.json").read_text())
    other, path = Attributor(LOCAL, **{**usual, **options}), log_of(tmp_path, SHORT, SHORT)
    with pytest.raises(InvalidInput, match=f"{said}.*--anyway"):
        run_batch(other, path, tmp_path / "out")
    assert numbers(tmp_path / "out/results.jsonl") == [0]
    assert run_batch(other, path, tmp_path / "out", anyway=True).answers == 2
    told = json.loads((tmp_path / "out/batch.json").read_text())
    assert told["earlier"] == [{**setting, "records": 1}]
    run_batch(other, path, tmp_path / "out")


def test_a_log_may_grow_but_what_is_done_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_batch(attributor(), log_of(tmp_path, *records(2)), out)
    assert run_batch(attributor(), log_of(tmp_path, *records(3)), out).answers == 3
    changed = [{**SHORT, "id": 0}, {**SHORT, "id": "changed"}, *records(4)[2:]]
    with pytest.raises(InvalidInput, match=r"record 1 of .*log\.jsonl .* was changed since"):
        run_batch(attributor(), log_of(tmp_path, *changed), out)
    with pytest.raises(InvalidInput, match=r"has 1 records, .* has outcomes of 3"):
        run_batch(attributor(), log_of(tmp_path, *records(1)), out)
    path = log_of(tmp_path, *changed)
    assert run_batch(attributor(), path, out, anyway=True).answers == 4
    assert [json.loads(line)["id"] for line in (out / "results.jsonl").open()] == [0, 1, 2, 3]


def test_the_rows_of_parquet_are_compared_too(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "log.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(records(2)), path)
    run_batch(attributor(), path, tmp_path / "out")
    parquet.write_table(pyarrow.Table.from_pylist(records(3)), path)
    assert run_batch(attributor(), path, tmp_path / "out").answers == 3
    parquet.write_table(pyarrow.Table.from_pylist(records(4)[1:]), path)
    with pytest.raises(InvalidInput, match="record 0 of"):
        run_batch(attributor(), path, tmp_path / "out")


GARBAGE = '{"number": 1, "digest": "'


@pytest.mark.parametrize(
    ("name", "place", "text"),
    [
        ("results.jsonl", 2, GARBAGE),
        ("results.jsonl", 2, "[1]"),
        ("results.jsonl", 2, '{"number": -1, "digest": "1", "summary": {}}'),
        ("results.jsonl", 2, '{"number": 1, "digest": "1", "error": {}}'),
        ("results.jsonl", 3, '{"number": 0, "digest": "1", "summary": {}}'),
        ("rejects.jsonl", 1, "\0\0\0"),
        ("rejects.jsonl", 1, '{"number": 2, "digest": "1", "error": {}}'),
        ("batch.json", 2, '{\n "input": }'),
        ("batch.json", 1, "[]"),
    ],
)
def test_a_file_that_is_broken_is_named_and_left_alone(
    tmp_path: Path, name: str, place: int, text: str
) -> None:
    path, out = log_of(tmp_path, *records(3), "no record"), tmp_path / "out"
    run_batch(attributor(), path, out)
    whole = (out / name).read_text()
    lines = whole.splitlines() if name != "batch.json" else text.splitlines()
    lines[place - 1] = text if name != "batch.json" else lines[place - 1]
    (out / name).write_text("".join(f"{line}\n" for line in lines))
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    with pytest.raises(InvalidInput, match=f"{name}, line {place}, is n.*nothing was changed"):
        run_batch(attributor(), path, out)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    if name == "batch.json":
        (out / name).unlink()
        with pytest.raises(InvalidInput, match=r"batch\.json .* it is not there.*--anyway"):
            run_batch(attributor(), path, out)
        run_batch(attributor(), path, out, anyway=True)
    else:
        lines = [line for line in lines if line != text]
        (out / name).write_text("".join(f"{line}\n" for line in lines))
        run_batch(attributor(), path, out)
    assert (numbers(out / "results.jsonl"), numbers(out / "rejects.jsonl")) == ([0, 1, 2], [3])


def test_the_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "results.jsonl").write_text("the results of something else")
    with pytest.raises(InvalidInput, match=r"batch\.json .* it is not there"):
        run_batch(attributor(), log_of(tmp_path, SHORT), out)
    assert (out / "results.jsonl").read_text() == "the results of something else"


class Meddles:
    """An annotator that writes into the results as another program might."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def annotate(self, sentences: Sequence[object]) -> list[list[Any]]:
        if self.path.exists():
            first = self.path.read_bytes().splitlines(keepends=True)[0]
            with self.path.open("ab") as file:
                file.write(first)
        return [[] for _ in sentences]


def test_the_sums_are_checked(tmp_path: Path) -> None:
    annotator = Meddles(tmp_path / "out/results.jsonl")
    meddled = Attributor(LOCAL, method="leave_one_out", annotator=annotator, progress=False)
    with pytest.raises(InvalidInput, match=r"results\.jsonl, line 2, .* it repeats record 0"):
        run_batch(meddled, log_of(tmp_path, SHORT, SHORT), tmp_path / "out")


def test_half_a_line_at_the_end_waits(tmp_path: Path) -> None:
    path, out = log_of(tmp_path, SHORT), tmp_path / "out"
    line = json.dumps({**SHORT, "id": "later"})
    for end in range(1, len(line), 40):
        path.write_text(f"{json.dumps(SHORT)}\n{line[:end]}")
        statistics = run_batch(attributor(), path, out)
        assert statistics.answers == 1 and "1 line waits" in statistics.to_text()
        told = json.loads((out / "statistics.json").read_text())
        assert (told["records"], told["rejected"], told["waits"]) == (1, 0, True)
    assert not (out / "rejects.jsonl").exists()
    path.write_text(f"{json.dumps(SHORT)}\n{line}")  # whole, though without a line break
    whole = run_batch(attributor(), path, out)
    assert whole.answers == 2 and "waits" not in whole.to_text()
    path.write_text(f"{json.dumps(SHORT)}\n{line}\n{{\n")
    assert run_batch(attributor(), path, out).rejected == 1  # nobody goes on with that line


def test_a_record_that_is_too_long_is_not_tokenized(tmp_path: Path) -> None:
    text = "The queen asked. " * 1_250_000
    path = log_of(tmp_path, {**SHORT, "id": "long", "documents": [text]}, SHORT)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    statistics = run_batch(attributor(), path, tmp_path / "out")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (statistics.answers, statistics.rejected) == (1, 1)
    (reject,) = (json.loads(line) for line in (tmp_path / "out/rejects.jsonl").open())
    assert "bytes, more than 4,000,000" in reject["error"]["message"]
    assert grown < 200_000  # KiB; tokenized, the line takes 4.7 GB
    assert run_batch(attributor(), path, tmp_path / "o", max_bytes=100).rejected == 1
    with pytest.raises(InvalidInput, match="max_bytes=0; use 1 or more"):
        run_batch(attributor(), path, tmp_path / "o", max_bytes=0)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "Infinity", "NaN"])
def test_a_number_that_json_does_not_know_is_not_changed(tmp_path: Path, number: str) -> None:
    path = tmp_path / "log.jsonl"
    document = f'{{"text": "The queen asked.", "metadata": {{"a": [{{"weight": {number}}}]}}}}'
    path.write_text(f'{{"question": "Who?", "response": "The queen", "documents": [{document}]}}\n')
    assert run_batch(attributor(), path, tmp_path / "out").rejected == 1
    (reject,) = (json.loads(line) for line in (tmp_path / "out/rejects.jsonl").open())
    assert re.search(r"documents\.0\.metadata\.a: .* is no number", reject["error"]["message"])


def test_nothing_in_a_name_reaches_the_terminal(tmp_path: Path) -> None:
    name = "a\x1b]0;owned\x07\u202eb\nc"
    record = {**SHORT, "documents": [{"text": "The queen asked.", "id": name}]}
    log_of(tmp_path, {**record, "answered_by": name})
    told = run_batch(attributor(), tmp_path / "log.jsonl", tmp_path / "out").to_text()
    assert "a␛]0;owned␇<U+202E>b c" in told
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", told)


@contextmanager
def others_rights() -> Iterator[None]:
    """Those of a user that is not root, who may write everywhere."""
    if os.getuid() == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(os.getuid())


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        path = log_of(folder, SHORT)
        (folder / "out").mkdir(mode=0o555)
        with others_rights():
            for out in (folder / "out", folder / "out/new", path):
                with pytest.raises(InvalidInput, match=f"{out}.* cannot be written: "):
                    run_batch(attributor(), path, out)


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644)])
def test_files_have_the_rights_that_the_user_s_umask_says(
    tmp_path: Path, umask: int, mode: int
) -> None:
    path = log_of(tmp_path, SHORT, "no record")
    earlier = os.umask(umask)
    try:
        run_batch(attributor(), path, tmp_path / "out", report=True, parquet=True)
    finally:
        os.umask(earlier)
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert {file.name for file in files} >= {"results.jsonl", "report.html", "outcomes.parquet"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {mode}


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "=cmd|'/C calc'!A0"])
def test_a_formula_stays_text_in_every_export(tmp_path: Path, formula: str) -> None:
    """None of them is CSV, in which a spreadsheet would run it: columns of Parquet have types."""
    import pyarrow
    from pyarrow import parquet

    document = {"text": "The queen asked.", "id": formula, "metadata": {"title": formula}}
    path = log_of(tmp_path, {**SHORT, "id": formula, "documents": [document]})
    run_batch(attributor(), path, tmp_path / "out", report=True, parquet=True)
    table = parquet.read_table(tmp_path / "out/outcomes.parquet")
    assert table.schema.field("id").type == pyarrow.string()
    (row,) = table.to_pylist()
    assert (row["id"], row["summary"]["documents"][0]["id"]) == (formula, formula)
    assert {file.suffix for file in (tmp_path / "out").rglob("*.*")} <= {
        *(".jsonl", ".json", ".html", ".parquet", ".lock")
    }


def test_a_wall_clock_that_jumps_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log_of(tmp_path, *records(3))
    run_batch(attributor(), path, tmp_path / "out")
    now, year = time.time(), 365 * 86_400
    jumps = cycle([now + year, now - year, 0.0])
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: next(jumps))
        run_batch(attributor(), path, tmp_path / "jumped", shown=True)
    results = [
        [json.loads(line)["document_scores"] for line in (tmp_path / name / "results.jsonl").open()]
        for name in ("out", "jumped")
    ]
    assert results[0] == results[1]
