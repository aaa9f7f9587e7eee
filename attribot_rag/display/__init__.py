"""Shows attributions to people: in a terminal, in a browser, as Markdown and as cited text."""

from attribot_rag.context.document import label_of
from attribot_rag.display.document_page import render_document, render_passage
from attribot_rag.display.page import (
    digest,
    page_part,
    page_templates,
    render_answer,
    render_html,
    render_summary,
)
from attribot_rag.display.page_data import answer_data, summary_data, without_data
from attribot_rag.display.plain_text import (
    print_counterfactual,
    print_table,
    render_cited,
    render_markdown,
    render_table,
)
from attribot_rag.display.script import element_script
from attribot_rag.result.answer_text import escape_markdown, on_one_line, visible
from attribot_rag.result.remarks import YOUR_FILES, words_for

__all__ = [
    "YOUR_FILES",
    "answer_data",
    "digest",
    "element_script",
    "escape_markdown",
    "label_of",
    "on_one_line",
    "page_part",
    "page_templates",
    "print_counterfactual",
    "print_table",
    "render_answer",
    "render_cited",
    "render_document",
    "render_html",
    "render_markdown",
    "render_passage",
    "render_summary",
    "render_table",
    "summary_data",
    "visible",
    "without_data",
    "words_for",
]
