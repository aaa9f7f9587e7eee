"""An attribution as Markdown, and its answer as plain text with citations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

from jinja2 import Environment, PackageLoader, Template

from attribot_rag.attribution import Attribution, Composition
from attribot_rag.display.escaping import escape_markdown, on_one_line
from attribot_rag.display.places import cited_spans
from attribot_rag.display.report import Mark, ellipsize, remark_on, report_on

_SOURCE_LENGTH = 200


def render_markdown(attribution: Attribution, *, top: int = 5) -> str:
    """The same as `render_table` shows, with a table after GitHub's manner.

    Nothing in a document or an answer takes effect as Markdown or HTML.
    """
    text = _template().render(report=report_on(attribution, top=top))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def render_cited(
    attribution: Attribution,
    *,
    remarks: bool = True,
    markers: bool = True,
    escape: Callable[[str], str] = str,
    link: Callable[[int, int], str] | None = None,
) -> str:
    """The answer as plain text with the numbers that each sentence cites, as in '... high. [1]'.

    Numbers are those of `cite`, and of every other rendering of the attribution. A verdict that
    they do not show stands in words, as in '... blue. (not caused by the context)', with `remarks`.
    Without `markers`, those that the model wrote itself are left out. For a text with links, such
    as HTML, every text is given through `escape`, and `link` writes each number: it gets the
    sentence's index and the number.
    """
    answer = ""
    for index, passage in enumerate(report_on(attribution, top=0).passages):
        text = passage.text
        if not markers:
            text = _without_markers(attribution, passage.start, passage.end)
        answer += escape(text)
        for mark in passage.marks:
            numbers = (link(index, one) if link else str(one) for one in mark.numbers)
            answer += f" {escape('[')}{' or '.join(numbers)}{escape(']')}"
        if remarks and passage.remark:
            answer += f" {escape(f'({passage.remark})')}"
        answer += passage.space
    return answer.strip()


def render_passage(attribution: Attribution, index: int) -> str:
    """The text of a document as Markdown, with what the answer cites of it in bold.

    Nothing in the text takes effect.
    """
    text, done, shown = attribution.documents[index].text, 0, ""
    for start, end in sorted(cited_spans(attribution, index)):
        if done <= start < end:
            shown += _escaped(text[done:start]) + _escaped(text[start:end], bold=True)
            done = end
    return (shown + _escaped(text[done:])).strip()


def _escaped(text: str, *, bold: bool = False) -> str:
    """Escaped, with the white space at its ends; what shows nothing is not bold."""
    words = text.strip()
    before, _, after = text.partition(words) if words else (text, "", "")
    shown = escape_markdown(words)
    return f"{before}**{shown}**{after}" if bold and shown else f"{before}{shown}{after}"


def render_composed(composition: Composition, *, remarks: bool = True, markers: bool = True) -> str:
    """The same of an answer that was made of earlier answers, with the numbers of what these cite.

    Numbers are those of the composition. A sentence that comes from an earlier answer alone has the
    remark on that.
    """
    answer = ""
    for sentence in composition.sentences:
        cited, response = sentence.cited, composition.attribution.response
        text = response[cited.start : cited.end]
        space = "\n" * text.count("\n", len(text.rstrip())) or " "
        if not markers:
            text = _without_markers(composition.attribution, cited.start, cited.end)
        groups = [composition.numbers_of([origin]) for origin in sentence.origins]
        if sentence.relation == "either" and groups:
            groups = [composition.numbers_of(sentence.origins)]
        marks = dict.fromkeys(map(Mark, groups))
        verdict = cited.verdict
        if verdict is not None and sentence.kind is not None:
            verdict = replace(verdict, kind=sentence.kind, relation=sentence.relation)
        answer += f"{_marked(text.rstrip(), marks, remark_on(verdict), remarks)}{space}"
    return answer.strip()


def _marked(text: str, marks: Iterable[Mark], remark: str, remarks: bool) -> str:
    numbers = "".join(f" [{mark}]" for mark in marks)
    return f"{text}{numbers}{f' ({remark})' if remarks and remark else ''}"


def _without_markers(attribution: Attribution, start: int, end: int) -> str:
    """The characters [start, end) of the response without the model's markers, and their space."""
    text, kept = "", start
    for marker in attribution.markers:
        if kept <= marker.start and marker.end <= end:
            text = (text + attribution.response[kept : marker.start]).rstrip()
            kept = marker.end
    return (text + attribution.response[kept:end]).rstrip()


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
