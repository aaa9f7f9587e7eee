"""HTML within a text: tags, which say nothing, and those that begin a block."""

from __future__ import annotations

import re

from markdown_it.common.html_blocks import block_names

_CELL = ["br", "td", "th"]
_BLOCK = sorted({*block_names, "pre", "script", "style", "textarea"} - {*_CELL})
_INLINE = (
    "a|abbr|b|bdi|bdo|button|cite|code|data|del|dfn|em|font|i|img|input|ins|kbd|label|mark|q|s"
    "|samp|small|span|strike|strong|sub|sup|svg|time|tt|u|var|wbr"
)
_ATTRIBUTES = r"(?:\s[^<>]*)?/?>"
TAG = re.compile(
    rf"</?(?:(?P<parting>{'|'.join([*_BLOCK, *_CELL])})|{_INLINE}){_ATTRIBUTES}"
    r"|<!--.{0,2000}?-->",
    re.IGNORECASE | re.DOTALL,
)
BLOCK_START = re.compile(rf"(?=<(?:{'|'.join(_BLOCK)}){_ATTRIBUTES})", re.IGNORECASE)
_MAX_NESTED = 4


def without_tags(text: str) -> str:
    """The text as a reader of the page sees it; as it is if it has nothing but tags."""
    kept = text
    for _ in range(_MAX_NESTED):  # what stood around a tag may make another
        if not TAG.search(kept):
            return kept.strip() or text
        kept = TAG.sub(lambda tag: " " if tag["parting"] else "", kept)
    return text
