"""The answers of a batch that want attention, and its statistics, as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attribot_rag.batch.statistics import HARMFUL, Statistics
from attribot_rag.batch.worklist import KINDS, MOST, Item
from attribot_rag.display.html import environment, part


def render_report(
    statistics: Statistics,
    setting: Mapping[str, Any],
    *,
    records: int,
    rejects: Mapping[str, int],
    items: Sequence[Item] = (),
) -> str:
    """A page of its own, which loads nothing; nothing in a document's name takes effect.

    `rejects` are the numbers of rejected records by type of error, `items` the sentences to
    look at, whose answers' pages are linked.
    """
    return (
        environment("batch")
        .get_template("report.html")
        .render(
            style=part("page.css") + part("report.css", "batch"),
            told={**statistics.to_dict(), "records": records, "rejected": sum(rejects.values())},
            items=items,
            kinds=KINDS,
            counts=Counter(item.kind for item in items),
            lists=[
                ("Cited documents", statistics.cited),
                ("Never cited", statistics.never_cited),
                ("Harmful", statistics.harmful),
            ],
            rejects=sorted(rejects.items()),
            most=MOST,
            harmful=-HARMFUL,
            **{name: setting[name] for name in ("input", "model", "method")},
        )
    )
