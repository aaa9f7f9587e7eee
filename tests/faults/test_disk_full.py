"""A disk that is full while results are written: an error in one line, and nothing is lost."""

import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from experiment.test_results import ANSWERED, SCORED

from attribot_rag.cli import main
from benchmarks.experiment.results import ResultStore

FULL = Path("/dev/full")


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may grow beyond this number of bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("room", [0, 1, 40])
def test_results_that_were_written_before_stay(tmp_path: Path, room: int) -> None:
    path = tmp_path / "results.jsonl"
    results = ResultStore(path)
    results.add(ANSWERED, SCORED)
    later = replace(SCORED, method="masked", options="Masked()")
    with room_for(path.stat().st_size + room), pytest.raises(OSError, match="too large"):
        results.add(later)
    assert results.methods() == ResultStore(path).methods() == ["auto"]
    results.add(later)
    assert ResultStore(path).methods() == ["auto", "masked"]


@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")
def test_a_full_disk_is_an_error_in_one_line(
    tiny_model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "notes.md"
    file.write_text("The ship is red. It carries 84 people.")
    command = ["ask", "Who?", str(file), "--model", tiny_model, "--max-new-tokens", "3", "--json"]
    with FULL.open("w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert main(command) == 2
    error = capsys.readouterr().err
    assert error == "attribot-rag: the output cannot be written: No space left on device\n"
