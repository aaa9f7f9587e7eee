"""The notebooks run offline, and print what they show."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support.patience import scaled

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"


@pytest.mark.long
@pytest.mark.embedded
@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.ipynb")), ids=lambda file: file.stem)
def test_a_notebook_prints_what_it_shows(file: Path) -> None:
    """But for scores, seconds, bars and the processor's choices."""
    notebook = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]
    shown = printed(notebook)
    NotebookClient(notebook, timeout=int(scaled(600)), kernel_name="python3").execute()
    assert printed(notebook) == shown, "python docs/run_notebooks.py"
    assert any("text/html" in output.get("data", ()) for output in outputs(notebook))


def outputs(notebook: Any) -> list[dict[str, Any]]:
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def printed(notebook: Any) -> list[str]:
    text = "".join(output["text"] for output in outputs(notebook) if output.get("name") == "stdout")
    return re.sub(r"-?\d+(?:\.\d+)?|[█▉▊▋▌▍▎▏░]+|\(packed, [^)]*\)", "", text).split()
