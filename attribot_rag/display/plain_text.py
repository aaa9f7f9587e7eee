"""An attribution in a terminal, as Markdown, and as plain text with citations."""

from __future__ import annotations

import io
import re
import shutil
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import TextIO

from jinja2 import Environment, PackageLoader, Template
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attribot_rag.context.text import Interval, merge, subtract
from attribot_rag.display.report import (
    CitedDocument,
    ListedSource,
    Markers,
    Report,
    ellipsize,
    name_of,
    report_on,
)
from attribot_rag.result import Counterfactual, Provenance, Result, cite
from attribot_rag.result.answer_text import escape_markdown, on_one_line, visible
from attribot_rag.result.citations import Mark, Place, place_below_json, place_of, value_at
from attribot_rag.result.remarks import THE_DOCUMENTS, who_read

_MIN_WIDTH = 40
_UNWRAPPED = 100_000  # columns if the output is no terminal
_LABEL_LENGTH = 100
_SOURCE_LENGTH = 200
_VALUE_LENGTH = 80


def render_table(
    attribution: Result, *, top: int = 5, width: int | None = None, color: bool = False
) -> str:
    """The answer with citations, what it cites, and its `top` sources with their scores.

    With `top=0`, there are no figures. `width` is in columns, at least 40, by default the
    terminal's. With `color`, the text has ANSI colours. It never has a control character of a
    document or an answer.
    """
    columns = width or shutil.get_terminal_size().columns
    return _render(_blocks(report_on(attribution, top=top)), columns, color)


def print_table(
    attribution: Result, *, top: int = 5, texts: str = THE_DOCUMENTS, file: TextIO | None = None
) -> None:
    """Write the text of `render_table` to `file`: to stdout by default, in colour to a terminal.

    `texts` is what people call the documents.
    """
    _print(_blocks(report_on(attribution, top=top, texts=texts)), file)


def print_counterfactual(
    attribution: Result, counterfactual: Counterfactual, *, file: TextIO | None = None
) -> None:
    """Write the answer without some documents."""
    _print(_without(attribution, counterfactual), file)


def _print(blocks: Iterable[RenderableType], file: TextIO | None) -> None:
    console = Console(file=file)
    color = bool(console.color_system) and not console.no_color and not console.legacy_windows
    columns = console.width if console.is_terminal else _UNWRAPPED
    console.file.write(_render(blocks, columns, color))


def _render(blocks: Iterable[RenderableType], columns: int, color: bool) -> str:
    """The blocks, with an empty line after each."""
    console = Console(
        file=io.StringIO(),
        width=max(columns, _MIN_WIDTH),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
    )
    with console.capture() as capture:
        console.print(*(Group(block, "") for block in blocks), sep="\n")
    return "\n".join(line.rstrip() for line in capture.get().split("\n"))


def _without(attribution: Result, counterfactual: Counterfactual) -> Iterator[RenderableType]:
    left_out, response = {*counterfactual.documents}, counterfactual.response
    answer = Text(visible(response) or "(no answer)", overflow="fold")
    is_same = response.split() == attribution.response.split()
    says = "gives the same answer" if is_same else "answers"
    text = Text(f"Without {_names(attribution, left_out)}, the model {says}:", style="dim")
    yield Group(text, answer)
    cited = {index for sentence in cite(attribution) for index in sentence.source_ids}
    holders = [{*attribution.sources[index].documents} for index in cited]
    if others := set[int]().union(*(held - left_out for held in holders if held & left_out)):
        yield Text(f"The same is in {_names(attribution, others)}; any of these is enough.")
    if counterfactual.notes:
        yield _warnings(counterfactual.notes)


def _names(attribution: Result, documents: Iterable[int]) -> str:
    names = (name_of(attribution.documents[index]) for index in sorted(documents))
    return " and ".join(dict.fromkeys(names))


