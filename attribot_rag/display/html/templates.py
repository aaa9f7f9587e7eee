"""Templates of pages in one frame, whose policy lets nothing run or load but what is named."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from attribot_rag.result.answer_text import file_name, visible

_PACKAGE = "attribot_rag.display.html"


@cache
def page_templates(*packages: str) -> Environment:
    """The templates of this package, among them `frame.html`, and of the folders of others.

    `frame.html` is a page with the blocks `title` and `main`, and what is passed as `style`.
    Filters: `visible` shows control characters, `name` leaves out the folders of a path, `digest`
    is `digest`.
    """
    loaders = [PackageLoader(package, ".") for package in (_PACKAGE, *packages)]
    templates = Environment(
        loader=ChoiceLoader(loaders), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters.update(visible=visible, digest=digest, name=file_name)
    return templates


@cache
def page_part(name: str, package: str = _PACKAGE) -> Markup:
    """A style, a script or a template among a package's files; here, `page.css` is the style."""
    return Markup(files(package).joinpath(name).read_text("utf-8"))


def digest(text: str) -> str:
    """The name of a script or a style that a Content-Security-Policy allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
