"""An attribution as a self-contained web page, or as a fragment to embed."""

from attribot_rag.display.html.rendering import page_assets, render_html
from attribot_rag.display.html.templates import digest, environment

__all__ = ["digest", "environment", "page_assets", "render_html"]
