"""Makes the element's script from its parts. It uses only the standard library, for the build."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

_COMMENT = re.compile(r"(?:^| )\s*// .*")
# A string, a template or a pattern of a script; else spaces beside punctuation, which it can omit.
# No template stands within another one.
_KEPT = re.compile(
    r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`"""
    r"""|(?<=[(,=:!&|?])\s*/(?![*/])(?:\\.|\[[^\]\n]*\]|[^/\\\n])+/)"""
    r"""|(?<=[,:;{}()=?&|<>\[\]]) +| +(?=[,:;{}()=?&|<>\[\]])"""
)
_AROUND = re.compile(r"(?<=[{:;,]) | (?=[{}])|;(?= })")  # characters that a style can omit
_FOLDER = Path(__file__).with_name("html")
_PARTS = ("words", "strings", "receipts", "card", "answer")


@cache
def element_script() -> str:
    """The script that defines <attribot-answer>, without dependencies.

    The wheel has it as the file `attribot-answer.js`, in the folder of its parts.
    """
    style = json.dumps(_AROUND.sub("", _dense("answer.css")), ensure_ascii=False)
    remarks = _FOLDER.parents[1].joinpath("result", "remarks.json").read_text("utf-8")
    words = json.dumps(json.loads(remarks), ensure_ascii=False, separators=(",", ":"))
    return script_of(*_PARTS, constants=f"const STYLE = {style};\nconst REMARKS = {words};\n")


@cache
def script_of(*names: str, constants: str = "") -> str:
    """A script made of some of the parts. It sees only these and the page."""
    whole = "\n".join(_dense(f"{name}.js") for name in names)
    parts = _KEPT.sub(lambda match: match[1] or "", whole)
    return f'(() => {{\n"use strict";\n{constants}{parts}\n}})();\n'


def _dense(name: str) -> str:
    """The lines of a file without indentation and comments."""
    text = _FOLDER.joinpath(name).read_text("utf-8")
    lines = (_COMMENT.sub("", line).strip() for line in text.splitlines())
    return "\n".join(filter(None, lines))
