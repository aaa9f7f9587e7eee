"""A text with its escape sequences undone, and the characters that each of its characters was.

Applications put documents into prompts as JSON, Python literals, YAML, CSV, HTML and XML.
"""

from __future__ import annotations

import html
import re
import sys
from array import array
from dataclasses import dataclass

import numpy

from attribot_rag.context.intervals import Interval
from attribot_rag.context.locating.location import Location
from attribot_rag.context.locating.text_index import Integers

_HEX = "[0-9a-fA-F]"
_ESCAPE = re.compile(
    rf"&(?:amp;)+|&(?:#\d{{1,7}}|#[xX]{_HEX}{{1,6}}|[A-Za-z][A-Za-z0-9]{{1,31}});"
    rf"|\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
    rf"|\\(?:u{_HEX}{{4}}|U{_HEX}{{8}}|x{_HEX}{{2}}|\r?\n[ \t]*|[nrtbfvae0NLP_/\\\"' ])"
    r"|'{2,}|\"{2,}|(?:'\n[ \t]+'|\"\n[ \t]+\")"
)
# Of JSON, Python and YAML, where they stand for something other than themselves.
_CHARACTERS = dict(zip("nrtbfvae0NLP_", "\n\r\t\b\f\v\a\x1b\0\x85\u2028\u2029\xa0", strict=True))
# Escapes within escapes: more of them are left as they are.
_MAX_DEPTH = 8


@dataclass(frozen=True, eq=False)
class Unescaped:
    """`text` is `source` without any escaping, however deep, to be compared with another text.

    A document that holds escape sequences of its own loses them, too, so both are unescaped.
    `origins[i]` is the first of the characters of `source` that character `i` was; a last entry is
    the end.
    """

    source: str
    text: str
    origins: Integers

    @classmethod
    def of(cls, source: str) -> Unescaped:
        """In time linear in the length of the text."""
        text, origins = source, array("q", range(len(source) + 1))
        for _ in range(_MAX_DEPTH):
            undone = _undone(text, origins)
            if undone[0] == text:
                break
            text, origins = undone
        return cls(source, text, numpy.frombuffer(origins, numpy.int64))

    def within(self, interval: Interval) -> Interval:
        """The characters of `text` that characters of `source` stand for."""
        start, end = self.origins.searchsorted(interval).tolist()
        return start, end

    def located(self, place: Location, document: Unescaped) -> Location:
        """The location in this source of a document's source, by that of their texts."""
        indices = numpy.arange(len(document.source) + 1)
        characters = document.origins.searchsorted(indices, side="right") - 1
        offsets = self.origins[numpy.asarray(place.offsets)[characters]]
        start, end = self.origins[[place.start, place.end]].tolist()
        span = place.document_span
        if span is not None:
            first, last = document.origins[list(span)].tolist()
            span = first, last
        is_escaped = end - start != place.end - place.start
        return Location(start, end, array("q", offsets.tobytes()), span, is_escaped)


def _undone(text: str, origins: array[int]) -> tuple[str, array[int]]:
    """The text with the outermost escapes undone, and the origins of its characters."""
    pieces: list[str] = []
    kept, done = array("q"), 0
    for match in _ESCAPE.finditer(text):
        value = _meaning(match[0])
        pieces += text[done : match.start()], value
        kept += origins[done : match.start()]
        if value == match[0]:
            kept += origins[match.start() : match.end()]
        else:
            kept.extend([origins[match.start()]] * len(value))
        done = match.end()
    return "".join([*pieces, text[done:]]), kept + origins[done:]


def _meaning(escape: str) -> str:
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
