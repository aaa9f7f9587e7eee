"""The element's script, also as the wheel has it."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from attribot_rag.display import element_script

ROOT = Path(__file__).parents[2]
FOLDER = "attribot_rag/display/html"


def test_the_script_is_small_and_loads_nothing() -> None:
    script = element_script()
    assert len(script.encode()) < 66_500
    for word in ("import(", "fetch(", "XMLHttpRequest", "@import", "url(", "innerHTML", "</script"):
        assert word not in script


@pytest.mark.slow
def test_the_wheel_has_the_script_and_its_types(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        assert archive.read(f"{FOLDER}/attribot-answer.js").decode() == element_script()
        assert f"{FOLDER}/attribot-answer.d.ts" in archive.namelist()
