"""Splitters of documents into sentences, paragraphs or the caller's pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

import sentencex

from attribot_rag.errors import InvalidInput

Splitter = Callable[[str], Sequence[str]]

# Unpaired surrogates, which a broken text may hold and sentencex does not accept.
_SURROGATE = re.compile("[\ud800-\udfff]")
# Quotation marks and brackets in a row; what so many of them open and close says nothing.
_MAX_MARKS = 16
_RUN = re.compile(r"[\"'`´«»‹›„‚“”‘’「」『』()\[\]{}]{17,}")
_WINDOW = 8_192
_MARK = re.compile(r"\s*(?:[-*+•‣◦▪>]|#{1,6}|\(?(?:\d{1,3}|[A-Za-z])[.)])\s*")
_CLOSING = re.compile(r"[*_`\"”»)\]]+(?:\s+|\Z)")
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
_PARAGRAPH = re.compile(r".+?(?:\n[ \t\r]*\n\s*|\Z)", re.DOTALL)


def sentences(text: str, language: str = "en") -> list[str]:
    """Sentences by sentencex, which knows the abbreviations of many languages.

    Headings, list items and rows of tables are not joined with sentences around them; a row is not
    split. The number or mark of an item belongs to its first sentence, and a piece without letters
    or digits (a rule) to the piece before it.
    """
    pieces: list[str] = []
    for block, is_row in _blocks(text):
        for piece in [block] if is_row else _segmented(block, language):
            says_nothing = not any(map(str.isalnum, piece)) and not _MARK.fullmatch(piece)
            if pieces and (says_nothing or _MARK.fullmatch(pieces[-1])):
                pieces[-1] += piece
            else:
                pieces.append(piece)
    return pieces


def _segmented(text: str, language: str) -> list[str]:
    """The sentences of a block, with closing quotation marks and mark-up."""
    ends = list(_sentence_ends(_SURROGATE.sub("?", _RUN.sub(_without_marks, text)), language))
    for index, end in enumerate(ends):
        closing = _CLOSING.match(text, end) if end and not text[end - 1].isspace() else None
        ends[index] = closing.end() if closing else end
    ends = sorted({0, *ends})
    return [text[start:end] for start, end in pairwise(ends)]


def _sentence_ends(text: str, language: str) -> Iterator[int]:
    """Where sentences end, the last at the end of the text.

    The time of sentencex grows with the square of the text, so a long text is read in windows. Each
    begins with the sentence that the window before did not see the end of.
    """
    start = 0
    while len(text) - start > _WINDOW:
        window = text[start : start + _WINDOW]
        ended = list(map(len, sentencex.segment(language, window)))[:-1]
        yield from (start + end for end in accumulate(ended))
        start += sum(ended) or _WINDOW
    last = map(len, sentencex.segment(language, text[start:]))
    yield from (start + end for end in accumulate(last))


def _without_marks(run: re.Match[str]) -> str:
    return run[0][:_MAX_MARKS] + "-" * (len(run[0]) - _MAX_MARKS)


def paragraphs(text: str) -> list[str]:
    """Blocks of text between blank lines, with the blank lines after them."""
    return _PARAGRAPH.findall(text)


def make_splitter(unit: str | Splitter, language: str) -> Splitter:
    """The splitter for 'sentence', 'paragraph' or 'document', or the caller's own."""
    if callable(unit):
        return unit
    known: dict[str, Splitter] = {
        "sentence": lambda text: sentences(text, language),
        "paragraph": paragraphs,
        "document": lambda text: [text],
    }
    if not isinstance(unit, str) or unit not in known:
        raise InvalidInput(f"unknown source unit {unit!r}; choose one of {', '.join(known)}")
    return known[unit]


def split_spans(text: str, splitter: Splitter) -> list[tuple[int, int]]:
    """Character spans [start, end) of the pieces; together they cover the text.

    A blank piece is joined with the piece before it. Raises InvalidInput if the pieces do not
    join to the text.
    """
    pieces = list(splitter(text))
    if not all(isinstance(piece, str) for piece in pieces) or "".join(pieces) != text:
        raise InvalidInput(
            f"the pieces of the splitter do not join to the text that begins {text[:40]!r}; a "
            "splitter must keep every character, spaces between sentences included"
        )
    spans: list[tuple[int, int]] = []
    start = 0
    for piece in pieces:
        end = start + len(piece)
        if spans and not (piece.strip() and text[slice(*spans[-1])].strip()):
            spans[-1] = (spans[-1][0], end)
        elif piece:
            spans.append((start, end))
        start = end
    return spans


def _blocks(text: str) -> Iterator[tuple[str, bool]]:
    """Neighbouring lines that belong together, and whether they are a row of a table.

    Joined, the blocks are the text. Wrapped lines belong together; a blank line, a heading, a list
    item or a row begins another block. The separator row of a table belongs to its header.
    Consecutive lines with the same number (at least two) of pipes or tabs are rows, too, and so are
    at least three lines with the same number of commas or semicolons that no space follows.
    """
    lines = _LINE.findall(text)
    rows = _rows(lines)
    pending, listed, index = "", False, 0
    while index < len(lines):
        line, before = lines[index], lines[index - 1] if index else ""
        end = rows.get(index, index + 1)
        item = _is_item(line, before, listed)
        if pending and line.strip() and (index in rows or item or _parted(before, line)):
            yield pending, False
            pending = ""
        if index in rows:
            yield "".join(lines[index:end]), True
        else:
            pending += line
        listed = item or (listed and bool(line.strip()))
        index = end
    if pending:
        yield pending, False


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
