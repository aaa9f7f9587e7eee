"""Peers against exact leave-one-out: the table of the page."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.experiment.measures import TOPS
from benchmarks.experiment.metrics import SourceScores, average_precision, captured
from benchmarks.experiment.tables import markdown_table
from benchmarks.outliers import outliers

Scores = Mapping[str, SourceScores]
"""Scores of the sources by the key of the case."""


@dataclass(frozen=True)
class Row:
    """A peer with its scores and seconds by the key of the case."""

    name: str
    scores: Scores
    seconds: Mapping[str, float]


def table(rows: Sequence[Row], truth: Scores) -> str:
    """A row for each peer; means over its answers, the median of its seconds."""
    header = ["library", "answers", "seconds, median", "mAP", *(f"captured, {k}" for k in TOPS)]
    return markdown_table(header, [_cells(row, truth) for row in rows])


def _cells(row: Row, truth: Scores) -> list[str]:
    judged = [(key, scores, truth[key]) for key, scores in row.scores.items() if key in truth]
    precision = [
        average_precision(scores, outliers([score or 0.0 for score in exact]))
        for _, scores, exact in judged
    ]
    shares = [[captured(scores, exact, top, key) for key, scores, exact in judged] for top in TOPS]
    return [
        row.name,
        str(len(row.scores)),
        f"{statistics.median(row.seconds.values()):.1f}" if row.seconds else "",
        *(_mean(values) for values in (precision, *shares)),
    ]


def _mean(values: Sequence[float | None]) -> str:
    defined = [value for value in values if value is not None]
    return f"{statistics.mean(defined):.2f}" if defined else ""
