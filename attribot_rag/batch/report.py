"""What a batch says of the answers and of the documents, as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from attribot_rag.batch.statistics import HARMFUL, Statistics
from attribot_rag.display.html import environment, page_assets

_MOST = 200
_TABLE = Markup("""
.attribot-table { overflow-x: auto; margin: 0 0 1rem; }
.attribot-table table { border-collapse: collapse; }
.attribot-table tr * { border-bottom: 1px solid var(--line); padding: 0.2rem 0.8rem; }
.attribot-table th { text-align: start; font-weight: 400; overflow-wrap: anywhere; }
.attribot-table td { text-align: end; font-variant-numeric: tabular-nums; }
""")


def render_report(
    statistics: Statistics,
    setting: Mapping[str, Any],
    *,
    records: int,
    rejects: Mapping[str, int],
) -> str:
    """A page of its own, which loads nothing; nothing in a document's name takes effect.

    `rejects` are how many records were rejected for each type of error.
    """
    style, _ = page_assets()
    return (
        environment("batch")
        .get_template("report.html")
        .render(
            style=style + _TABLE,
            told={**statistics.to_dict(), "records": records, "rejected": sum(rejects.values())},
            lists=[
                ("Cited documents", statistics.cited),
                ("Never cited", statistics.never_cited),
                ("Harmful", statistics.harmful),
            ],
            rejects=sorted(rejects.items()),
            most=_MOST,
            harmful=-HARMFUL,
            **{name: setting[name] for name in ("input", "model", "method")},
        )
    )
