"""From an attribution to HTML: the template, the style and the script of this folder."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from markupsafe import Markup

from attribot_rag.attribution import Attribution
from attribot_rag.display.html.templates import environment
from attribot_rag.display.html.view import view_of


def render_html(attribution: Attribution, *, top: int = 8, page: bool = True) -> str:
    """The answer with numbered citations and verdicts, and its sources beside it.

    A page of its own, or with `page` False a fragment to embed; neither loads anything.
    `top` is how many sources the bars show. Nothing in a document or an answer takes effect; a
    page's Content-Security-Policy lets only its own script and style run.
    """
    template = environment().get_template("page.html" if page else "fragment.html")
    style, script = page_assets()
    return template.render(view=view_of(attribution, top=top), style=style, script=script)


@cache
def page_assets() -> tuple[Markup, Markup]:
    """The style and the script of a page, for the policy of a page that frames it."""
    folder = files("attribot_rag.display.html")
    style, script = (
        folder.joinpath(name).read_text("utf-8") for name in ("style.css", "script.js")
    )
    return Markup(style), Markup(script)
