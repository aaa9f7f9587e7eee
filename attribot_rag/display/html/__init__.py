"""An attribution as a self-contained web page, or as a fragment to embed."""

from attribot_rag.display.html.rendering import digest, page_assets, render_html

__all__ = ["digest", "page_assets", "render_html"]
