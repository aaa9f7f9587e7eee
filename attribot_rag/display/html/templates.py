"""Templates of pages in one frame, whose policy lets nothing run or load but what is named."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from attribot_rag.display.escaping import file_name, visible


@cache
def environment(*folders: str) -> Environment:
    """The templates of this folder, and of other folders of the package, such as 'batch'."""
    loaders = [PackageLoader("attribot_rag", folder) for folder in ("display/html", *folders)]
    templates = Environment(
        loader=ChoiceLoader(loaders), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters.update(visible=visible, digest=digest, name=file_name)
    return templates


@cache
def part(name: str, room: str = "display.html") -> Markup:
    """A style, a script or a template among a room's files."""
    return Markup(files(f"attribot_rag.{room}").joinpath(name).read_text("utf-8"))


def digest(text: str) -> str:
    """The name of a script or a style that a Content-Security-Policy allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
