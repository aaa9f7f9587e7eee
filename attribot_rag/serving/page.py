"""The page at /: a question, the model's answer, and its attribution."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from attribot_rag.display.html import digest, page_assets

_FOLDER = files("attribot_rag.serving")


@cache
def page_and_policy() -> tuple[str, str]:
    """The page and its Content-Security-Policy, which the answer's page in its frame inherits."""
    style, script = (_FOLDER.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    template = Environment(autoescape=True).from_string(_FOLDER.joinpath("page.html").read_text())
    shown_style, shown_script = page_assets()
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src '{digest(style)}' '{digest(shown_style)}'",
            f"script-src '{digest(script)}' '{digest(shown_script)}'",
            "connect-src 'self'",
            "frame-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    return template.render(style=Markup(style), script=Markup(script)), policy
