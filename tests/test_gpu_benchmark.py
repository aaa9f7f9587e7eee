"""The benchmark for GPUs at its smallest size, on a CPU."""

import sys

import pytest

from benchmarks import gpu
from benchmarks.speed import WAYS


def test_every_way_scores_what_was_generated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--models", "tiny", "--device", "cpu", "--dtype", "float32"]
    sizes = ["--prompt-tokens", "300", "--response-tokens", "12"]
    monkeypatch.setattr(sys, "argv", ["gpu.py", *options, *sizes])
    gpu.main()
    output = capsys.readouterr().out
    assert "295 prompt tokens, 10 sources, 12 answer tokens" in output
    rows = [line.split(" | ") for line in output.splitlines() if line.startswith("| ")][1:]
    assert [row[0].removeprefix("| ") for row in rows] == list(WAYS)
    tokens = {row[0].removeprefix("| "): int(row[5]) for row in rows}
    exact_row = tokens["packed"] / 10  # of the 10 sources, the most decisive is scored exactly
    assert tokens["patching"] < tokens["auto"] <= tokens["masked"] + tokens["patching"] + exact_row
    assert tokens["masked"] < tokens["packed"]
    assert all(float(row[1]) > 0 for row in rows)
