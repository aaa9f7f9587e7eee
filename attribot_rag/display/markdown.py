"""An attribution as Markdown, and its answer as plain text with citations."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from operator import itemgetter

from jinja2 import Environment, PackageLoader, Template

from attribot_rag.context.intervals import Interval, merge, subtract
from attribot_rag.display.escaping import escape_markdown, on_one_line
from attribot_rag.display.report import CitedDocument, ellipsize, report_on
from attribot_rag.result import Marker, Result
from attribot_rag.result.placing import Place, place_below_json, place_of, value_at

_SOURCE_LENGTH = 200
_VALUE_LENGTH = 80
_BETWEEN_MARKERS = re.compile(r"[ \t]*(?:[,;、，；&]|and\b)?[ \t]*")


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
    markers: bool = True,
    sources: bool = False,
    escape: Callable[[str], str] = str,
    link: Callable[[int, int], str] | None = None,
) -> str:
    """The answer as plain text with the numbers that each sentence cites, as in '... high. [1]'.

    Without the numbers and remarks, it is the answer to the character. They stand where Markdown
    shows them and changes nothing else: in the last cell of a row, after a block of code. JSON
    stays what it is: a line for each of its values follows it. Numbers are those of `cite`, and of
    every other rendering of the attribution.

    Args:
        attribution: The result whose answer is cited.
        remarks: Whether verdicts that the numbers do not show, and values that the cited sources do
            not have, stand in words, as in '... blue. (not caused by the context)'.
        markers: Whether the markers that the model wrote itself stay.
        sources: Whether the cited documents follow, a line for each, with what is cited of them.
        escape: Applied to every text, for a text with links, such as HTML.
        link: Writes each number, for such a text: it gets the sentence's index and the number.
    """
    citations = []
    report = report_on(attribution, top=0)
    for index, passage in enumerate(report.passages):
        written = []
        for mark in passage.marks:
            numbers = (link(index, number) if link else str(number) for number in mark.numbers)
            written.append(f"{escape('[')}{' or '.join(numbers)}{escape(']')}")
        if remarks:
            remarks_in_words = filter(None, (passage.remark, passage.check))
            written += [escape(f"({remark})") for remark in remarks_in_words]
        span = passage.end - len(passage.text), passage.end
        citations.append((span, " ".join(written)))
    text = with_citations(attribution, citations, markers=markers, escape=escape)
    return with_legend(text, report.documents, escape) if sources else text


def with_legend(
    text: str, documents: Sequence[CitedDocument], escape: Callable[[str], str] = str
) -> str:
    """The text, then a line for each document that it cites."""
    if not documents:
        return text
    gap = "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{escape(chr(10).join(map(_legend_line, documents)))}\n"


def _legend_line(document: CitedDocument) -> str:
    quotes = (f'"{on_one_line(quote)}"' for quote in document.quotes)
    return f"[{document.number}] {on_one_line(document.label)}: {' '.join(quotes)}"


def with_citations(
    attribution: Result,
    citations: Iterable[tuple[Interval, str]],
    *,
    markers: bool,
    escape: Callable[[str], str] = str,
) -> str:
    """The answer with what is written after the sentences at these characters, in order.

    Nothing else is changed. What is written of the values of JSON follows it, a line for each. A
    text that is escaped is no Markdown, so there a citation follows its sentence wherever it ends.
    """
    answer = attribution.response
    removed = [] if markers else _removed(answer, attribution.markers)
    pieces = subtract((0, len(answer)), removed)
    kept = [index for start, end in pieces for index in range(start, end)]
    text = "".join(answer[index] for index in kept)
    placed = []
    values: dict[Place, list[str]] = {}
    for (start, end), written in citations:
        if not written:
            continue
        start, end = bisect_left(kept, start), len(text[: bisect_left(kept, end)].rstrip())
        place = place_of(text, end) if escape is str else Place(end)
        if escape is str and (below := place_below_json(text, start, end)) is not None:
            value = ellipsize(on_one_line(value_at(text, start, end)), _VALUE_LENGTH)
            values.setdefault(below, []).append(f"{value} {written}")
        else:
            placed.append((place.position, f"{place.before}{written}{place.after}"))
    for place, lines in values.items():
        next_line = "\n" + place.before.rpartition("\n")[2]
        placed.append((place.position, f"{place.before}{next_line.join(lines)}{place.after}"))
    placed.sort(key=itemgetter(0))
    # Citations are escaped already: a character that nobody uses stands for each meanwhile.
    unused = next(mark for mark in map(chr, range(0xE000, 0xF900)) if mark not in text)
    edges = [0, *(position for position, _ in placed), len(text)]
    marked = escape(unused.join(text[start:end] for start, end in pairwise(edges)))
    inserted = (written for _, written in placed)
    return re.sub(unused, lambda _: next(inserted), marked)


def _removed(text: str, markers: Sequence[Marker]) -> list[Interval]:
    """The characters of the model's markers, of what parts them, and of the space before them."""
    runs: list[Interval] = []
    for start, end in merge((marker.start, marker.end) for marker in markers):
        if runs and _BETWEEN_MARKERS.fullmatch(text, runs[-1][1], start):
            start = runs.pop()[0]
        runs.append((start, end))
    removed = []
    for start, end in runs:
        begins_line = not text[:start].rpartition("\n")[2].strip()
        ends_line = not text[end:].partition("\n")[0].strip()
        if begins_line and not ends_line:
            end += len(text[end:]) - len(text[end:].lstrip(" \t"))
        else:
            start = len(text[:start].rstrip() if begins_line else text[:start].rstrip(" \t"))
        removed.append((start, end))
    return merge(removed)


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
