"""The element's script, made of its parts; of the standard library alone: the build runs it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

_PARTS = ("words", "strings", "receipts", "quotes", "card", "answer")


@cache
def element_script() -> str:
    """The element as one script without dependencies; it defines <attribot-answer>.

    The wheel has it as the file `attribot-answer.js` beside this module.
    """
    style = json.dumps(_dense("answer.css"), ensure_ascii=False)
    parts = "\n".join(_dense(f"{name}.js") for name in _PARTS)
    return f'(() => {{\n"use strict";\nconst STYLE = {style};\n{parts}\n}})();\n'


def _dense(name: str) -> str:
    """The lines of a file without their indentation, and without whole-line comments."""
    lines = map(str.strip, Path(__file__).with_name(name).read_text("utf-8").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))
