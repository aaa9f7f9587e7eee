"""Notebooks of the documentation, run offline as a reader would."""

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from support.patience import scaled

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"


def run_notebook(name: str) -> tuple[str, list[dict[str, Any]]]:
    """What the cells print, and the data of their values, in order."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=int(scaled(600)), kernel_name="python3").execute()
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    printed = "".join(one["text"] for one in outputs if one["output_type"] == "stream")
    return printed, [one["data"] for one in outputs if one["output_type"] == "execute_result"]
