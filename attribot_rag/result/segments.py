"""The mark-up of an answer, and the segments that are judged: sentences, code, values of JSON."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import table

from attribot_rag.cached_property import cached_property
from attribot_rag.context.intervals import Interval, at, merge, overlapping, subtract
from attribot_rag.context.splitting.markup import json_in, json_values
from attribot_rag.context.splitting.splitter import Splitter, split_spans

_NEWLINE = re.compile(r"\r\n?|\n")
_BLANK_LINE = r"\n[ \t\r]*\n"
_INLINE_CODE = re.compile(rf"(?<![`\\])(`+)(?!`)(?:(?!{_BLANK_LINE}).)+?(?<!`)\1(?!`)", re.DOTALL)
_PROSE = ("markdown", "md", "text", "txt", "plaintext")
_BLOCKS = ("fence", "code_block", "html_block", "table_open", "heading_open", "hr")


@dataclass(frozen=True)
class Block:
    """Lines [first, last) of a text; `kind` is the markdown-it token type, or 'reference'.

    `level` is 0 outside of lists and quotes. `markup` is the fence, '#'s, or a heading's underline.
    """

    kind: str
    first: int
    last: int
    level: int
    markup: str = ""
    info: str = ""


@dataclass(frozen=True)
class Markdown:
    """A text, read as GitHub's Markdown."""

    text: str

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        return (0, *(match.end() for match in _NEWLINE.finditer(self.text)))

    def line_at(self, position: int) -> int:
        """Index of the line that holds a character."""
        return bisect_right(self.line_starts, position) - 1

    def line(self, index: int) -> Interval:
        """The characters of a line, without its end."""
        start = self.line_starts[index]
        end = _NEWLINE.search(self.text, start)
        return start, end.start() if end else len(self.text)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The spans of lines that are no running text, in order."""
        env: dict[str, Any] = {}
        blocks = []
        for token in _PARSER.parse(self.text, env):
            if token.type in _BLOCKS and token.map:
                first, last = token.map
                info = token.info.strip().lower()
                blocks.append(Block(token.type, first, last, token.level, token.markup, info))
        references = [*env.get("references", {}).values(), *env.get("duplicate_refs", ())]
        lines = (reference["map"] for reference in references)
        blocks += [Block("reference", first, last, 0) for first, last in lines]
        return tuple(sorted(blocks, key=lambda block: block.first))

    @cached_property
    def code_blocks(self) -> tuple[Interval, ...]:
        """Characters of the blocks of code, fences included; fenced prose is none."""
        blocks = (block for block in self.blocks if block.info not in _PROSE)
        return tuple(
            (self.line(block.first)[0], self.line(block.last - 1)[1])
            for block in blocks
            if block.kind in ("fence", "code_block")
        )

    @cached_property
    def inline_code(self) -> tuple[Interval, ...]:
        """Characters of the code within running text, with its backticks."""
        prose = (block for block in self.blocks if block.info in _PROSE)
        fences = (self.line(line) for block in prose for line in (block.first, block.last - 1))
        gaps = subtract((0, len(self.text)), merge((*self.code_blocks, *fences)))
        matches = (match for gap in gaps for match in _INLINE_CODE.finditer(self.text, *gap))
        return tuple(match.span() for match in matches)

    @cached_property
    def code(self) -> tuple[Interval, ...]:
        return tuple(sorted((*self.code_blocks, *self.inline_code)))


@lru_cache(maxsize=16)
def markdown(text: str) -> Markdown:
    """The text, read once however many ask."""
    return Markdown(text)


_PARSER = MarkdownIt("commonmark").disable("inline")
# After all other blocks, as GitHub's parser has it: else a list's item could be read as a cell.
_PARSER.block.ruler.before("lheading", "gfm_table", table, {"alt": ["paragraph", "reference"]})


_SPACE = re.compile(r"\s*")
_STOPPED = re.compile(r"[.!?…。！？؟।॥።][\"'”’»)\]*_]*[ \t]*\Z")
_MAX_CLOSING = 20
_AFTER_MARKER = re.compile(r"[\s.,]*")

Split = Callable[[int, int], Sequence[Interval]]


def segments(
    text: str, first: int, last: int, split: Split, markers: Sequence[Interval] = ()
) -> Iterator[tuple[Interval, bool]]:
    """All of [first, last) in segments, and whether each is a sentence.

    `split` gives the sentences of an interval. A block of code is one sentence, and none ends
    within inline code. Of JSON objects and lists, the strings, numbers and truth values are
    sentences, and what stands between them is none. One of the `markers` is no list.
    """
    done = first
    for start, end, is_json in _wholes(text, first, last, markers):
        yield from _sentences(text, done, start, split)
        if is_json:
            yield from _values(text, start, end, split)
        else:
            yield (start, end), True
        done = end
    yield from _sentences(text, done, last, split)


def _sentences(text: str, first: int, last: int, split: Split) -> Iterator[tuple[Interval, bool]]:
    """The sentences of running text."""
    code = overlapping(markdown(text).inline_code, (first, last))
    spans = split(first, last) if first < last else ()
    starts = [
        start
        for start, _ in spans
        if not any(code_start < start for code_start, _ in at(code, start))
    ]
    return ((sentence, True) for sentence in pairwise([*starts, last]))


def _wholes(
    text: str, first: int, last: int, markers: Sequence[Interval]
) -> Iterator[tuple[int, int, bool]]:
    """[start, end) of JSON and of blocks of code, which are not split as text; True for JSON.

    The white space after a block belongs to it.
    """
    values = [span for span in json_in(text, first, last) if not at(markers, span[0])]
    spans = [(start, end, True) for start, end in values]
    for start, end in markdown(text).code_blocks:
        space = _SPACE.match(text, end, last)
        end = space.end() if space else end
        if first <= start and end <= last and not overlapping(values, (start, end)):
            spans.append((start, end, False))
    return iter(sorted(spans))


def _values(text: str, first: int, last: int, split: Split) -> Iterator[tuple[Interval, bool]]:
    done = first
    for leaf in json_values(text, first, last):
        yield (done, leaf.start()), False
        yield from ((sentence, True) for sentence in _of_leaf(leaf, split))
        done = leaf.end()
    yield (done, last), False


def _of_leaf(leaf: re.Match[str], split: Split) -> Iterator[Interval]:
    """The sentences of a string, with its quotes; nothing is split within quotes."""
    if leaf["string"] is None:
        return iter([leaf.span()])
    later = [start for start, _ in split(*leaf.span("string"))[1:]]
    return pairwise([leaf.start(), *later, leaf.end()])


def sentence_spans(
    text: str, markers: Sequence[Interval], splitter: Splitter, first: int, last: int
) -> list[Interval]:
    """Characters of the sentences in [first, last) of a text with these citation markers.

    Text without a word belongs to the sentence before it, and so do markers and white space that
    the splitter left before a sentence. No sentence ends within a marker.
    """
    spans: list[Interval] = []
    for start, end in split_spans(_readable(text, markers, first, last), splitter):
        start, end = max(first + start, spans[-1][1] if spans else first), first + end
        own = _markers_end(text, markers, start, end) if spans else start
        kept = subtract((own, end), overlapping(markers, (own, end)))
        if spans and not any(any(map(str.isalnum, text[a:b])) for a, b in kept):
            own = end
        if own > start:
            spans[-1] = spans[-1][0], own
        if own < end:
            spans.append((own, end))
    return spans


def _readable(text: str, markers: Sequence[Interval], first: int, last: int) -> str:
    """[first, last) of a text, with white space for the markers after a full stop."""
    readable = ""
    done, is_after_stop = first, False
    for start, end in overlapping(markers, (first, last)):
        start, end = max(start, first), min(end, last)
        between = text[done:start]
        is_run = is_after_stop and not between.strip(" \t,;")
        is_after_stop = is_run or _STOPPED.search(between[-_MAX_CLOSING:]) is not None
        readable += " " * len(between) if is_run else between
        readable += " " * (end - start) if is_after_stop else text[start:end]
        done = end
    return readable + text[done:last]


def _markers_end(text: str, markers: Sequence[Interval], start: int, end: int) -> int:
    """The end of the white space and the markers with which [start, end) begins."""
    for first, last in overlapping(markers, (start, end)):
        if text[start:first].strip():
            break
        after = _AFTER_MARKER.match(text, last, max(last, end))
        start = after.end() if after else last
    return max(start, end - len(text[start:end].lstrip()))
