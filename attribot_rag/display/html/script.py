"""The element's script, made of its parts; of the standard library alone: the build runs it."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

_COMMENT = re.compile(r"(?:^| )\s*// .*")
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
    """The lines of a file without their indentation, and without comments."""
    text = Path(__file__).with_name(name).read_text("utf-8")
    lines = (_COMMENT.sub("", line).strip() for line in text.splitlines())
    return "\n".join(filter(None, lines))
