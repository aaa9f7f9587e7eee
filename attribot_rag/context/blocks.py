"""Lines of a text that belong together: paragraphs, headings, list items, entries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attribot_rag.context.html_text import BLOCK_START, tags_of
from attribot_rag.context.intervals import Interval
from attribot_rag.context.json_text import json_in, json_members
from attribot_rag.context.rows import RULE, rows_of

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_HEADING = re.compile(r" {0,3}#{1,6}\s+\S|\s*(\*\*|__)(?=\S)[^*_\n]+\1:?\s*\Z")
_UNDERLINE = re.compile(r" {0,3}(?:={3,}|-{3,})\s*\Z")
_BULLET = re.compile(r"\s*[-*+•‣◦▪]\s+\S")
_NUMBERED = re.compile(r"\s*\(?(?:(\d{1,3})|[A-Za-z])[.)]\s+\S")
_LETTERED = re.compile(r"\s*[A-Za-z]\.\s")
# The key of an entry, of YAML, of a settings file or of the head of a letter.
_WORD = r"[^\W\d][\w./-]*"
_KEY = rf"\"[^\"\n]{{1,60}}\"|'[^'\n]{{1,60}}'|{_WORD}|(?![a-z]){_WORD}(?: [\w./-]+){{1,2}}"
_COLON = r"(?:：|:[*_]{0,2}(?=\s|\Z)|=(?=\S))"
_ENTRY = re.compile(rf"(?P<indent>[ \t]*)(?:[-*]\s+)?[*_]{{0,2}}(?:{_KEY})[*_]{{0,2}}\s*{_COLON}")
_OPEN = re.compile(r"[^\n]*[:=：][ \t]*[|>{\[]?[-+]?\s*\Z")


def blocks(text: str) -> Iterator[tuple[str, Interval]]:
    """Neighbouring lines that belong together, and where sentences may end within them.

    Joined, the blocks are the text. Wrapped lines belong together; a blank line, a heading, a list
    item, a row or an entry ("key: value", next to another) begins another block. A key without a
    value belongs to what comes next. Of JSON, each member is a block. No sentence ends within a
    row, nor within JSON but for long strings.
    """
    done = 0
    is_html = tags_of(text).is_html
    found = [span for span in json_in(text, 0, len(text)) if _has_lines_alone(text, *span)]
    for start, end in found:
        yield from _line_blocks(text[done:start], is_html)
        for (first, last), (begin, stop) in json_members(text, start, end, is_line=len(found) > 1):
            yield text[first:last], (begin - first, stop - first)
        done = end
    yield from _line_blocks(text[done:], is_html)


def _has_lines_alone(text: str, start: int, end: int) -> bool:
    before = text[text.rfind("\n", 0, start) + 1 : start]
    after = text[end : (text.find("\n", end) + 1 or len(text) + 1) - 1]
    return not before.strip() and not after.strip()


def _line_blocks(text: str, is_html: bool) -> Iterator[tuple[str, Interval]]:
    lines: list[str] = _LINE.findall(text)
    if is_html:
        lines = [part for line in lines for part in BLOCK_START.split(line) if part]
    rows = rows_of(lines)
    entries = _entries(lines)
    pending, listed, index = "", False, 0
    while index < len(lines):
        line, before = lines[index], lines[index - 1] if index else ""
        end = rows.get(index, index + 1)
        item = _is_item(line, before, listed)
        begins = index in rows or index in entries or item or _parted(before, line)
        begins = begins or (is_html and BLOCK_START.match(line) is not None)
        is_open = index - 1 in entries and _OPEN.fullmatch(before)
        if pending and line.strip() and begins and not is_open:
            yield pending, (0, len(pending))
            pending = ""
        if index in rows:
            yield pending + "".join(lines[index:end]), (0, 0)
            pending = ""
        else:
            pending += line
        listed = item or (listed and bool(line.strip()))
        index = end
    if pending:
        yield pending, (0, len(pending))


def _entries(lines: Sequence[str]) -> set[int]:
    """The lines that begin an entry.

    The entry before or after it is on the next line, or on the next line that is indented less
    than what its value goes on with.
    """
    entries: set[int] = set()
    last, indent = -1, 0
    for index, line in enumerate(lines):
        entry = _ENTRY.match(line)
        if entry:
            if last >= 0:
                entries |= {last, index}
            last, indent = index, len(entry["indent"])
        elif not line.strip() or (any(map(str.isalnum, line)) and _indent(line) <= indent):
            last = -1
    return entries


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


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
        return not RULE.match(line)
    numbered = _NUMBERED.match(line)
    if not numbered or _LETTERED.match(line):
        return False
    return listed or numbered[1] == "1" or not before.strip() or before.rstrip().endswith(":")
