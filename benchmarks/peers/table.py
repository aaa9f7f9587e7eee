"""Peers against exact leave-one-out: the table of the page."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from attribot_rag.evaluation.measures import TOPS
from attribot_rag.evaluation.metrics import SourceScores, average_precision, captured
from attribot_rag.evaluation.outliers import outliers
from attribot_rag.evaluation.tables import markdown_table

Scores = Mapping[str, SourceScores]
"""Scores of the sources by the key of the case."""


@dataclass(frozen=True)
class Row:
    """A peer with its results: scores and seconds by the key of the case, lines of its user's code.

    `truth` are the exact scores that judge it, where they are not those of the others.
    """

    name: str
    scores: Scores
    seconds: Mapping[str, float]
    lines: int | None
    shows: str
    truth: Scores | None = None


def table(rows: Sequence[Row], truth: Scores) -> str:
    """A row for each peer; means over its answers, the median of its seconds."""
    tops = [f"captured, {top}" for top in TOPS]
    header = ["library", "answers", "seconds, median", "mAP", *tops]
    return markdown_table(header, [_cells(row, row.truth or truth) for row in rows])


def uses(rows: Sequence[Row]) -> str:
    """A row for each peer: what it is to its user."""
    cells = [[row.name, "" if row.lines is None else str(row.lines), row.shows] for row in rows]
    return markdown_table(["library", "lines of code", "what its user sees"], cells)


def common(rows: Sequence[Row]) -> frozenset[str]:
    """The answers that all rows have which have any, and which are judged by the same scores."""
    keys = [frozenset(row.scores) for row in rows if row.scores and row.truth is None]
    return frozenset.intersection(*keys) if keys else frozenset()


def only(row: Row, keys: Collection[str]) -> Row:
    """The row over these answers."""
    scores = {key: row.scores[key] for key in row.scores if key in keys}
    seconds = {key: row.seconds[key] for key in row.seconds if key in keys}
    return Row(row.name, scores, seconds, row.lines, row.shows, row.truth)


def _cells(row: Row, truth: Scores) -> list[str]:
    judged = [(key, scores, truth[key]) for key, scores in row.scores.items() if key in truth]
    precision = [
        average_precision(scores, outliers([one or 0.0 for one in exact]))
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
    known = [value for value in values if value is not None]
    return f"{statistics.mean(known):.2f}" if known else ""
