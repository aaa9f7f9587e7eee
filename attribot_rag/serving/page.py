"""The page at /: a question, the model's answer, and its attribution."""

from __future__ import annotations

from functools import cache

from fastapi.responses import HTMLResponse
from jinja2 import Environment
from markupsafe import Markup

from attribot_rag.display.html import digest, element_script, part


async def page() -> HTMLResponse:
    """The page that asks and shows an answer with its attribution."""
    text, policy = _page_and_policy()
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


@cache
def _page_and_policy() -> tuple[str, str]:
    style, script = part("page.css", "serving"), part("page.js", "serving")
    template = Environment(autoescape=True).from_string(str(part("page.html", "serving")))
    element = element_script()
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src '{digest(style)}'",
            f"script-src '{digest(script)}' '{digest(element)}'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    text = template.render(style=style, script=script, element=Markup(element))
    return text, policy
