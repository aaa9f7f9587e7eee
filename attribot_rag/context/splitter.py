"""Splitters of documents into sentences, paragraphs or the caller's pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import sentencex

from attribot_rag.context.structure import blocks
from attribot_rag.errors import InvalidInput

Splitter = Callable[[str], Sequence[str]]

# Unpaired surrogates, which a broken text may hold and sentencex does not accept.
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARK = re.compile(r"\s*(?:[-*+•‣◦▪>]|#{1,6}|\(?(?:\d{1,3}|[A-Za-z])[.)])\s*")
_CLOSING = re.compile(r"[*_`\"”»)\]]+(?:\s+|\Z)")
_PARAGRAPH = re.compile(r".+?(?:\n[ \t\r]*\n\s*|\Z)", re.DOTALL)


def sentences(text: str, language: str = "en") -> list[str]:
    """Sentences by sentencex, which knows the abbreviations of many languages.

    Headings, list items and rows of tables are not joined with sentences around them; a row is not
    split. The number or mark of an item belongs to its first sentence, and a piece without letters
    or digits (a rule) to the piece before it.
    """
    pieces: list[str] = []
    for block in blocks(text):
        for piece in [block.text] if block.row else _segmented(block.text, language):
            says_nothing = not any(map(str.isalnum, piece)) and not _MARK.fullmatch(piece)
            if pieces and (says_nothing or _MARK.fullmatch(pieces[-1])):
                pieces[-1] += piece
            else:
                pieces.append(piece)
    return pieces


def _segmented(text: str, language: str) -> list[str]:
    """The sentences of a block, with closing quotation marks and mark-up."""
    ends = list(accumulate(map(len, sentencex.segment(language, _SURROGATE.sub("?", text)))))
    for index, end in enumerate(ends):
        closing = _CLOSING.match(text, end) if end and not text[end - 1].isspace() else None
        ends[index] = closing.end() if closing else end
    ends = sorted({0, *ends})
    return [text[start:end] for start, end in pairwise(ends)]


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
