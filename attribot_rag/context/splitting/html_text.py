"""HTML within a text: tags, which say nothing, and those that begin a block."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from markdown_it.common.html_blocks import block_names

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
    """The elements whose tags a document has, by `names` in lower case; none if it is no HTML.

    A known name in angle brackets is no tag unless the document closes it, gives it an attribute,
    or is HTML in which it need not be closed: `List<A>` and `cp <data>` stay. So does Markdown's
    code.
    """

    names: frozenset[str] = frozenset()
    is_html: bool = False

    def without(self, text: str) -> str:
        """A part of the document as a reader of the page sees it; as it is if it is only tags."""
        kept = text
        for _ in range(_MAX_NESTED):  # what stood around a tag may make another
            shown = _CODE_OR_TAG.sub(self._shown, kept)
            if shown == kept:
                return kept.strip() or text
            kept = shown
        return text

    def _shown(self, match: re.Match[str]) -> str:
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
    """The text as a reader of the page sees it; `document` is what it is a part of."""
    return tags_of(text if document is None else document).without(text)
