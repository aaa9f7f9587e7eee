"""Places for citations in an answer, where Markdown shows them and nothing else changes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from attribot_rag.cached_property import cached_property
from attribot_rag.context.splitting.blocks import json_in
from attribot_rag.context.text import Interval, at
from attribot_rag.result.segments import Block, Markdown, markdown

# The rest of a link after its text, or a tag: nothing is put within them, nor within code.
_LINK_OR_TAG = re.compile(
    r"\]\((?:<[^<>\n]*>|[^()\s]*)(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?\s*\)|<[A-Za-z/!?][^<>]*>"
)
_NO_QUOTE_MARK = re.compile(r"[^>\t]")
_CONTAINERS = re.compile(r"(?:[ \t]*(?:>|[-+*][ \t]|\d{1,9}[.)][ \t]))*[ \t]*")
_ONLY_MARKS = re.compile(r"(?:[ \t]*(?:>|[-+*]|\d{1,9}[.)]))*[ \t]*#{0,6}[ \t]*\Z")
_PIPE = re.compile(r"(?<!\\)\|")
_CLOSING_MARKS = re.compile(r"[ \t]+#+[ \t]*\Z")
_KEY = re.compile(r'"(?:[^"\\]|\\.)*"\s*:\s*\Z')
_MAX_KEY = 100
_EMPTY_LINE = re.compile(r"\r?\n[ \t]*\r?\n")
_RAW = ("fence", "code_block", "html_block")


@dataclass(frozen=True)
class Place:
    """A position in the answer, with the separators around a citation there."""

    position: int
    before: str = " "
    after: str = ""


def place_of(text: str, end: int) -> Place:
    """The place of the citation for a sentence that ends at `end`, after its last character.

    Within a cell, before a heading's underline, after a block of code: where the number can be
    seen, and where every block stays what it is.
    """
    return _places(text).of(end)


def place_below_json(text: str, start: int, end: int) -> Place | None:
    """The place below the JSON that holds these characters as one of its values, else None.

    Below the line in which it ends, or its fence.
    """
    places = _places(text)
    return next(
        (places.below_json(json) for json in at(places.json, start) if end <= json[1]), None
    )


def is_in_json(text: str, position: int) -> bool:
    """Whether a character belongs to JSON, or the fence around it."""
    return bool(at(_places(text).json, position))


def value_at(text: str, start: int, end: int) -> str:
    """These characters of JSON, with the key before them."""
    before = text[max(0, start - _MAX_KEY) : start]
    key = _KEY.search(before)
    return f"{key[0] if key else ''}{text[start:end]}"


@lru_cache(maxsize=4)
def _places(text: str) -> _Places:
    return _Places(text, markdown(text))


@dataclass(frozen=True)
class _Places:
    """The places in one text."""

    text: str
    read: Markdown

    @cached_property
    def _blocks(self) -> dict[int, Block]:
        """The block of each line that is no running text."""
        return {
            line: block for block in self.read.blocks for line in range(block.first, block.last)
        }

    @cached_property
    def _wholes(self) -> list[Interval]:
        """Spans that must not be split, in order; the first of overlapping ones."""
        wholes: list[Interval] = []
        links = (match.span() for match in _LINK_OR_TAG.finditer(self.text))
        for start, end in sorted((*self.read.inline_code, *links)):
            if not wholes or start >= wholes[-1][1]:
                wholes.append((start, end))
        return wholes

    @cached_property
    def json(self) -> list[Interval]:
        """Characters of the JSON, in order."""
        return list(json_in(self.text, 0, len(self.text)))

    def below_json(self, json: Interval) -> Place:
        """The place below the line in which the JSON ends, or below its fence."""
        line = self.read.line_at(json[1] - 1)
        block = self._blocks.get(line)
        if block is not None and block.kind in _RAW and (place := self._below(block)):
            return place
        end = self.read.line(line)[1]
        is_followed = bool(self.text[end:].strip()) and not _EMPTY_LINE.match(self.text, end)
        return Place(end, before="\n\n", after="\n" if is_followed else "")

    def of(self, end: int) -> Place:
        """The place in the line of the last character, or in the nearest possible line above."""
        while end > 0:
            line = self.read.line_at(end - 1)
            end = self._after_marks(line, end)
            block = self._blocks.get(line)
            if block is None:
                return Place(self._outside(end))
            place = self._in_block(block, line, end)
            if place is not None:
                return place
            hidden = block.first if block.kind in _RAW else line
            end = len(self.text[: self.read.line(hidden)[0]].rstrip())
            if not end:
                return Place(self.read.line(block.first)[0], before="", after="\n\n")
        return Place(end, before="")

    def _after_marks(self, line: int, end: int) -> int:
        """The end of the line, if only the marks of an item or a heading stand before `end`."""
        start, stop = self.read.line(line)
        if _ONLY_MARKS.match(self.text[start:end]):
            return max(end, start + len(self.text[start:stop].rstrip()))
        return end

    def _in_block(self, block: Block, line: int, end: int) -> Place | None:
        """The place in a line of a block, or below the block; None where it would not be seen."""
        if block.kind == "table_open":
            return Place(self._in_row(block, line, end))
        if block.kind == "heading_open":
            return self._in_heading(block, line, end)
        return self._below(block) if block.kind in _RAW else None

    def _outside(self, end: int) -> int:
        """The position after unsplittable spans, and before a backslash that breaks the line."""
        for start, last in at(self._wholes, end):
            if start < end:
                return last
        if self.text[end : end + 1] not in ("\r", "\n"):
            return end
        num_backslashes = len(self.text[:end]) - len(self.text[:end].rstrip("\\"))
        return end - num_backslashes % 2

    def _in_heading(self, heading: Block, line: int, end: int) -> Place | None:
        """The place before the marks that close a heading; None in its underline."""
        if "#" in heading.markup:
            closing = _CLOSING_MARKS.search(self.text[self.read.line(line)[0] : end])
            return Place(end - len(closing[0]) if closing else self._outside(end))
        is_underline = line == heading.last - 1
        return None if is_underline else Place(self._outside(end))

    def _in_row(self, table: Block, line: int, end: int) -> int:
        """Move a position into a rendered cell: surplus cells of a row are not rendered."""
        separator = table.first + 1
        line = table.first if line == separator else line
        num_columns = len(self._cell_ends(separator))
        last_cell_end = self._cell_ends(line)[:num_columns][-1]
        start = self.read.line(line)[0]
        limit = start + len(self.text[start:last_cell_end].rstrip())
        return end if start < end < limit else limit

    def _cell_ends(self, line: int) -> list[int]:
        """The ends of a row's cells: at its pipes, or at the end of the line."""
        start, end = self.read.line(line)
        end = start + len(self.text[start:end].rstrip())
        first = start + len(self._containers(start, end))
        pipes = [match.start() for match in _PIPE.finditer(self.text, first, end)]
        if pipes and pipes[0] == first:
            pipes = pipes[1:]
        return pipes if pipes and pipes[-1] == end - 1 else [*pipes, end]

    def _below(self, block: Block) -> Place | None:
        """A line of its own below a block; None where it would be in the block or end a list."""
        last = block.last - 1
        while last > block.first and not self._content(last):
            last -= 1
        start, end = self.read.line(last)
        prefix = ""
        if block.kind == "fence":
            if last == block.first or not _closes(self._content(last), block.markup):
                return None
            prefix = _NO_QUOTE_MARK.sub(" ", self._containers(start, end))
        elif block.level:
            return None
        newline = "\r\n" if self.text.startswith("\r\n", end) else "\n"
        empty_line = newline + prefix.rstrip()
        is_followed = last + 1 < len(self.read.line_starts) and self._content(last + 1)
        return Place(
            end,
            before=(empty_line if block.kind == "html_block" else "") + newline + prefix,
            after=empty_line if is_followed else "",
        )

    def _containers(self, start: int, end: int) -> str:
        """The marks of quotes and lists with which a line begins."""
        marks = _CONTAINERS.match(self.text, start, end)
        return marks[0] if marks else ""

    def _content(self, line: int) -> str:
        """A line without white space and marks of quotes around it."""
        return self.text[slice(*self.read.line(line))].strip(" \t>")


def _closes(line: str, fence: str) -> bool:
    return not line.strip(fence[0]) and len(line) >= len(fence)
