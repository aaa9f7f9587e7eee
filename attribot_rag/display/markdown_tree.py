"""Markdown as a tree of tags for display. Its leaves are places in the text, never HTML.

The browser and Python render the same tree, so nothing in a text takes effect anywhere. A node is a
list for JSON: `["p", child, ...]` or `["a", {"href": ...}, child, ...]`. A leaf is `[start, end,
sentence]`: characters of the text, and the index of their sentence, or -1. It may have a fourth
value, the text to show instead. `["cite", sentence]` is the place of a sentence's citations.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from attribot_rag.context.splitting.blocks import json_in
from attribot_rag.context.text import Interval, merge, overlapping, subtract
from attribot_rag.result.answer_text import markdown, visible

Node = list[Any]

LONGEST = 40_000
"""The most characters that are read as Markdown. A longer text is shown as it is."""

_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_PARSER.disable("text_join")  # keeps an escaped character as a separate token
_HEADINGS = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
_INLINE = frozenset(["strong", "em", "s", "a", "code"])
_TABLE = ["table", "thead", "tbody", "tr", "th", "td"]
_BLOCKS = frozenset([*_HEADINGS, *_TABLE, "p", "ul", "ol", "li", "blockquote"])
_SAFE = re.compile(r"https?://|mailto:", re.IGNORECASE)
_DESTINATION = re.compile(
    r"\]\(\s*(?:<[^<>\n]*>|(?:[^()\s]|\([^()\s]*\))*)(?:\s+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?\s*\)"
    r"|\]\[[^\]]*\]|\]"
)
_MARKDOWN = re.compile(r"^(#{1,6} .+|\|[ :|-]+\|)$", re.MULTILINE)
_MARKDOWN_NAME = re.compile(r"\.(md|markdown)(#|$)", re.IGNORECASE)


def tree_of(
    text: str,
    sentences: Sequence[Interval] = (),
    *,
    removed: Sequence[Interval] = (),
    is_markdown: bool = True,
) -> list[Node]:
    """The blocks of a text, with the place of each sentence's citations.

    A citation stands at the end of its sentence, in a table in the last cell of the row, and never
    within a link or emphasis.

    Args:
        text: GitHub's Markdown. Raw HTML is text, a picture becomes its description, and only
            addresses of the web and of mail become links.
        sentences: The characters of each sentence, ascending and disjoint.
        removed: Characters that are not shown.
        is_markdown: Whether it is Markdown. Otherwise, for example as JSON, and beyond `LONGEST`,
            it is shown as it is.
    """
    leaves = _Leaves(text, sentences, merge(removed))
    json = list(json_in(text, 0, len(text))) if sentences else []
    is_json = bool(json) and not (text[: json[0][0]] + text[json[-1][1] :]).strip()
    if is_markdown and len(text) <= LONGEST and not (is_json and text.lstrip()[:1] in "{["):
        blocks = _Reader(text.replace("\0", "\ufffd"), leaves).blocks()  # as the parser does
    else:
        blocks = [["pre" if is_json else "plain", *leaves.of(0, len(text))]]
    last = leaves.last_of_sentences()
    return [node for block in blocks for node in _with_citations(block, last)]


def reads_as_markdown(text: str, *names: object) -> bool:
    """Whether a document is Markdown, by one of its names or its headings and tables."""
    return any(_MARKDOWN_NAME.search(str(name or "")) for name in names) or bool(
        _MARKDOWN.search(text)
    )


def html_of(
    blocks: Sequence[Node],
    text: str,
    *,
    cited: Callable[[int], str] = lambda sentence: "",
    marks: Sequence[Interval] = (),
    mark: Callable[[int, Markup], Markup] = lambda index, shown: Markup(shown),
) -> Markup:
    """The tree as HTML.

    `mark` returns the HTML for a piece of one of the `marks`, which are ascending intervals.
    """

    def leaf(start: int, end: int, shown: str | None = None) -> Markup:
        pieces = []
        for first, last in pairwise(sorted({start, end, *_within(marks, start, end)})):
            piece = escape(visible(text[first:last] if shown is None else shown))
            found = [i for i, (a, b) in enumerate(marks) if a < last and b > first]
            pieces.append(mark(found[0], piece) if found else piece)
            if shown is not None:
                break
        return Markup("").join(pieces)

    def written(node: Node) -> Markup:
        if isinstance(node[0], int):
            return leaf(node[0], node[1], *node[3:])
        if node[0] == "cite":
            return escape(cited(node[1]))
        attributes = node[1] if len(node) > 1 and isinstance(node[1], dict) else {}
        inside = Markup("").join(map(written, node[1 + bool(attributes) :]))
        if node[0] == "hr":
            return Markup("<hr>")
        # A heading of the text must not be a heading of the page.
        tag = "div" if node[0] == "plain" else "p" if node[0] in _HEADINGS else node[0]
        named = dict(attributes)
        if tag != node[0]:
            named["class"] = "plain" if tag == "div" else "heading"
        if tag == "a":
            named["rel"] = "noopener noreferrer nofollow"
        listed = Markup("").join(
            Markup(' {}="{}"').format(name, value) for name, value in named.items()
        )
        return Markup("<{}{}>{}</{}>").format(Markup(tag), listed, inside, Markup(tag))

    return Markup("\n").join(map(written, blocks))


_PART_ENDS = re.compile(r"</(?:t[dh]|li)>")


def first_line(blocks: Sequence[Node], text: str, length: int = 160) -> str:
    """The first words that are shown, without headings if there is other text.

    A dot follows each item and each cell.
    """
    bodies = [block for block in blocks if not re.fullmatch(r"h\d|hr", block[0])] or blocks
    written = " ".join(html_of([block], text) for block in bodies[:2])
    shown = Markup(_PART_ENDS.sub(" · ", written)).striptags().rstrip(" ·")
    return shown if len(shown) <= length else shown[: length - 1].rstrip() + "…"


def heading(blocks: Sequence[Node], text: str, before: int | None = None) -> str:
    """The first heading that is shown, or the last one `before` a character of the text; or ''."""
    headings = [block for block in blocks if block[0] in _HEADINGS]
    if before is not None:
        headings = [block for block in headings if _begins(block) < before][::-1]
    return next((html_of([block], text).striptags() for block in headings), "")


def _begins(node: Node) -> int:
    """Where the first leaf begins; of a node without any, 0."""
    if isinstance(node[0], int):
        return node[0]
    return next((_begins(child) for child in node[1:] if isinstance(child, list)), 0)


def _within(marks: Sequence[Interval], start: int, end: int) -> Iterator[int]:
    for mark in marks:
        yield from (place for place in mark if start < place < end)


@dataclass
class _Leaves:
    """Splits places of the text at the borders of sentences, and finds the last leaf of each."""

    text: str
    sentences: Sequence[Interval]
    removed: Sequence[Interval]
    _last: dict[int, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ends = [start + len(self.text[start:end].rstrip()) for start, end in self.sentences]
        self._starts = [start for start, _ in self.sentences]
        self._borders = sorted({*self._starts, *self._ends})

    def of(self, start: int, end: int, shown: str | None = None) -> Iterator[Node]:
        """The leaves of [start, end); a single one if another text is shown instead."""
        if shown is not None:
            yield self._leaf(start, end, shown)
            return
        first, last = bisect_right(self._borders, start), bisect_right(self._borders, end - 1)
        for piece in pairwise([start, *self._borders[first:last], end]):
            for left in subtract(piece, overlapping(self.removed, piece)):
                if left[0] < left[1]:
                    yield self._leaf(*left)

    def _leaf(self, start: int, end: int, *shown: str) -> Node:
        index = bisect_right(self._starts, start) - 1
        sentence = index if index >= 0 and start < self._ends[index] else -1
        leaf = [start, end, sentence, *shown]
        if sentence >= 0 and (shown or self.text[start:end].strip()):
            self._last[sentence] = leaf
        return leaf

    def last_of_sentences(self) -> dict[int, list[int]]:
        """The sentences that end with a leaf, by the leaf's identity.

        A sentence that is not shown counts with the one before it.
        """
        last: dict[int, list[int]] = {}
        before = None
        for sentence in range(len(self.sentences)):
            before = self._last.get(sentence, before)
            if before is not None:
                last.setdefault(id(before), []).append(sentence)
        return last


def _with_citations(node: Node, last: dict[int, list[int]]) -> list[Node]:
    """The node with the citations of its sentences, and citations that follow it."""
    if isinstance(node[0], int):
        return [node, *(["cite", sentence] for sentence in last.get(id(node), ()))]
    children: list[Any] = []
    for child in node[1:]:
        children += [child] if isinstance(child, dict) else _with_citations(child, last)
    after: list[Node] = []
    if node[0] == "a":
        after = [child for child in children if _is_citation(child)]
        children = [child for child in children if not _is_citation(child)]
    while node[0] in _INLINE and children and _is_citation(children[-1]):
        after.insert(0, children.pop())
    return [[node[0], *children], *after]


def _is_citation(node: Any) -> bool:
    return not isinstance(node, dict) and node[0] == "cite"


@dataclass
class _Reader:
    """Reads Markdown into blocks.

    The parser gives the lines of a block, and words are found there.
    """

    text: str
    leaves: _Leaves
    _after: int = 0

    def blocks(self) -> list[Node]:
        root: Node = ["root"]
        stack = [root]
        for token in _PARSER.parse(self.text):
            if token.type == "inline":
                stack[-1].extend(self._inline(token, is_cell=stack[-1][0] in ("th", "td")))
            elif token.hidden:
                continue
            elif token.nesting == -1:
                stack.pop()
            elif token.nesting == 1:
                node: Node = [token.tag if token.tag in _BLOCKS else "p"]
                if "start" in token.attrs:
                    node.append({"start": token.attrs["start"]})
                stack[-1].append(node)
                stack.append(node)
            elif token.type == "hr":
                stack[-1].append(["hr"])
            elif token.type in ("fence", "code_block"):
                stack[-1].append(["pre", *self._code(token)])
        blocks: list[Node] = root[1:]
        return blocks

    def _code(self, token: Token) -> Iterator[Node]:
        """The lines of code, without the marks of a list or a quote before them."""
        first = (token.map or [0])[0] + (token.type == "fence")
        lines = token.content.rstrip("\n").split("\n")
        for index, line in enumerate(lines):
            start, end = self._line(first + index)
            own = end - len(line) if self.text[start:end].endswith(line) else start
            stop = self._line(first + index + 1)[0] if index + 1 < len(lines) else end
            yield from self.leaves.of(own, max(own, stop))

    def _line(self, index: int) -> Interval:
        read = markdown(self.text)
        return read.line(min(index, len(read.line_starts) - 1))

    def _offsets(self, token: Token, *, is_cell: bool) -> list[int]:
        """The place in the text of each character of an inline token's content, and of its end."""
        places: list[int] = []
        for index, line in enumerate(token.content.split("\n")):
            start, end = self._line((token.map or [0])[0] + index)
            at = max(start, min(self._after, end))  # a row has several cells
            written = self.text[at:end].rstrip()
            own = line.rstrip()
            is_end = not is_cell and written.endswith(own)
            begin = at + len(written) - len(own) if is_end else self.text.find(line, at, end)
            if begin >= 0:
                places += range(begin, begin + len(line) + 1)
            else:  # with an escaped pipe, or a character that cannot be shown
                for character in line:
                    found = self.text.find(character, at, end)
                    places.append(found if found >= 0 else at)
                    at = max(at, found + 1)
                places.append(at)
            self._after = places[-1]
        return places

    def _inline(self, token: Token, *, is_cell: bool) -> list[Node]:
        content, places = token.content, self._offsets(token, is_cell=is_cell)
        root: Node = ["root"]
        stack = [root]
        at = 0  # in the content

        def put(shown: str, written: str | None = None) -> None:
            nonlocal at
            start = content.find(shown if written is None else written, at)
            length = len(shown if written is None else written)
            if start < 0:
                start, length = at, 0
            at = start + length
            first, last = places[start], places[max(start, at - 1)] + 1 if length else places[start]
            same = self.text[first:last] == shown
            stack[-1].extend(self.leaves.of(first, last, None if same else shown))

        def skip(written: str) -> None:
            nonlocal at
            start = content.find(written, at)
            at = start + len(written) if start >= 0 else at

        for child in token.children or ():
            if child.type in ("softbreak", "hardbreak"):
                put("\n")
            elif child.type == "code_inline":
                skip(child.markup)
                stack[-1].append(["code"])
                stack.append(stack[-1][-1])
                put(child.content)
                stack.pop()
                skip(child.markup)
            elif child.type == "image":
                skip("![")
                put(child.content or "🖼")
                at = self._past_destination(content, at)
            elif child.type == "link_open":
                skip("<" if child.markup == "autolink" else "[")
                href = str(child.attrs.get("href", ""))
                stack[-1].append(["a", {"href": href}] if _SAFE.match(href) else ["span"])
                stack.append(stack[-1][-1])
            elif child.type == "link_close":
                stack.pop()
                if child.markup == "autolink":
                    skip(">")
                else:
                    at = self._past_destination(content, at)
            elif child.nesting == 1:
                skip(child.markup)
                stack[-1].append([child.tag])
                stack.append(stack[-1][-1])
            elif child.nesting == -1:
                skip(child.markup)
                stack.pop()
            elif child.content:
                put(child.content, child.markup or None)
        return root[1:]

    def _past_destination(self, content: str, at: int) -> int:
        end = _DESTINATION.search(content, at)
        return end.end() if end else at
