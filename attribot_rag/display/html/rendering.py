"""From an attribution to a page of its own, or to a fragment to embed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from attribot_rag.display.html.element import element_script, render_answer, render_element
from attribot_rag.display.html.templates import environment, part
from attribot_rag.errors import InvalidInput
from attribot_rag.result import Result

_THEMES = ("auto", "light", "dark")


def render_html(
    attribution: Result,
    *,
    question: str = "",
    theme: str = "auto",
    answer: bool = True,
    page: bool = True,
) -> str:
    """The answer as <attribot-answer>: each sentence shows what made the model say it.

    Nothing is loaded, and nothing in a document or an answer takes effect; a page's
    Content-Security-Policy lets only its own script and style run. Raises InvalidInput for another
    theme.

    Args:
        attribution: The result to show.
        question: The heading of the page.
        theme: 'auto' (the reader's, or that of the page around a fragment), 'light' or 'dark'.
        answer: Whether the answer is shown, too, or only the evidence.
        page: Whether it is a page of its own, or a fragment to embed.
    """
    if theme not in _THEMES:
        raise InvalidInput(f"theme={theme!r}; use {', '.join(_THEMES)}")
    element = render_answer(
        attribution,
        question=question,
        theme=theme if theme != "auto" else None,
        no_question=page,  # which has it as its heading
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
    """The same page for the element's `data`, such as a summary, and its attributes."""
    shown = theme if theme != "auto" else None
    element = render_element(data, theme=shown, no_question=True, **attributes)
    return _page(element, question, theme)


def _page(element: Markup, question: str, theme: str) -> str:
    return (
        environment()
        .get_template("page.html")
        .render(
            element=element,
            question=question,
            theme=theme,
            style=part("page.css"),
            script=Markup(element_script()),
        )
    )
