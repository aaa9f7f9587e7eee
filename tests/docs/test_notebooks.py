"""The notebooks run offline, and show the results that their text names."""

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
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "quickstart",
            ["The lighthouse is 38 metres high. [1]", "grounded"],
        ),
        (
            "why-did-it-say-that",
            [
                "grounded ['The tower of the church in Dunholt is 52 metres high.']",
                "Leonardo da Vinci. (not from the documents)\nunsupported []",
                "[1 or 2]",
                "without the first: The ferry Kittiwake carries up to 84 passengers.",
                "nats from: Fleet list of 1987.",
                "without it: The ferry Kittiwake carries up to 84 passengers.",
            ],
        ),
        (
            "langchain",
            ["38 metres high", "[1]", "grounded", "['answer', 'documents', 'attribution']"],
        ),
        (
            "llama_index",
            ["The lighthouse is 38 metres high. [1]", "grounded"],
        ),
    ],
)
def test_a_notebook_runs(name: str, expected: list[str]) -> None:
    printed, shown = run_notebook(name)
    values = "\n".join(output.get("text/plain", "") for output in shown)
    for text in expected:
        assert text in printed + values
    assert any("text/html" in output for output in shown)


def run_notebook(name: str) -> tuple[str, list[dict[str, Any]]]:
    """The cells' printed text, as the file shows it, and the data of their values, in order."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    shown = _printed(notebook)
    NotebookClient(notebook, timeout=int(scaled(600)), kernel_name="python3").execute()
    printed = _printed(notebook)
    assert _without_numbers(printed) == _without_numbers(shown), "python docs/run_notebooks.py"
    values = [
        output["data"] for output in _outputs(notebook) if output["output_type"] == "execute_result"
    ]
    return printed, values


def _outputs(notebook: Any) -> list[dict[str, Any]]:
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def _printed(notebook: Any) -> str:
    return "".join(
        output["text"] for output in _outputs(notebook) if output.get("name") == "stdout"
    )


def _without_numbers(text: str) -> list[str]:
    """The text's words, without scores, seconds, bars and the processor's choices."""
    text = re.sub(r"-?\d+(?:\.\d+)?|[█▉▊▋▌▍▎▏░]+|\(packed, [^)]*\)", "", text)
    return text.split()
