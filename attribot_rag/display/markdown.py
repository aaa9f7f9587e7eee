"""An attribution as Markdown, and its answer as plain text with citations."""

from __future__ import annotations

from collections.abc import Iterable

from attribot_rag.attribution import Attribution
from attribot_rag.display.escaping import escape_markdown, on_one_line
from attribot_rag.display.report import Mark, Report, ellipsize, report_on

_BAR_WIDTH = 10
_SOURCE_LENGTH = 200


def render_markdown(attribution: Attribution, *, top: int = 5) -> str:
    """The same as `render_table` shows, with a table after GitHub's manner.

    Nothing in a document or an answer takes effect as Markdown or HTML.
    """
    report = report_on(attribution, top=top)
    blocks = [_answer(report), escape_markdown(report.verdict), *_citations(report)]
    if report.sources:
        blocks += [f"**{report.heading}**", _sources(report), escape_markdown(report.legend)]
    blocks.append("\n".join(f"- {_inline(remark)}" for remark in report.remarks))
    blocks.append(f"*{_inline(report.provenance)}*")
    return "\n\n".join(filter(None, blocks)) + "\n"


def render_cited(attribution: Attribution) -> str:
    """The answer as plain text with the numbers that each sentence cites, as in '... high. [1]'.

    Numbers are those of `cite`, and of every other rendering of the attribution.
    """
    answer = ""
    for passage in report_on(attribution, top=0).passages:
        marks = "".join(f" [{mark}]" for mark in passage.marks)
        answer += f"{passage.text}{marks}{passage.space}"
    return answer.strip()


def _answer(report: Report) -> str:
    answer = ""
    for passage in report.passages:
        marks = "".join(f" {_marked(mark)}" for mark in passage.marks)
        remark = f" *({passage.remark})*" if passage.remark else ""
        answer += escape_markdown(passage.text) + marks + remark + passage.space
    return answer.strip().replace("\n", "  \n")


def _citations(report: Report) -> Iterable[str]:
    for document in report.documents:
        quotes = "\n>\n".join(f"> {_inline(quote)}" for quote in document.quotes)
        yield f"{_marked(document.number)} **{_inline(document.label)}**\n{quotes}"


def _sources(report: Report) -> str:
    rows = ["| Score | | Source | Document |", "|---:|:---|:---|:---|"]
    for source in report.sources:
        text = _inline(ellipsize(on_one_line(source.text), _SOURCE_LENGTH))
        where = f"{_marked(source.mark)} {_inline(source.label)}" if source.mark else ""
        rows.append(
            f"| {_inline(source.score_text)} | {source.bar(_BAR_WIDTH)} | {text} "
            f"| {where or _inline(source.label)} |"
        )
    return "\n".join(rows)


def _marked(numbers: Mark | int) -> str:
    return f"\\[{numbers}\\]"


def _inline(text: str) -> str:
    return escape_markdown(on_one_line(text))
