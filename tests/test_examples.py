"""What the examples show is what they print."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
def test_quickstart(capsys: pytest.CaptureFixture[str]) -> None:
    names = runpy.run_path(str(EXAMPLES / "quickstart.py"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "The lighthouse is 38 metres high."
    assert lines[1].endswith("nats  The lighthouse is 38 metres high.")
    assert len(lines) == 4
    assert names["attribution"].provenance.retokenized is False
    assert names["attribution"].provenance.prefilled_tokens == 0
