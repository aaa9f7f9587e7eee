"""Blocks of a text that sentences do not cross, and the HTML and JSON in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

from markdown_it.common.html_blocks import block_names

from attribot_rag.context.text import Interval

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_HEADING = re.compile(r" {0,3}#{1,6}\s+\S|\s*(\*\*|__)(?=\S)[^*_\n]+\1:?\s*\Z")
_UNDERLINE = re.compile(r" {0,3}(?:={3,}|-{3,})\s*\Z")
_BULLET = re.compile(r"\s*[-*+•‣◦▪]\s+\S")
_NUMBERED = re.compile(r"\s*\(?(?:(\d{1,3})|[A-Za-z])[.)]\s+\S")
_LETTERED = re.compile(r"\s*[A-Za-z]\.\s")
# The key of an entry: in YAML, in a settings file, or in the head of a letter.
_WORD = r"[^\W\d][\w./-]*"
_KEY = rf"\"[^\"\n]{{1,60}}\"|'[^'\n]{{1,60}}'|{_WORD}|(?![a-z]){_WORD}(?: [\w./-]+){{1,2}}"
_COLON = r"(?:：|:[*_]{0,2}(?=\s|\Z)|=(?=\S))"
_ENTRY = re.compile(rf"(?P<indent>[ \t]*)(?:[-*]\s+)?[*_]{{0,2}}(?:{_KEY})[*_]{{0,2}}\s*{_COLON}")
_OPEN = re.compile(r"[^\n]*[:=：][ \t]*[|>{\[]?[-+]?\s*\Z")


def blocks(text: str) -> list[tuple[str, Interval]]:
    """Blocks of neighbouring lines, each with the characters in which sentences may end.

    Joined, the blocks are the text. Wrapped lines are one block. A blank line, a heading, a list
    item, a row or an entry ("key: value", next to another one) begins a new block. A key without a
    value belongs to the text after it. Each member of JSON is a block. No sentence ends within a
    row, or within JSON except in long strings.
    """
    done = 0
    found: list[tuple[str, Interval]] = []
    is_html = _tags_of(text).is_html
    spans = [span for span in json_in(text, 0, len(text)) if _has_lines_alone(text, *span)]
    for start, end in spans:
        found += _line_blocks(text[done:start], is_html)
        for (first, last), (begin, stop) in _json_members(text, start, end, is_line=len(spans) > 1):
            found.append((text[first:last], (begin - first, stop - first)))
        done = end
    return [*found, *_line_blocks(text[done:], is_html)]


def _has_lines_alone(text: str, start: int, end: int) -> bool:
    before = text[text.rfind("\n", 0, start) + 1 : start]
    after = text[end : (text.find("\n", end) + 1 or len(text) + 1) - 1]
    return not before.strip() and not after.strip()


def _line_blocks(text: str, is_html: bool) -> Iterator[tuple[str, Interval]]:
    lines: list[str] = _LINE.findall(text)
    if is_html:
        lines = [part for line in lines for part in _BLOCK_START.split(line) if part]
    rows = _rows_of(lines)
    entries = _entries(lines)
    pending, listed, index = "", False, 0
    while index < len(lines):
        line, before = lines[index], lines[index - 1] if index else ""
        end = rows.get(index, index + 1)
        item = _is_item(line, before, listed)
        begins = index in rows or index in entries or item or _is_apart(before, line)
        begins = begins or (is_html and _BLOCK_START.match(line) is not None)
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

    Another entry must stand on the next line, or on the next line that is indented less than the
    continuation of the value.
    """
    entries: set[int] = set()
    last, indent = -1, 0
    for index, line in enumerate(lines):
        entry = _ENTRY.match(line)
        if entry:
            if last >= 0:
                entries |= {last, index}
            last, indent = index, len(entry["indent"])
        elif not line.strip() or (
            any(map(str.isalnum, line)) and len(line) - len(line.lstrip()) <= indent
        ):
            last = -1
    return entries


def _is_apart(before: str, line: str) -> bool:
    """Whether a line stands apart from the line before it."""
    if not before.strip() or _HEADING.match(line) or _HEADING.match(before):
        return True
    return bool(_UNDERLINE.match(before))


def _is_item(line: str, before: str, listed: bool) -> bool:
    """Whether a line begins a list item.

    A wrapped line may begin with a number too. So the number must be 1, or follow another item, a
    blank line or a colon.
    """
    if _BULLET.match(line):
        return not _RULE.match(line)
    numbered = _NUMBERED.match(line)
    if not numbered or _LETTERED.match(line):
        return False
    return listed or numbered[1] == "1" or not before.strip() or before.rstrip().endswith(":")