def _blocks(report: Report) -> Iterator[RenderableType]:
    if report.trust:
        yield Text(report.trust, style="dim")
    yield _answer(report)
    if report.documents:
        yield _citations(report.documents)
    if report.nothing_cited:
        yield Text(report.nothing_cited, style="yellow")
    if report.warnings:
        yield _warnings(report.warnings)
    if report.sources:
        yield Group(Text(report.heading, style="bold"), _sources(report.sources))
    for line in filter(None, (report.legend, report.provenance)):
        yield Text(on_one_line(line), style="dim")


def _answer(report: Report) -> RenderableType:
    """The answer. The first citation of a document has its title."""
    answer = Text(overflow="fold")
    titles = {document.number: document.title for document in report.documents}
    for passage in report.passages:
        answer.append(visible(passage.text))
        for mark in passage.shown_marks:
            answer.append(f" [{' or '.join(_named(mark, titles))}]", style="cyan")
        for remark in passage.remarks:
            answer.append(f" ({remark})", style="yellow")
        answer.append(visible(passage.space))
    answer.rstrip()
    return answer


def _named(mark: Mark, titles: dict[int, str]) -> Iterator[str]:
    """The labels of a mark, with the titles of the numbers that have one here."""
    for number, label in zip(mark.numbers, map(visible, mark.labels), strict=True):
        title = titles.pop(number, "")
        yield f"{label} {title}" if title not in ("", label) else label


def _citations(documents: Iterable[CitedDocument]) -> RenderableType:
    grid = _grid()
    for document in documents:
        cells = [Text(document.title, style="dim", overflow="fold")] if document.title else []
        cells += [Text(f"“{on_one_line(quote)}”", overflow="fold") for quote in document.quotes]
        grid.add_row(Text(f"[{_label(document.mark)}]", style="cyan"), Group(*cells))
    return grid


def _sources(sources: Iterable[ListedSource]) -> RenderableType:
    grid = _grid()
    for source in sources:
        text = Text(ellipsize(on_one_line(source.text), _SOURCE_LENGTH), overflow="fold")
        mark = f"[{_label(str(source.mark))}] " if source.mark else ""
        where = Text(overflow="fold").append(mark, style="cyan")
        grid.add_row(source.score, Group(text, where.append(_label(source.label), style="dim")))
    return grid


def _warnings(warnings: Iterable[str]) -> RenderableType:
    grid = _grid()
    for warning in warnings:
        grid.add_row(Text("!", style="yellow"), Text(on_one_line(warning), overflow="fold"))
    return grid


def _label(label: str) -> str:
    return ellipsize(on_one_line(label), _LABEL_LENGTH)


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column()
    return grid


def render_markdown(attribution: Result, *, top: int = 5) -> str:
    """The contents of `render_table`, with a table in GitHub's syntax.

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

    Without numbers, remarks and the model's own markers, the text is the answer, character for
    character. Numbers stand where Markdown shows them and nothing else changes: in the last cell of
    a row, after a block of code. JSON stays JSON, and a line for each of its values follows it.
    Numbers are those of `cite`, as in all other renderings.

    Args:
        attribution: The result whose answer is cited.
        remarks: Whether remarks in words follow the sentences, as in '... blue. (not in the 3
            passages found)', and a last line says who read another model's answer.
        markers: What happens to the markers that the model wrote. 'audited': a marker that the
            audit supports is the citation, and a measured citation replaces any other. 'written':
            all stay, next to the citations. 'removed': none stays.
        sources: Whether a line for each cited document follows, with the cited text.
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
    """The text, and a line on who read it if another model gave it."""
    line = who_read(provenance)
    return f"{text.rstrip()}\n\n({line})" if line else text


def with_legend(text: str, documents: Sequence[CitedDocument]) -> str:
    """The text, and a line for each document that it cites."""
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
    """The answer with texts after the sentences at these characters, in order.

    Nothing else changes, but the characters `removed` are left out. Texts for values of JSON follow
    the JSON, one on each line.
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
