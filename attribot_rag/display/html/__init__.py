"""The answer with what caused each sentence: as an element, a page of its own, or a fragment."""

from attribot_rag.display.html.data import answer_data, summary_data, without_data
from attribot_rag.display.html.element import (
    render_answer,
    render_element,
    render_html,
    render_summary,
)
from attribot_rag.display.html.script import element_script
from attribot_rag.display.html.templates import digest, page_part, page_templates

__all__ = [
    "answer_data",
    "digest",
    "element_script",
    "page_part",
    "page_templates",
    "render_answer",
    "render_element",
    "render_html",
    "render_summary",
    "summary_data",
    "without_data",
]
