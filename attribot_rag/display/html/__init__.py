"""An attribution as a web page, or as a part of one, that needs nothing else."""

from attribot_rag.display.html.rendering import digest, page_assets, render_html

__all__ = ["digest", "page_assets", "render_html"]
