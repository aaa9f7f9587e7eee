"""The page at /: a question, the model's answer, and its attribution."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from attribot_rag.display.html import digest, element_script

_FOLDER = files("attribot_rag.serving")


@cache
def page_and_policy() -> tuple[str, str]:
    """The page and its Content-Security-Policy."""
    style, script = (_FOLDER.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    template = Environment(autoescape=True).from_string(_FOLDER.joinpath("page.html").read_text())
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
    page = template.render(style=Markup(style), script=Markup(script), element=Markup(element))
    return page, policy
