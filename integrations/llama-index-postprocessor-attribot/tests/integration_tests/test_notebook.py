"""The notebook about LlamaIndex runs, offline, and shows what caused its answers."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from support.patience import scaled

NOTEBOOK = Path(__file__).parents[4] / "docs" / "notebooks" / "llama_index.ipynb"


@pytest.mark.enable_socket  # of the kernel, on this machine
def test_the_notebook_runs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=int(scaled(120)), kernel_name="python3").execute()
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    printed = " ".join(one["text"] for one in outputs if one["output_type"] == "stream")
    assert "The lighthouse is 38 metres high. [1]" in printed
    shown = [one["data"] for one in outputs if one["output_type"] == "execute_result"]
    assert "grounded" in shown[0]["text/plain"]
    assert "text/html" in shown[1]
    assert len(eval(shown[2]["text/plain"])) == 2
