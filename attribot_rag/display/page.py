"""The element <attribot-answer> as HTML, and pages that show it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from attribot_rag.display.markdown_tree import html_of, tree_of
from attribot_rag.display.page_data import answer_data, summary_data
from attribot_rag.display.report import Report, report_on
from attribot_rag.display.script import element_script
from attribot_rag.errors import InvalidInput
from attribot_rag.result import Result, cite
from attribot_rag.result.answer_text import file_name, visible

_THEMES = ("auto", "light", "dark")
_PACKAGE, _FOLDER = "attribot_rag.display", "html"


def render_element(
    data: Mapping[str, Any], inside: str = "", /, **attributes: str | bool | None
) -> Markup:
    """The element as HTML, for a page that has its script.

    `inside` is shown without scripts. Attributes are the element's, with `_` instead of `-`. Those
    that are False, None or '' are left out.
    """
    named = {name.replace("_", "-"): value for name, value in attributes.items() if value}
    template = page_templates().get_template("element.html")
    return Markup(template.render(data=data, attributes=named, inside=inside))


def render_answer(
    attribution: Result, *, question: str = "", **attributes: str | bool | None
) -> Markup:
    """The element for an attribution. Without scripts, it shows the cited text and its sources."""
    report = report_on(attribution, top=0)
    inside = page_templates().get_template("cited.html")
    plain = inside.render(cited=_cited_html(attribution, report), documents=report.documents)
    data = answer_data(attribution, question=question)
    return render_element(data, Markup(plain), **attributes)


def render_html(
    attribution: Result,
    *,
    question: str = "",
    theme: str = "auto",
    answer: bool = True,
    page: bool = True,
) -> str:
    """The answer as <attribot-answer>, in which each sentence shows what made the model say it.

    Nothing is loaded from elsewhere, and nothing in a document or an answer takes effect. The
    page's Content-Security-Policy allows only its own script and style. Raises InvalidInput for an
    unknown theme.

    Args:
        attribution: The result to show.
        question: The heading of the page.
        theme: 'auto' (the reader's theme, or that around a fragment), 'light' or 'dark'.
        answer: Whether to show the answer, and not only the evidence.
        page: Whether to write a whole page, and not a fragment.
    """
    if theme not in _THEMES:
        raise InvalidInput(f"theme={theme!r}; use {', '.join(_THEMES)}")
    element = render_answer(
        attribution,
        question=question,
        theme=theme if theme != "auto" else None,
        no_question=page,  # the page has it as its heading
        no_answer=not answer,
    )
    if not page:
        return f"{element}\n<script>{element_script()}</script>"
    return _page(element, question, theme)


def render_summary(
    data: Mapping[str, Any],
    *,
    question: str = "",
    theme: str = "auto",
    **attributes: str | bool | None,
) -> str:
    """The same page for the element's `data`, such as a summary, with the element's attributes."""
    if "summary" not in data and data.get("answer"):
        data = summary_data(data, answer=data["answer"])
    shown = theme if theme != "auto" else None
    element = render_element(data, theme=shown, no_question=True, **attributes)
    return _page(element, question, theme)


def _page(element: Markup, question: str, theme: str) -> str:
    return (
        page_templates()
        .get_template("page.html")
        .render(
            element=element,
            question=question,
            theme=theme,
            style=page_part("page.css"),
            script=Markup(element_script()),
        )
    )


def _cited_html(attribution: Result, report: Report) -> Markup:
    """The answer with its marks and remarks after each sentence."""

    def cited(index: int) -> str:
        passage = report.passages[index]
        marks = [f" [{mark}]" for mark in passage.shown_marks]
        return visible("".join([*marks, *(f" ({remark})" for remark in passage.remarks)]))

    text = attribution.response
    spans = [(sentence.start, sentence.end) for sentence in cite(attribution)]
    removed = [place for passage in report.passages for place in passage.removed]
    return html_of(tree_of(text, spans, removed=removed), text, cited=cited)


@cache
def page_templates(*packages: str) -> Environment:
    """The templates of this package, such as `frame.html`, and of other packages.

    `frame.html` is a page with the blocks `title` and `main`, and a `style`. There are three
    filters: `visible` shows control characters, `name` removes the folders of a path, and `digest`
    is the function `digest`.
    """
    others = [PackageLoader(package, ".") for package in packages]
    loader = ChoiceLoader([PackageLoader(_PACKAGE, _FOLDER), *others])
    templates = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    templates.filters.update(visible=visible, digest=digest, name=file_name)
    return templates


@cache
def page_part(name: str, package: str | None = None) -> Markup:
    """A style, a script or a template from a package's files. Without a package, from this one."""
    folder = files(package) if package else files(_PACKAGE).joinpath(_FOLDER)
    return Markup(folder.joinpath(name).read_text("utf-8"))


def digest(text: str) -> str:
    """The hash of a script or a style, as a Content-Security-Policy allows it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
