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
HOLDING = """
from pathlib import Path

from attribot_batch import run_batch
from support.actors import holding

if __name__ == "__main__":
    run_batch(holding, Path("log.jsonl"), Path("out"), workers=2)
"""

_STARTING = 300  # seconds: processes import PyTorch, beside other tests


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def numbers(path: Path) -> list[int]:
    return [line["number"] for line in lines(path)] if path.exists() else []


def written(path: Path, records: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process of its own in this folder, which ends with the block."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
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
    _, said = process.communicate(timeout=scaled(240))
    return process.returncode, said


COUNT = 40
COMMAND = ("batch", "log.jsonl", "--output", "out", "--method", "leave_one_out")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The results of a log in the current folder."""
    written(tmp_path / "log.jsonl", records(COUNT))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "out/results.jsonl"


@pytest.mark.slow
def test_a_folder_has_one_batch_at_a_time(log: Path, tiny_model: str) -> None:
    words = (*COMMAND, "--model", tiny_model)
    with running(Path.cwd(), "-m", "attribot_rag", *words) as first:
        wait_until(lambda: len(numbers(log)) > 2, _STARTING)
        first.send_signal(signal.SIGSTOP)
        with running(Path.cwd(), "-m", "attribot_rag", *words) as second:
            assert ended(second) == (
                2,
                "attribot-rag: another batch writes to out; wait until it has ended, or pass "
                "another --output\n",
            )
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert 2 < len(numbers(log)) < COUNT
    assert main(words) == 0
    assert numbers(log) == list(range(COUNT))
    told = json.loads(Path("out/statistics.json").read_text())
    assert (told["records"], told["answers"]) == (COUNT, COUNT)


@pytest.fixture
def held(log: Path) -> Iterator[subprocess.Popen[str]]:
    """A batch with two workers, one of which is held by the first record; all else is done."""
    written(Path("log.jsonl"), [{**SHORT, "response": "The queen waits"}, *records(6)])
    Path("batch.py").write_text(HOLDING)
    with running(Path.cwd(), "batch.py") as process:
        wait_until(lambda: sorted(numbers(log)) == [1, 2, 3, 4, 5, 6], _STARTING)
        yield process


@pytest.mark.slow
def test_a_killed_worker_costs_what_it_was_doing(held: subprocess.Popen[str], log: Path) -> None:
    finished = log.read_text().splitlines()
    os.kill(int(Path("holder").read_text()), signal.SIGKILL)
    status, said = ended(held)
    assert status == 1 and "WorkerLost: a process that attributes answers has ended" in said
    assert log.read_text().splitlines() == finished
    assert run_batch(attributor(), Path("log.jsonl"), Path("out")).answers == 7
    assert numbers(log) == list(range(7))
    assert set(finished) < set(log.read_text().splitlines())


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_workers(held: subprocess.Popen[str], log: Path) -> None:
    finished = log.read_text()
    children = psutil.Process(held.pid).children(recursive=True)
    held.send_signal(signal.SIGINT)
    status, said = ended(held)
    assert status == -signal.SIGINT and said.endswith("\nKeyboardInterrupt\n")
    wait_until(lambda: not any(child.is_running() for child in children), 60)
    assert log.read_text() == finished


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_a_second_ctrl_c_ends_what_the_first_waits_for(log: Path, tiny_model: str) -> None:
    """Threads that ask a server cannot be ended, and Python waits for them when it exits."""
    with model_server(LOCAL) as server:
        words = (*COMMAND, "--server", server.url, "--tokenizer", tiny_model)
        with running(Path.cwd(), "-m", "attribot_rag", *words) as process:
            wait_until(lambda: len(numbers(log)) > 2, _STARTING)
            server.open.clear()
            process.send_signal(signal.SIGINT)
            wait_until(lambda: not heeds_ctrl_c(process.pid), 60)
            process.send_signal(signal.SIGINT)
            assert ended(process) == (-signal.SIGINT, "")
        server.open.set()


def heeds_ctrl_c(process: int) -> bool:
    """Whether a process catches it, by Linux."""
    told = Path(f"/proc/{process}/status").read_text()
    (caught,) = (line.split()[1] for line in told.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) & 1 << signal.SIGINT - 1)


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
        ({"method": "hierarchical"}, "method was 'leave_one_out', now it is 'hierarchical "),
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
    assert [line["id"] for line in lines(out / "results.jsonl")] == [0, 1, 2, 3]


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
    broken = text.splitlines()
    if name != "batch.json":
        broken = (out / name).read_text().splitlines()
        broken[place - 1] = text
    (out / name).write_text("".join(f"{line}\n" for line in broken))
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
        (out / name).write_text("".join(f"{line}\n" for line in broken if line != text))
        run_batch(attributor(), path, out)
    assert (numbers(out / "results.jsonl"), numbers(out / "rejects.jsonl")) == ([0, 1, 2], [3])


def test_the_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "results.jsonl").write_text("the results of something else")
    with pytest.raises(InvalidInput, match=r"batch\.json .* it is not there"):
        run_batch(attributor(), log_of(tmp_path, SHORT), out)
    assert (out / "results.jsonl").read_text() == "the results of something else"


class Meddled(Attributor):
    """Something else writes into the results while it attributes."""

    path: Path

    def attribute(self, *positional: Any, **options: Any) -> Any:
        if self.path.exists():
            first = self.path.read_bytes().splitlines(keepends=True)[0]
            with self.path.open("ab") as file:
                file.write(first)
        return super().attribute(*positional, **options)


def test_the_sums_are_checked(tmp_path: Path) -> None:
    meddled = Meddled(LOCAL, method="leave_one_out", progress=False)
    meddled.path = tmp_path / "out/results.jsonl"
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
    (reject,) = lines(tmp_path / "out/rejects.jsonl")
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
    (reject,) = lines(tmp_path / "out/rejects.jsonl")
    message = reject["error"]["message"]
    assert re.search(r"documents\.0\.metadata\.a: .* is not a JSON number", message)


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
    modes = {file: stat.S_IMODE(file.stat().st_mode) for file in files if file.stat().st_size}
    assert set(modes.values()) == {mode}  # the lock is empty, and is its library's


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
    results, jumped = (lines(tmp_path / name / "results.jsonl") for name in ("out", "jumped"))
    assert len(results) == len(jumped) == 3
    for result, other in zip(results, jumped, strict=True):
        assert result["document_scores"] == pytest.approx(other["document_scores"], abs=1e-3)
        assert result["summary"]["status"] == other["summary"]["status"]
