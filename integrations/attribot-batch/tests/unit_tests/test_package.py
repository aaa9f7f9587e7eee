"""The package as docs/batch.md shows it."""

import json
from pathlib import Path

import pytest
from support.actors import local
from support.examples import blocks_of
from support.scorers import RECORD

from attribot_batch import Statistics


def test_the_page_s_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("answers.jsonl").write_text(json.dumps(RECORD) + "\n")
    names = {"attributor": local()}
    (code,) = blocks_of("docs/batch.md")
    exec(code, names)
    assert isinstance(names["statistics"], Statistics)
    assert Path("folder/results.jsonl").read_text().count("\n") == 1
