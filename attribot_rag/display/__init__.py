"""Attributions for people to read: in a terminal and as Markdown."""

from attribot_rag.display.markdown import render_markdown
from attribot_rag.display.table import print_table, render_table

__all__ = ["print_table", "render_markdown", "render_table"]
