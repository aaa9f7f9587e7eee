"""HTML and JSON within a text: tags, which have no meaning, and the members of objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

from markdown_it.common.html_blocks import block_names

from attribot_rag.context.intervals import Interval

_CELL = ["br", "td", "th"]
_BLOCK = sorted({*block_names, "pre", "script", "style", "textarea"} - {*_CELL})
_INLINE = (
    "a|abbr|b|bdi|bdo|button|cite|code|data|del|dfn|em|font|i|img|input|ins|kbd|label|mark|q|s"
    "|samp|small|span|strike|strong|sub|sup|svg|time|tt|u|var|wbr"
)
_ATTRIBUTES = r"(?:\s[^<>]*)?/?>"
_COMMENT = "<!--.{0,2000}?-->"
TAG = re.compile(
    rf"<(?P<closing>/?)(?P<name>(?P<parting>{'|'.join([*_BLOCK, *_CELL])})|{_INLINE})"
    rf"(?=(?P<attribute>\s+[a-z-]+\s*=)?){_ATTRIBUTES}|{_COMMENT}",
    re.IGNORECASE | re.DOTALL,
)
BLOCK_START = re.compile(rf"(?=<(?:{'|'.join(_BLOCK)}){_ATTRIBUTES})", re.IGNORECASE)
_CODE = r"(?P<fence>`{3,}|~{3,}).*?(?:(?P=fence)|\Z)|(?P<ticks>`+)[^`\n]+(?P=ticks)"
_CODE_OR_TAG = re.compile(rf"{_CODE}|{TAG.pattern}", re.IGNORECASE | re.DOTALL)
_UNCLOSED = frozenset(["br", "hr", "wbr", "img"])
_CLOSED_BY_OTHERS = frozenset(
    ["p", "li", "dt", "dd", "td", "th", "tr", "thead", "tbody", "tfoot", "caption", "col"]
)
_MAX_NESTED = 4


@dataclass(frozen=True)
class Tags:
    """The tag names of a document, in lower case; none without HTML.

    The name of an element in angle brackets is no tag unless the document closes it, gives it an
    attribute, or is HTML in which it need not be closed: `List<A>` and `cp <data>` stay. So does
    Markdown's code.
    """

    names: frozenset[str] = frozenset()
    is_html: bool = False

    def without(self, text: str) -> str:
        """A part of the document as a reader of the page sees it; as it is if it is only tags."""
        kept = text
        for _ in range(_MAX_NESTED):  # what stood around a tag may make another
            shown = _CODE_OR_TAG.sub(self._rendered, kept)
            if shown == kept:
                return kept.strip() or text
            kept = shown
        return text

    def _rendered(self, match: re.Match[str]) -> str:
        name = (match["name"] or "").lower()
        if match["fence"] or match["ticks"] or (name and name not in self.names):
            return match[0]
        return " " if match["parting"] else ""


@lru_cache(maxsize=256)
def tags_of(document: str) -> Tags:
    """The tags of a document, read once however many ask."""
    tags, text = Tags(), document
    for _ in range(_MAX_NESTED):
        names, is_html = set(tags.names), tags.is_html
        for match in _CODE_OR_TAG.finditer(text):
            if match["fence"] or match["ticks"]:
                continue
            name = (match["name"] or "").lower()
            is_sure = bool(match["closing"] or match["attribute"] or not name)
            is_html |= is_sure or name in _UNCLOSED
            if is_sure:
                names.add(name)
        if is_html:
            names |= _UNCLOSED | _CLOSED_BY_OTHERS
        tags = Tags(frozenset(names - {""}), is_html)
        shown = tags.without(text)
        if shown == text:
            break
        text = shown
    return tags


def without_tags(text: str, document: str | None = None) -> str:
    """The text as a reader of the page sees it; it may be a part of a longer `document`."""
    return tags_of(text if document is None else document).without(text)


# Elsewhere in a line, square brackets are the text's own.
_JSON_START = re.compile(r"(?P<fence>```\w*\s*)?(?:\{|^[ \t]*\[)", re.MULTILINE)
_REST = re.compile(r"(?:\s*```)?")
_LINE_REST = re.compile(r"[ \t,]*(?:\r?\n|\Z)")
_DECODER = json.JSONDecoder()
# Each reads the text up to its place; so many other brackets are code or broken.
_MAX_FAILURES = 200
_STRING = r'"(?P<string>(?:[^"\\]|\\.)*)"(?P<key>\s*:)?'
_LEAF = re.compile(_STRING + r"|-?\d[\d.eE+-]*|true|false")
_TOKEN = re.compile(_STRING + r"|(?P<open>[{\[])|(?P<close>[}\]])|(?P<comma>,\s*)")
# A longer object or list is no part but has parts, as it has if others are within it.
_MAX_RECORD = 200


def json_in(text: str, first: int, last: int) -> Iterator[Interval]:
    """Characters of the JSON objects and lists in [first, last), with the fences around them."""
    num_failures = 0
    while (
        num_failures < _MAX_FAILURES
        and (start := _JSON_START.search(text, first, last)) is not None
    ):
        begin = start.end() - 1
        try:
            value, end = _DECODER.raw_decode(text, begin)
        except json.JSONDecodeError as error:
            first = max(start.end(), error.pos)
            num_failures += 1
            continue
        except (ValueError, RecursionError):
            return
        rest = _REST.match(text, end, last)
        first = end
        if rest is not None and _is_data(value, text, end):
            first = rest.end()
            yield (begin if start["fence"] is None else start.start()), first


def _is_data(value: Any, text: str, end: int) -> bool:
    """Whether JSON is data, not text in brackets: an object, or a list on its own line."""
    if isinstance(value, dict):
        return True
    return bool(value) and _LINE_REST.match(text, end) is not None


def json_values(text: str, first: int, last: int) -> Iterator[re.Match[str]]:
    """Strings, numbers and truth values of the JSON in [first, last); `string` is one's content."""
    for leaf in _LEAF.finditer(text, first, last):
        if leaf["key"] is None and (leaf["string"] is None or leaf["string"].strip()):
            yield leaf


@dataclass
class _Container:
    """An object or a list: where it begins, and its members."""

    start: int
    flat: bool = True
    commas: list[int] = field(default_factory=list)


def json_members(
    text: str, first: int, last: int, *, is_line: bool = False
) -> Iterator[tuple[Interval, Interval]]:
    """The members of the JSON in [first, last), each with its only string, if there is one.

    Together they are the whole JSON. A short object or list without others in it is one member;
    the outermost only if it `is_line`, one of several. The string is empty if there is none.
    """
    cuts: list[int] = []
    records: list[Interval] = []
    containers: list[_Container] = []
    for token in _TOKEN.finditer(text, first, last):
        if token["open"]:
            for outer in containers[-1:]:
                outer.flat = False
            containers.append(_Container(token.start()))
        elif token["close"] and containers:
            container = containers.pop()
            is_short = token.end() - container.start <= _MAX_RECORD
            if container.flat and is_short and (containers or is_line):
                records.append((container.start, token.end()))
            else:
                cuts += container.commas
        elif token["comma"] and containers:
            containers[-1].commas.append(token.end())
    for start, end in pairwise([first, *sorted(cuts), last]):
        yield (start, end), _only_string(text, start, end, records)


def _only_string(text: str, start: int, end: int, records: Sequence[Interval]) -> Interval:
    strings = [leaf for leaf in json_values(text, start, end) if leaf["string"] is not None]
    if len(strings) != 1 or any(first < strings[0].start() < last for first, last in records):
        return end, end
    return strings[0].span("string")
