"""Places for citations in an answer, where Markdown shows them and nothing else changes."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache

from attribot_rag.result.pieces import Block, Markdown, markdown

# Code, the rest of a link after its text, a tag or an address: nothing is put within them.
_WHOLE = re.compile(
    r"\]\((?:<[^<>\n]*>|[^()\s]*)(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?\s*\)|<[A-Za-z/!?][^<>]*>"
)
_MARK = re.compile(r"[^>\t]")
_CONTAINERS = re.compile(r"(?:[ \t]*(?:>|[-+*][ \t]|\d{1,9}[.)][ \t]))*[ \t]*")
_ONLY_MARKS = re.compile(r"(?:[ \t]*(?:>|[-+*]|\d{1,9}[.)]))*[ \t]*#{0,6}[ \t]*\Z")
_PIPE = re.compile(r"(?<!\\)\|")
_CLOSING_MARKS = re.compile(r"[ \t]+#+[ \t]*\Z")


@dataclass(frozen=True)
class Place:
    """A position in the answer, and what parts the citation from the text around it."""

    position: int
    before: str = " "
    after: str = ""


def place_of(text: str, end: int) -> Place:
    """The place of the citation for a sentence that ends at `end`, after its last character.

    Within a cell, before a heading's underline, after a block of code: where the number can be
    seen, and where every block stays what it is.
    """
    return _places(text).of(end)


@dataclass(frozen=True)
class _Places:
    """The places in one text."""

    read: Markdown

    @cached_property
    def _by_line(self) -> dict[int, Block]:
        return {
            line: block for block in self.read.blocks for line in range(block.first, block.last)
        }

    @cached_property
    def _wholes(self) -> tuple[tuple[int, int], ...]:
        """Spans that are not parted, in order; the first of those that overlap."""
        spans = [
            *self.read.inline_code,
            *(match.span() for match in _WHOLE.finditer(self.read.text)),
        ]
        wholes: list[tuple[int, int]] = []
        for start, end in sorted(spans):
            if not wholes or start >= wholes[-1][1]:
                wholes.append((start, end))
        return tuple(wholes)

    def of(self, end: int) -> Place:
        read, text = self.read, self.read.text
        while end > 0:
            line = read.line_at(end - 1)
            start, stop = read.line(line)
            if _ONLY_MARKS.match(text[start:end]):  # of an item or a heading, whose text follows
                end = max(end, start + len(text[start:stop].rstrip()))
            block = self._by_line.get(line)
            if block is None:
                return Place(self._outside(end))
            if block.kind == "table_open":
                return Place(self._in_row(block, line, end))
            is_underline = block.kind == "heading_open" and "#" not in block.markup
            if block.kind == "heading_open" and not (is_underline and line == block.last - 1):
                heading = text[read.line(line)[0] : end]
                closing = None if is_underline else _CLOSING_MARKS.search(heading)
                return Place(self._outside(end) if closing is None else end - len(closing[0]))
            if block.kind in ("heading_open", "hr", "reference"):  # the last two show no text
                above = line
            elif place := self._after(block):
                return place
            else:
                above = block.first
            upper = len(text[: read.line(above)[0]].rstrip())
            if not upper:
                return self._first_place(block)
            end = upper
        return Place(end, before="")

    def _outside(self, end: int) -> int:
        """The position after what is not parted, and before a backslash that breaks the line."""
        index = bisect_right(self._wholes, (end, -1)) - 1
        if index >= 0 and self._wholes[index][0] < end < self._wholes[index][1]:
            return self._wholes[index][1]
        text = self.read.text
        backslashes = len(text[:end]) - len(text[:end].rstrip("\\"))
        return end - backslashes % 2 if text[end : end + 1] in ("\r", "\n") else end

    def _in_row(self, table: Block, line: int, end: int) -> int:
        """The position in a cell that is shown: a row's surplus cells are not."""
        line = table.first if line == table.first + 1 else line
        columns = len(self._cell_ends(table.first + 1))
        ends = self._cell_ends(line)
        limit = ends[min(columns, len(ends)) - 1]
        start = self.read.line(line)[0]
        limit = start + len(self.read.text[start:limit].rstrip())
        return end if start < end < limit else limit

    def _cell_ends(self, line: int) -> list[int]:
        """The ends of a row's cells: at its pipes, or at the end of the line."""
        start, end = self.read.line(line)
        text = self.read.text
        end = start + len(text[start:end].rstrip())
        containers = _CONTAINERS.match(text, start, end)
        first = containers.end() if containers else start
        pipes = [match.start() for match in _PIPE.finditer(text, first, end)]
        if pipes and pipes[0] == first:
            pipes = pipes[1:]
        return pipes if pipes and pipes[-1] == end - 1 else [*pipes, end]

    def _after(self, block: Block) -> Place | None:
        """A line of its own below a block; None where it would be in the block or end a list."""
        read, text = self.read, self.read.text
        last = block.last - 1
        while last > block.first and not text[slice(*read.line(last))].strip(" \t>"):
            last -= 1
        start, end = read.line(last)
        prefix = ""
        if block.kind == "fence":
            closing = text[start:end].strip(" \t>")
            marks = block.markup
            if last == block.first or closing.strip(marks[0]) or len(closing) < len(marks):
                return None
            containers = _CONTAINERS.match(text, start, end)
            prefix = _MARK.sub(" ", containers[0]) if containers else ""
        elif block.level:
            return None
        newline = "\r\n" if text.startswith("\r\n", end) else "\n"
        parted = newline + prefix.rstrip()
        is_followed = last + 1 < len(read.line_starts) and bool(
            text[slice(*read.line(last + 1))].strip(" \t>")
        )
        return Place(
            end,
            before=(parted if block.kind == "html_block" else "") + newline + prefix,
            after=parted if is_followed else "",
        )

    def _first_place(self, block: Block) -> Place:
        """Above a block before which nothing stands."""
        return Place(self.read.line(block.first)[0], before="", after="\n\n")


@lru_cache(maxsize=4)
def _places(text: str) -> _Places:
    return _Places(markdown(text))
