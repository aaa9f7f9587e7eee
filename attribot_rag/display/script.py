"""The element's script, made of its parts; of the standard library alone: the build runs it."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

_COMMENT = re.compile(r"(?:^| )\s*// .*")
_AROUND = re.compile(r"(?<=[{:;,]) | (?=[{}])|;(?= })")  # of a style: what may be left out
_FOLDER = Path(__file__).with_name("html")
_PARTS = ("words", "strings", "receipts", "card", "answer")


@cache
def element_script() -> str:
    """The element as one script without dependencies; it defines <attribot-answer>.

    The wheel has it as the file `attribot-answer.js` beside its parts.
    """
    style = json.dumps(_AROUND.sub("", _dense("answer.css")), ensure_ascii=False)
    remarks = _FOLDER.parents[1].joinpath("result", "remarks.json").read_text("utf-8")
    words = json.dumps(json.loads(remarks), ensure_ascii=False)
    return script_of(*_PARTS, constants=f"const STYLE = {style};\nconst REMARKS = {words};\n")


@cache
def script_of(*names: str, constants: str = "") -> str:
    """A script of some of the parts that sees nothing but them and the page."""
    parts = "\n".join(_dense(f"{name}.js") for name in names)
    return f'(() => {{\n"use strict";\n{constants}{parts}\n}})();\n'


def _dense(name: str) -> str:
    """The lines of a file without their indentation, and without comments."""
    text = _FOLDER.joinpath(name).read_text("utf-8")
    lines = (_COMMENT.sub("", line).strip() for line in text.splitlines())
    return "\n".join(filter(None, lines))
