"""An attribution as Markdown, and its answer as plain text with citations."""

from __future__ import annotations

import re
from functools import cache

from jinja2 import Environment, PackageLoader, Template

from attribot_rag.attribution import Attribution
from attribot_rag.display.escaping import escape_markdown, on_one_line
from attribot_rag.display.report import ellipsize, report_on

_SOURCE_LENGTH = 200


def render_markdown(attribution: Attribution, *, top: int = 5) -> str:
    """The same as `render_table` shows, with a table after GitHub's manner.

    Nothing in a document or an answer takes effect as Markdown or HTML.
    """
    text = _template().render(report=report_on(attribution, top=top))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def render_cited(attribution: Attribution, *, remarks: bool = True) -> str:
    """The answer as plain text with the numbers that each sentence cites, as in '... high. [1]'.

    Numbers are those of `cite`, and of every other rendering of the attribution. A verdict that
    they do not show is told in words, as in '... blue. (not from the context)', with `remarks`.
    """
    answer = ""
    for passage in report_on(attribution, top=0).passages:
        marks = "".join(f" [{mark}]" for mark in passage.marks)
        remark = f" ({passage.remark})" if remarks and passage.remark else ""
        answer += f"{passage.text}{marks}{remark}{passage.space}"
    return answer.strip()


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
