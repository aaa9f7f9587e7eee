"""Code of the pages and the examples, run as it stands."""

import runpy
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def blocks_of(page: str) -> list[str]:
    """The page's Python, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [part.split("```")[0] for part in text.split("```python\n")[1:]]


def run_and_get(code: str, names: dict[str, Any]) -> Any:
    """Run the code with these names; the value of its last line."""
    *lines, last = code.splitlines()
    exec("\n".join(lines), names)
    return eval(last, names)


def check_readme(
    page: str, printed: str, summary: dict[str, Any], shown: str, *, numbers: bool = True
) -> None:
    """A README's program prints what it says; the page shows the summary's keys and, if it is of
    the same answer, its numbers."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert printed == text.split("prints\n\n```\n")[1].split("```")[0]
    for name in ("sentences", "documents", "sources"):
        for key, value in summary[name][0].items():
            assert f'"{key}":' in shown
            if numbers and name == "sentences" and isinstance(value, float):
                number = float(shown.split(f'"{key}": ')[1].split(",")[0])
                assert number == pytest.approx(value, abs=0.05)
    assert summary["sentences"][0]["verdict"] == "grounded"


def check_example(name: str, *words: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example prints these words, with citations; what it writes goes into the folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setattr("sys.argv", [name])
        patch.syspath_prepend(EXAMPLES)
        runpy.run_path(str(EXAMPLES / f"{name}.py"))
    printed = " ".join(capsys.readouterr().out.split())
    for text in (*words, "[1]"):
        assert text in printed