_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*\Z")
# Delimiters of cells, and how many consecutive lines with them make a table.
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


# The rule of a grid, as in reStructuredText and in the output of databases.
_GRID = re.compile(r"[ \t]*\+(?:[-=]{2,}\+)+\s*\Z")
# A cell of CSV in quotes; the beginning of one that goes on after its line, and its end.
_QUOTED = re.compile(r'(?<![^,;\t\n])"(?:[^"]|"")*"(?=[,;\t\r\n]|\Z)')
_OPEN_QUOTED = re.compile(r'(?:\A|[,;\t])"(?:[^"]|"")*\Z')
_CLOSED = re.compile(r'(?:[^"]|"")*"(?=[,;\t\r\n]|\Z)')
_MOST_LINES = 20  # of a record of CSV


def _rows_of(lines: Sequence[str]) -> dict[int, int]:
    """For the first line of each row, the line after its last one.

    The separator row of a table belongs to its header. Other rows are:

    - consecutive lines with the same number (at least two) of pipes or tabs;
    - at least three lines with the same number of commas or semicolons that no space follows. A
      cell in quotes may contain these, and several lines;
    - rows of a grid, with the rules below them;
    - at least two records of a log, which begin with a time or a level.
    """
    rows: dict[int, int] = {}
    index = 0
    kinds = (_ruled_table, _grid_table, _records, _delimited)
    while index < len(lines):
        starts = next(filter(None, (kind(lines, index) for kind in kinds)), [])
        rows.update(pairwise(starts))
        index = starts[-1] if starts else index + 1
    return rows


def _ruled_table(lines: Sequence[str], start: int) -> list[int]:
    """The first lines of the rows of a table with a separator row, and its end."""
    header = lines[start : start + 2]
    if len(header) < 2 or not all("|" in line for line in header) or not _RULE.match(header[1]):
        return []
    end = start + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return [start, *range(start + 2, end + 1)]


