"""Escape sequences and their meaning.

Applications put documents into prompts as JSON, Python literals, YAML, CSV, HTML and XML.
"""

from __future__ import annotations

import html
import re
import sys

_HEX = "[0-9a-fA-F]"
ESCAPE = re.compile(
    rf"&(?:amp;)+|&(?:#\d{{1,7}}|#[xX]{_HEX}{{1,6}}|[A-Za-z][A-Za-z0-9]{{1,31}});"
    rf"|\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
    rf"|\\(?:u{_HEX}{{4}}|U{_HEX}{{8}}|x{_HEX}{{2}}|\r?\n[ \t]*|[nrtbfvae0NLP_/\\\"' ])"
    r"|'{2,}|\"{2,}|(?:'\n[ \t]+'|\"\n[ \t]+\")"
)
# Of JSON, Python and YAML, where they stand for something other than themselves.
_CHARACTERS = dict(zip("nrtbfvae0NLP_", "\n\r\t\b\f\v\a\x1b\0\x85\u2028\u2029\xa0", strict=True))
# Escapes within escapes: more of them are left as they are.
MAX_DEPTH = 8


def meaning(match: re.Match[str]) -> str:
    """The text of an escape sequence; empty between the pieces of a literal."""
    escape = match[0]
    if escape[0] == "&":
        return "&" if escape.startswith("&amp;") else html.unescape(escape)
    if escape[0] != "\\":
        return "" if "\n" in escape else escape[0]  # a Python literal in pieces, quotes in CSV
    kind = escape[1]
    if kind == "u":
        units = bytes.fromhex(escape.replace("\\u", ""))
        return units.decode("utf-16-be", "surrogatepass")
    if kind in "Ux":
        code = int(escape[2:], 16)
        return chr(code) if code <= sys.maxunicode else escape
    return "" if kind in "\r\n" else _CHARACTERS.get(kind, kind)
