"""Lines that are not split: rows of tables, and the records of logs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*\Z")
# Delimiters of cells, and the number of consecutive lines with them that make a table.
_DELIMITERS = (
    (re.compile(r"\|"), 2),
    (re.compile(r"\t"), 2),
    (re.compile(r",(?=\S)"), 3),
    (re.compile(r";(?=\S)"), 3),
)

# A date or a time, a client's address, or a level.
_STAMP = re.compile(
    r"\s*(?:<\d+>)?[\[(]?(?:\d{4}[-/.]\d\d[-/.]\d\d[T ,]+\d\d:\d\d"
    r"|\d\d?[-/.]\w{2,3}[-/.]\d{2,4}[T :]+\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
    r"|\d\d:\d\d:\d\d(?:[.,]\d+)?(?!.*-->)|\d+(?:\.\d+){3} \S+ \S+ \["
    r"|(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b[\]:)| ])"
)


def rows_of(lines: Sequence[str]) -> dict[int, int]:
    """For the first line of each row the line after its last.

    The separator row of a table belongs to its header. Consecutive lines with the same number (at
    least two) of pipes or tabs are rows, too, and so are at least three lines with the same number
    of commas or semicolons that no space follows. A record of a log begins with a time or a level;
    there are at least two.
    """
    rows: dict[int, int] = {}
    index = 0
    while index < len(lines):
        end = _ruled_table_end(lines, index)
        if end:
            rows[index] = index + 2
            index += 2
        records = [] if end else _records(lines, index)
        end = end or _delimited_end(lines, index)
        if records:
            rows.update(pairwise(records))
            end = records[-1]
        else:
            rows.update((row, row + 1) for row in range(index, end))
        index = max(index + 1, end)
    return rows


def _ruled_table_end(lines: Sequence[str], start: int) -> int:
    """The end of the table whose header and separator row are at `start`; 0 without a table."""
    header = lines[start : start + 2]
    if len(header) < 2 or not all("|" in line for line in header) or not RULE.match(header[1]):
        return 0
    end = start + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return end


def _records(lines: Sequence[str], start: int) -> list[int]:
    """Where the records of the log that begins at `start` begin, and its end; none without a log.

    Lines without a stamp, such as a traceback's, belong to the record before them up to a blank
    line, and so do blank lines within the log.
    """
    begin, end, index = [], start, start
    while index < len(lines):
        if _STAMP.match(lines[index]):
            begin.append(index)
        elif index == start or (lines[index].strip() and not lines[index - 1].strip()):
            break
        index += 1
        end = index if lines[index - 1].strip() else end
    return [*begin, end] if len(begin) > 1 else []


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
