"""An attribution in a terminal."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attribot_rag.context.document import label_of
from attribot_rag.display.escaping import on_one_line, visible
from attribot_rag.display.report import ListedSource, Report, ellipsize, report_on, score_text
from attribot_rag.result import Counterfactual, Result

_BAR_WIDTH = 16
_MIN_WIDTH = 40
_SOURCE_LENGTH = 200
_LABEL_LENGTH = 100


def render_table(
    attribution: Result, *, top: int = 5, width: int | None = None, color: bool = False
) -> str:
    """The answer with numbered citations, what it cites, and its `top` sources with their scores.

    `width` in columns, from 40, defaults to the terminal's. With `color` the text holds ANSI
    colours; it never holds a control character of a document or an answer.
    """
    columns = _columns(width)
    return _render(_blocks(report_on(attribution, top=top), columns), columns, color)


def print_table(attribution: Result, *, top: int = 5, file: TextIO | None = None) -> None:
    """Write what `render_table` gives, in colour if `file` (default: stdout) is a terminal."""
    console = Console(file=file)
    _print(_blocks(report_on(attribution, top=top), _columns(console.width)), console)


def print_counterfactual(
    attribution: Result, counterfactual: Counterfactual, *, file: TextIO | None = None
) -> None:
    """Write the answer without some documents of the attribution, in colour on a terminal."""
    _print([_without(attribution, counterfactual)], Console(file=file))


def _columns(width: int | None) -> int:
    return max(width or shutil.get_terminal_size().columns, _MIN_WIDTH)


def _print(blocks: Iterable[RenderableType], console: Console) -> None:
    color = bool(console.color_system) and not console.no_color and not console.legacy_windows
    console.file.write(_render(blocks, _columns(console.width), color))


def _render(blocks: Iterable[RenderableType], columns: int, color: bool) -> str:
    console = Console(
        file=io.StringIO(),
        width=columns,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
    )
    with console.capture() as capture:
        for block in blocks:
            console.print(Padding(block, (1, 1, 0, 1)))
    return "\n".join(line.rstrip() for line in capture.get().split("\n")).lstrip("\n")


def _without(attribution: Result, counterfactual: Counterfactual) -> RenderableType:
    labels = (label_of(attribution.documents[i], i) for i in counterfactual.documents)
    score = score_text(counterfactual.score, "" if counterfactual.exact else "~")
    lines = [
        Text(
            f"Without {', '.join(map(_label, labels))}, which is worth {score} nats:", style="dim"
        ),
        Text(visible(counterfactual.response) or "(no answer)", style="bold", overflow="fold"),
    ]
    return Group(*lines, _remarks(counterfactual.notes)) if counterfactual.notes else Group(*lines)


def _blocks(report: Report, columns: int) -> Iterable[RenderableType]:
    yield _answer(report)
    yield _citations(report)
    if report.sources:
        heading, legend = Text(report.heading, style="bold"), Text(report.legend, style="dim")
        sources = _sources(report.sources, min(_BAR_WIDTH, columns // 6))
        yield Group(heading, sources, legend) if report.legend else Group(heading, sources)
    if report.remarks:
        yield _remarks(report.remarks)
    yield Text(on_one_line(report.provenance), style="dim")


def _answer(report: Report) -> RenderableType:
    answer = Text(overflow="fold")
    for passage in report.passages:
        answer.append(visible(passage.text), style="bold")
        for mark in passage.marks:
            answer.append(f" [{visible(str(mark))}]", style="cyan")
        for remark in passage.remarks:
            answer.append(f" ({remark})", style="yellow")
        answer.append(visible(passage.space))
    answer.rstrip()
    return answer


def _citations(report: Report) -> RenderableType:
    if report.nothing_cited:
        return Text(report.nothing_cited, style="yellow")
    grid = _grid("right", "left")
    for document in report.documents:
        cell = Text(_label(document.label), style="dim", overflow="fold")
        quotes = (Text(f"“{on_one_line(quote)}”", overflow="fold") for quote in document.quotes)
        grid.add_row(Text(f"[{_label(document.mark)}]", style="cyan"), Group(cell, *quotes))
    return grid


def _sources(sources: Iterable[ListedSource], bar_width: int) -> RenderableType:
    grid = _grid("right", "left", "left")
    for source in sources:
        style = "green" if source.score >= 0 else "red"
        text = Text(ellipsize(on_one_line(source.text), _SOURCE_LENGTH), overflow="fold")
        grid.add_row(
            Text(source.score_text, style=style),
            Text(source.bar(bar_width).ljust(bar_width), style=style),
            Group(text, _where(source)),
        )
    return grid


def _where(source: ListedSource) -> Text:
    where = Text(overflow="fold")
    if source.mark:
        where.append(f"[{_label(str(source.mark))}] ", style="cyan")
    return where.append(_label(source.label), style="dim")


def _remarks(remarks: Iterable[str]) -> RenderableType:
    grid = _grid("left", "left")
    for remark in remarks:
        grid.add_row(Text("!", style="yellow"), Text(on_one_line(remark), overflow="fold"))
    return grid


def _label(label: str) -> str:
    return ellipsize(on_one_line(label), _LABEL_LENGTH)


def _grid(*justify: str) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for last, side in enumerate(justify, start=1 - len(justify)):
        grid.add_column(justify="right" if side == "right" else "left", no_wrap=bool(last))
    return grid
