"""Tables in Markdown, and all results as a table for other tools."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.experiment.measures import ALL, Measure, MeasuredCase, cases, summary
from benchmarks.experiment.metrics import Estimate
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


def write_measures(results: ResultStore, path: Path) -> Path:
    """Write every measure of every method as CSV, timed ones for each machine; the path."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["data set", "method", "measure", "machine", "answers", "value", "95 %"])
        for data_set, method in product(results.data_sets(), results.methods()):
            of_method = [*cases(results, method, data_set)]
            for measure in ALL:
                for machine, there in _by_machine(measure, of_method):
                    value = summary(measure, there)
                    if value is not None:
                        cells = _cells(value, measure.form)
                        writer.writerow([data_set, method, measure.name, machine, *cells])
    return path


def _cells(value: Estimate, form: str) -> tuple[str, str, str]:
    """The number of answers, the value and its interval."""
    shown, _, interval = format(value, form).partition(" ")
    return str(value.count), shown.replace(",", ""), interval.strip("[]").replace(", ", " to ")


def _by_machine(
    measure: Measure, of_method: Sequence[MeasuredCase]
) -> Iterator[tuple[str, list[MeasuredCase]]]:
    """All cases, or those of each machine where the measure depends on it."""
    machines = dict.fromkeys(case.scored.hardware for case in of_method) if measure.timed else [""]
    for machine in machines:
        there = [case for case in of_method if machine in ("", case.scored.hardware)]
        yield machine, there


def write_parquet(results: ResultStore, path: Path) -> Path:
    """Write the rows as Parquet; the path."""
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows(results)), path)
    return path
