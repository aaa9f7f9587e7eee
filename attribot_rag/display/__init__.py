"""Attributions for people to read: in a terminal, in a browser, as Markdown, as cited text."""

from attribot_rag.context.document import label_of
from attribot_rag.display.document_page import render_document
from attribot_rag.display.escaping import escape_markdown
from attribot_rag.display.html import answer_data, element_script, render_answer, render_html
from attribot_rag.display.markdown import render_cited, render_markdown
from attribot_rag.display.table import print_counterfactual, print_table, render_table

__all__ = [
    "answer_data",
    "element_script",
    "escape_markdown",
    "label_of",
    "print_counterfactual",
    "print_table",
    "render_answer",
    "render_cited",
    "render_document",
    "render_html",
    "render_markdown",
    "render_table",
]
