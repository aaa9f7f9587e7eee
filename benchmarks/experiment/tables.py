"""Tables in Markdown, and all results as a table for other tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiment.measures import ALL, cases
from benchmarks.experiment.results import ResultStore


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The rows of cells under the header."""
    lines = [
        f"|{''.join(f' {cell} |' if cell else ' |' for cell in row)}" for row in (header, *rows)
    ]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def rows(results: ResultStore) -> list[dict[str, Any]]:
    """A row for each answer and method, with all measures as columns."""
    return [
        {
            "example": case.answered.key,
            "method": method,
            "num_sources": len(case.answered.documents),
            "num_outliers": len(case.outliers),
            "context_tokens": case.answered.context_tokens,
            "noise": case.noise,
            **{measure.name: measure.of(case) for measure in ALL},
        }
        for method in results.methods()
        for case in cases(results, method)
    ]


def write_parquet(results: ResultStore, path: Path) -> Path:
    """Write the rows as Parquet; the path."""
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows(results)), path)
    return path
