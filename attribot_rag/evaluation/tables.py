"""The results as a table for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attribot_rag.evaluation.measures import COSTS, MEASURES, cases
from attribot_rag.evaluation.noise import ABOVE_NOISE, DIFFERENCE, noise
from attribot_rag.evaluation.results import ResultStore


def rows(results: ResultStore) -> list[dict[str, Any]]:
    """A row for each answer and method, with all measures as columns."""
    measures = (*MEASURES, *ABOVE_NOISE, DIFFERENCE, *COSTS)
    return [
        {
            "example": case.answered.key,
            "method": method,
            "num_sources": len(case.answered.documents),
            "num_outliers": len(case.outliers),
            "context_tokens": case.answered.context_tokens,
            "agreement": case.scored.agreement,
            "noise": noise(case),
            **{measure.name: measure.of(case) for measure in measures},
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
