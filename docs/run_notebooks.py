"""Run the notebooks, and keep what their cells print and show as text.

python docs/run_notebooks.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "notebooks"
SHOWN = ("text/markdown", "text/plain")


def kept(outputs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What is printed in one piece, and values, without pages and progress."""
    printed = ""
    for output in outputs:
        if output["output_type"] == "stream":
            printed += output["text"] if output["name"] == "stdout" else ""
        elif value := next(filter(None, (output["data"].get(kind) for kind in SHOWN)), None):
            if printed:
                yield _stream(printed)
                printed = ""
            kind = next(kind for kind in SHOWN if output["data"].get(kind) == value)
            yield {"output_type": "display_data", "data": {kind: value}, "metadata": {}}
    if printed:
        yield _stream(printed)


def _stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def main() -> None:
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = [nbformat.from_dict(output) for output in kept(cell.outputs)]
                cell.execution_count = None
                cell.metadata.pop("execution", None)
        notebook.metadata.pop("language_info", None)
        path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
