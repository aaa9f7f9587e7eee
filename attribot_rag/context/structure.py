"""The structure of a text: paragraphs, headings, list items and the rows of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_HEADING = re.compile(r" {0,3}#{1,6}\s+\S|\s*(\*\*|__)(?=\S)[^*_\n]+\1:?\s*\Z")
_UNDERLINE = re.compile(r" {0,3}(?:={3,}|-{3,})\s*\Z")
_BULLET = re.compile(r"\s*[-*+•‣◦▪]\s+\S")
_NUMBERED = re.compile(r"\s*\(?(?:(\d{1,3})|[A-Za-z])[.)]\s+\S")
_LETTERED = re.compile(r"\s*[A-Za-z]\.\s")
_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*\Z")
# Delimiters of cells, and the number of consecutive lines with them that make a table.
_DELIMITERS = (
    (re.compile(r"\|"), 2),
    (re.compile(r"\t"), 2),
    (re.compile(r",(?=\S)"), 3),
    (re.compile(r";(?=\S)"), 3),
)


@dataclass(frozen=True)
class Block:
    """Neighbouring lines that belong together; `row` says that they are a row of a table."""

    text: str
    row: bool = False


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a text; joined they are the text.

    Wrapped lines belong together; a blank line, a heading, a list item or a row begins another
    block. The separator row of a table belongs to its header. Consecutive lines with the same
    number (at least two) of pipes or tabs are rows, too, and so are at least three lines with the
    same number of commas or semicolons that no space follows.
    """
    lines = _LINE.findall(text)
    rows = _rows(lines)
    pending, listed, index = "", False, 0
    while index < len(lines):
        line, before = lines[index], lines[index - 1] if index else ""
        end = rows.get(index, index + 1)
        item = _is_item(line, before, listed)
        if pending and line.strip() and (index in rows or item or _parted(before, line)):
            yield Block(pending)
            pending = ""
        if index in rows:
            yield Block("".join(lines[index:end]), row=True)
        else:
            pending += line
        listed = item or (listed and bool(line.strip()))
        index = end
    if pending:
        yield Block(pending)


def _parted(before: str, line: str) -> bool:
    """Whether this line begins another block: after a blank line, or next to a heading."""
    if not before.strip() or _HEADING.match(line) or _HEADING.match(before):
        return True
    return bool(_UNDERLINE.match(before))


def _is_item(line: str, before: str, listed: bool) -> bool:
    """Whether a line begins a list item.

    A wrapped line may begin with a number, too; so a number has to be 1, or follow another item, a
    blank line or a colon.
    """
    if _BULLET.match(line):
        return not _RULE.match(line)
    numbered = _NUMBERED.match(line)
    if not numbered or _LETTERED.match(line):
        return False
    return listed or numbered[1] == "1" or not before.strip() or before.rstrip().endswith(":")


def _rows(lines: Sequence[str]) -> dict[int, int]:
    """For the first line of each row its end; a header's row includes the separator row."""
    rows: dict[int, int] = {}
    index = 0
    while index < len(lines):
        end = _ruled_table_end(lines, index)
        if end:
            rows[index] = index + 2
            index += 2
        end = end or _delimited_end(lines, index)
        for row in range(index, end):
            rows[row] = row + 1
        index = max(index + 1, end)
    return rows


def _ruled_table_end(lines: Sequence[str], start: int) -> int:
    """The end of the table whose header and separator row are at `start`; 0 without a table."""
    header = lines[start : start + 2]
    if len(header) < 2 or not all("|" in line for line in header) or not _RULE.match(header[1]):
        return 0
    end = start + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return end


def _delimited_end(lines: Sequence[str], start: int) -> int:
    """The end of the lines with as many cells as the line at `start`; 0 if there are too few."""
    for delimiter, min_lines in _DELIMITERS:
        num_parted = _num_parted(lines[start], delimiter)
        end = start
        while end < len(lines) and 2 <= num_parted == _num_parted(lines[end], delimiter):
            end += 1
        if end - start >= min_lines:
            return end
    return 0


def _num_parted(line: str, delimiter: re.Pattern[str]) -> int:
    return len(delimiter.findall(line.rstrip("\r\n")))