def _records(lines: Sequence[str], start: int) -> list[int]:
    """The first lines of the records of the log at `start`, and its end; none without a log.

    Lines without a stamp, such as a traceback, belong to the record before them up to a blank line.
    Blank lines within the log also belong to the record before them.
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


def _grid_table(lines: Sequence[str], start: int) -> list[int]:
    """The first lines of the rows of a table like reStructuredText's grids, and its end.

    A row ends at the next rule. But without "=" and with three rules, as databases print tables,
    each line is a row.
    """
    if not _GRID.match(lines[start]):
        return []
    end = start + 1
    while end < len(lines) and (_GRID.match(lines[end]) or lines[end].lstrip().startswith("|")):
        end += 1
    rules = [index for index in range(start, end) if _GRID.match(lines[index])]
    is_printed = len(rules) == 3 and not any("=" in lines[index] for index in rules)
    body = range(rules[1] + 1, rules[2]) if is_printed else [index + 1 for index in rules[1:-1]]
    return [start, *body, end] if len(rules) > 2 else []


def _delimited(lines: Sequence[str], start: int) -> list[int]:
    """The first lines of the records with as many cells as the one at `start`, and their end.

    Empty if there are too few, or if each has one delimiter and none has a cell in quotes.
    """
    for delimiter, min_lines in _DELIMITERS:
        starts, num_delimiters, quoted = [start], 0, False
        while starts[-1] < len(lines):
            end = _end_of_record(lines, starts[-1])
            record, num_quoted = _QUOTED.subn("-", "".join(lines[starts[-1] : end]))
            count = len(delimiter.findall(record.rstrip("\r\n")))
            num_delimiters = num_delimiters or count
            quoted = quoted or num_quoted > 0
            if not (1 <= count == num_delimiters) or (count == 1 and starts[1:] and not quoted):
                break
            starts.append(end)
        least = (2 if num_delimiters > 1 else 3) if quoted else min_lines
        if len(starts) > least and (quoted or num_delimiters > 1):
            return starts
    return []


def _end_of_record(lines: Sequence[str], start: int) -> int:
    """The line after a record of CSV, which goes on while a cell in quotes is open."""
    end = start + 1
    rest = _QUOTED.sub("-", lines[start])
    while _OPEN_QUOTED.search(rest):
        if end == len(lines) or end - start == _MOST_LINES:
            return start + 1
        closing = _CLOSED.match(lines[end])
        rest = _QUOTED.sub("-", lines[end][closing.end() :]) if closing else '"'
        end += 1
    return end


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
_BLOCK_START = re.compile(rf"(?=<(?:{'|'.join(_BLOCK)}){_ATTRIBUTES})", re.IGNORECASE)
_CODE = r"(?P<fence>`{3,}|~{3,}).*?(?:(?P=fence)|\Z)|(?P<ticks>`+)[^`\n]+(?P=ticks)"
_CODE_OR_TAG = re.compile(rf"{_CODE}|{TAG.pattern}", re.IGNORECASE | re.DOTALL)
_UNCLOSED = frozenset(["br", "hr", "wbr", "img"])
_CLOSED_BY_OTHERS = frozenset(
    ["p", "li", "dt", "dd", "td", "th", "tr", "thead", "tbody", "tfoot", "caption", "col"]
)


@dataclass(frozen=True)
class Tags:
    """The tag names of a document, in lower case; none without HTML.

    A name in angle brackets is a tag only if the document closes it, gives it an attribute, or is
    HTML in which it needs no closing. So `List<A>` and `cp <data>` stay, and so does Markdown's
    code.
    """

    names: frozenset[str] = frozenset()
    is_html: bool = False

    def without(self, text: str) -> str:
        """A part of the document as the page shows it; as it is if it has only tags."""
        shown = _CODE_OR_TAG.sub(self._rendered, text)
        return shown.strip() or text

    def _rendered(self, match: re.Match[str]) -> str:
        name = (match["name"] or "").lower()
        if match["fence"] or match["ticks"] or (name and name not in self.names):
            return match[0]
        return " " if match["parting"] else ""


@lru_cache(maxsize=256)
def _tags_of(document: str) -> Tags:
    """The tags of a document. Each document is read only once."""
    names, is_html = set[str](), False
    for match in _CODE_OR_TAG.finditer(document):
        if match["fence"] or match["ticks"]:
            continue
        name = (match["name"] or "").lower()
        is_sure = bool(match["closing"] or match["attribute"] or not name)
        is_html |= is_sure or name in _UNCLOSED
        if is_sure:
            names.add(name)
    if is_html:
        names |= _UNCLOSED | _CLOSED_BY_OTHERS
    return Tags(frozenset(names - {""}), is_html)


def without_tags(text: str, document: str | None = None) -> str:
    """The text as the page shows it. It may be a part of a longer `document`."""
    return _tags_of(text if document is None else document).without(text)


# Square brackets elsewhere in a line are ordinary text.
_JSON_START = re.compile(r"(?P<fence>```\w*\s*)?(?:\{|^[ \t]*\[)", re.MULTILINE)
_REST = re.compile(r"(?:\s*```)?")
_LINE_REST = re.compile(r"[ \t,]*(?:\r?\n|\Z)")
_DECODER = json.JSONDecoder()
# Each failure reads the text up to its place. After so many, brackets are code or broken.
_MAX_FAILURES = 200
_STRING = r'"(?P<string>(?:[^"\\]|\\.)*)"(?P<key>\s*:)?'
_LEAF = re.compile(_STRING + r"|-?\d[\d.eE+-]*|true|false")
_TOKEN = re.compile(_STRING + r"|(?P<open>[{\[])|(?P<close>[}\]])|(?P<comma>,\s*)")
# A longer object or list is split into its members, like one that contains others.
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
    """Whether JSON is data and not text in brackets: an object, or a list on its own line."""
    if isinstance(value, dict):
        return True
    return bool(value) and _LINE_REST.match(text, end) is not None


def json_values(text: str, first: int, last: int) -> Iterator[re.Match[str]]:
    """Strings, numbers and truth values of the JSON in [first, last).

    `string` is the content of one.
    """
    for leaf in _LEAF.finditer(text, first, last):
        if leaf["key"] is None and (leaf["string"] is None or leaf["string"].strip()):
            yield leaf


@dataclass
class _JsonContainer:
    """An object or a list: where it begins, and its members."""

    start: int
    flat: bool = True
    commas: list[int] = field(default_factory=list)


def _json_members(
    text: str, first: int, last: int, *, is_line: bool = False
) -> Iterator[tuple[Interval, Interval]]:
    """The members of the JSON in [first, last), each with its only string, if it has one.

    Together they are the whole JSON. A short object or list without others in it is one member; the
    outermost one only if it `is_line`, one of several. The string is empty if there is none.
    """
    cuts: list[int] = []
    records: list[Interval] = []
    containers: list[_JsonContainer] = []
    for token in _TOKEN.finditer(text, first, last):
        if token["open"]:
            for outer in containers[-1:]:
                outer.flat = False
            containers.append(_JsonContainer(token.start()))
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


_MARKDOWN_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)


def heading_before(text: str, end: int) -> str:
    """The last Markdown heading that ends before this character, '' for none."""
    *_, last = [None, *_MARKDOWN_HEADING.finditer(text, 0, end)]
    return "" if last is None else last[1]
