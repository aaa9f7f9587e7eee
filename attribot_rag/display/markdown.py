"""An attribution as Markdown, and its answer as plain text with citations."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from operator import itemgetter

from jinja2 import Environment, PackageLoader, Template

from attribot_rag.context.text import Interval, merge, subtract
from attribot_rag.display.own_markers import Markers
from attribot_rag.display.report import CitedDocument, ellipsize, report_on
from attribot_rag.result import Provenance, Result
from attribot_rag.result.answer_text import escape_markdown, on_one_line
from attribot_rag.result.citations import Place, place_below_json, place_of, value_at
from attribot_rag.result.remarks import who_read

_SOURCE_LENGTH = 200
_VALUE_LENGTH = 80


def render_markdown(attribution: Result, *, top: int = 5) -> str:
    """The same as `render_table` shows, with a table in GitHub's syntax.

    Nothing in a document or an answer takes effect as Markdown or HTML.
    """
    text = _template().render(report=report_on(attribution, top=top))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def render_cited(
    attribution: Result,
    *,
    remarks: bool = True,
    markers: Markers = "audited",
    sources: bool = False,
) -> str:
    """The answer as plain text with the numbers that each sentence cites, as in '... high. [1]'.

    Without the numbers and remarks, and but for the model's own markers, it is the answer to the
    character. They stand where Markdown shows them and changes nothing else: in the last cell of a
    row, after a block of code. JSON stays what it is: a line for each of its values follows it.
    Numbers are those of `cite`, and of every other rendering of the attribution.

    Args:
        attribution: The result whose answer is cited.
        remarks: Whether what the numbers do not show stands in words, as in '... blue. (not in the
            3 passages found)', and a last line says who read an answer of another model.
        markers: What becomes of the markers that the model wrote itself: 'audited' (one that the
            audit supports is the citation, a measured citation stands for any other), 'written'
            (all stay, beside the citations) or 'removed'.
        sources: Whether the cited documents follow, a line for each, with what is cited of them.
    """
    citations = []
    report = report_on(attribution, top=0, markers=markers)
    for passage in report.passages:
        marks = passage.shown_marks if remarks else passage.marks
        written = [f"[{mark}]" for mark in marks]
        if remarks:
            written += [f"({remark})" for remark in passage.remarks]
        span = passage.end - len(passage.text), passage.end
        citations.append((span, " ".join(written)))
    removed = merge(chain.from_iterable(passage.removed for passage in report.passages))
    text = with_citations(attribution.response, citations, removed)
    if remarks:
        text = with_reader(text, attribution.provenance)
    return with_legend(text, report.documents) if sources else text


def with_reader(text: str, provenance: Provenance) -> str:
    """The text, then a line on who read it where another model gave it."""
    line = who_read(provenance)
    return f"{text.rstrip()}\n\n({line})" if line else text


def with_legend(text: str, documents: Sequence[CitedDocument]) -> str:
    """The text, then a line for each document that it cites."""
    if not documents:
        return text
    gap = "\n" if text.endswith("\n") else "\n\n"
    lines = "\n".join(map(_legend_line, documents))
    return f"{text}{gap}{lines}\n"


def _legend_line(document: CitedDocument) -> str:
    quotes = (f'"{on_one_line(quote)}"' for quote in document.quotes)
    return f"[{document.mark}] {on_one_line(document.label)}: {' '.join(quotes)}"


def with_citations(
    answer: str,
    citations: Iterable[tuple[Interval, str]],
    removed: Sequence[Interval] = (),
) -> str:
    """The answer with what is written after the sentences at these characters, in order.

    Nothing else is changed, but that the characters `removed` are left out. What is written of the
    values of JSON follows it, a line for each.
    """
    pieces = subtract((0, len(answer)), removed)
    kept = [index for start, end in pieces for index in range(start, end)]
    text = "".join(answer[index] for index in kept)
    placed = []
    values: dict[Place, list[str]] = {}
    for (start, end), written in citations:
        if not written:
            continue
        start, end = bisect_left(kept, start), len(text[: bisect_left(kept, end)].rstrip())
        place = place_of(text, end)
        if (below := place_below_json(text, start, end)) is not None:
            value = ellipsize(on_one_line(value_at(text, start, end)), _VALUE_LENGTH)
            values.setdefault(below, []).append(f"{value} {written}")
        else:
            placed.append((place.position, f"{place.before}{written}{place.after}"))
    for place, lines in values.items():
        next_line = "\n" + place.before.rpartition("\n")[2]
        placed.append((place.position, f"{place.before}{next_line.join(lines)}{place.after}"))
    placed.sort(key=itemgetter(0))
    for position, written in reversed(placed):
        text = f"{text[:position]}{written}{text[position:]}"
    return text


@cache
def _template() -> Template:
    loader = PackageLoader("attribot_rag", "display")
    environment = Environment(loader=loader, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        markdown=escape_markdown,
        inline=lambda text: escape_markdown(on_one_line(text)),
        shortened=lambda text: ellipsize(on_one_line(text), _SOURCE_LENGTH),
    )
    return environment.get_template("attribution.md.jinja")
