"""The package as its README and docs/batch.md show it."""

import json
from pathlib import Path

import pytest
from support.actors import local
from support.examples import blocks_of
from support.scorers import RECORD

from attribot_batch import Statistics


@pytest.mark.parametrize("page", ["docs/batch.md", "integrations/attribot-batch/README.md"])
def test_a_page_s_code_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("answers.jsonl").write_text(json.dumps(RECORD) + "\n")
    names = {"attributor": local()}
    (code,) = blocks_of(page)
    exec(code, names)
    assert isinstance(names["statistics"], Statistics)
    assert Path("folder/results.jsonl").read_text().count("\n") == 1
