"""Attributions for people to read: in a terminal, as Markdown, as text with citations."""

from attribot_rag.display.cited import render_cited
from attribot_rag.display.markdown import render_markdown
from attribot_rag.display.table import print_table, render_table

__all__ = ["print_table", "render_cited", "render_markdown", "render_table"]
