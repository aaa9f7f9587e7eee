"""Notebooks of the documentation, run offline as a reader would."""

import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from support.patience import scaled

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"


def run_notebook(name: str) -> tuple[str, list[dict[str, Any]]]:
    """What the cells print, as the file shows it, and the data of their values, in order."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    shown = _printed(notebook)
    NotebookClient(notebook, timeout=int(scaled(600)), kernel_name="python3").execute()
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    printed = _printed(notebook)
    assert _without_numbers(printed) == _without_numbers(shown), "python docs/run_notebooks.py"
    return printed, [one["data"] for one in outputs if one["output_type"] == "execute_result"]


def _printed(notebook: Any) -> str:
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    return "".join(
        one["text"] for one in outputs if one["output_type"] == "stream" and one["name"] == "stdout"
    )


def _without_numbers(text: str) -> list[str]:
    """Its words, without scores, seconds, bars and what the processor decides."""
    text = re.sub(r"-?\d+(?:\.\d+)?|[█▉▊▋▌▍▎▏░]+|\(packed, [^)]*\)", "", text)
    return text.split()
