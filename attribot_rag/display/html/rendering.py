"""From an attribution to HTML: the template, the style and the script of this folder."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, Template, select_autoescape
from markupsafe import Markup

from attribot_rag.attribution import Attribution
from attribot_rag.display.escaping import visible
from attribot_rag.display.html.view import view_of

_FOLDER = files("attribot_rag.display.html")


def render_html(attribution: Attribution, *, top: int = 8, page: bool = True) -> str:
    """The answer with numbered citations and verdicts, and its sources beside it.

    A page of its own, or with `page` False a fragment to embed; neither loads anything.
    `top` is how many sources the bars show. Nothing in a document or an answer takes effect; a
    page's Content-Security-Policy lets only its own script and style run.
    """
    view = view_of(attribution, top=top)
    template = _template("page.html" if page else "fragment.html")
    return template.render(view=view, style=_asset("style.css"), script=_asset("script.js"))


@cache
def _template(name: str) -> Template:
    environment = Environment(
        autoescape=select_autoescape(default=True), trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["visible"] = visible
    environment.filters["digest"] = digest
    fragment = environment.from_string(_FOLDER.joinpath("fragment.html").read_text("utf-8"))
    if name == "fragment.html":
        return fragment
    environment.globals["fragment"] = lambda **names: Markup(fragment.render(**names))
    return environment.from_string(_FOLDER.joinpath(name).read_text("utf-8"))


@cache
def _asset(name: str) -> Markup:
    return Markup(_FOLDER.joinpath(name).read_text("utf-8"))


def page_assets() -> tuple[str, str]:
    """The style and the script of a page, for the policy of a page that frames it."""
    return _asset("style.css"), _asset("script.js")


def digest(text: str) -> str:
    """How a Content-Security-Policy names a script or a style that it allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
