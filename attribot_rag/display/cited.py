"""The answer as plain text with its citations."""

from __future__ import annotations

from attribot_rag.attribution import Attribution
from attribot_rag.display.report import report_on


def render_cited(attribution: Attribution) -> str:
    """The answer with the numbers of the documents that each sentence cites, as in '... high. [1]'.

    Numbers are those of `cite`, and of every other way of showing the attribution.
    """
    pieces = []
    for passage in report_on(attribution, top=0).passages:
        marks = "".join(f" [{mark}]" for mark in passage.marks)
        pieces.append(f"{passage.text}{marks}{passage.space}")
    return "".join(pieces).strip()
