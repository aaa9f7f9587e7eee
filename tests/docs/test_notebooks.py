"""The notebooks run offline, and show what their text says."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from support.patience import scaled

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("quickstart", ["The lighthouse is 38 metres high. [1]", "grounded"]),
        (
            "why-did-it-say-that",
            [
                "grounded ['The tower of the church in Dunholt is 52 metres high.']",
                "Leonardo da Vinci. (not from the context)\nunsupported []",
                "[1 or 2]",
                "without the first: The ferry Kittiwake carries up to 84 passengers.",
                "nats from: Fleet list of 1987.",
                "without it: The ferry Kittiwake carries up to 84 passengers.",
            ],
        ),
    ],
)
def test_a_notebook_runs(name: str, expected: list[str]) -> None:
    path = FOLDER / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=int(scaled(600)), kernel_name="python3").execute()
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    printed = "".join(one["text"] for one in outputs if one["output_type"] == "stream")
    for text in expected:
        assert text in printed
    assert any("text/html" in one.get("data", ()) for one in outputs)
