"""Splitters of documents into sentences, paragraphs or the caller's pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from attribot_rag.context.splitting.blocks import blocks
from attribot_rag.context.splitting.html_text import TAG
from attribot_rag.context.splitting.sentence_ends import sentence_ends
from attribot_rag.errors import InvalidInput

Splitter = Callable[[str], Sequence[str]]

_MARK = re.compile(r"\s*(?:[-*+•‣◦▪>]|#{1,6}|\(?(?:\d{1,3}|[A-Za-z])[.)])\s*")
_PARAGRAPH = re.compile(r".+?(?:\n[ \t\r]*\n\s*|\Z)", re.DOTALL)


def sentences(text: str, language: str | None = None) -> list[str]:
    """The sentences of a text; its language, if it is not told, is detected.

    Headings, list items, rows of tables, records of logs, entries of YAML and members of JSON are
    not joined with what stands around them; rows and records are not split. The number or mark of
    an item belongs to its first sentence, and a piece without letters or digits (a rule) to the
    piece before it.
    """
    language = language or language_of(text)
    pieces: list[str] = []
    for block, (first, last) in blocks(text):
        ends = [first + end for end in sentence_ends(block[first:last], language)[:-1]]
        for start, end in pairwise([0, *ends, len(block)]):
            piece = block[start:end]
            if pieces and (_says_nothing(piece) or _begins(pieces[-1])):
                pieces[-1] += piece
            else:
                pieces.append(piece)
    return pieces


def _says_nothing(piece: str) -> bool:
    return not _has_words(piece) and not _MARK.fullmatch(piece)


def _begins(piece: str) -> bool:
    """Whether it is a number or mark, or what opens, of what comes after it."""
    return _MARK.fullmatch(piece) is not None or not _has_words(piece)


def _has_words(piece: str) -> bool:
    return any(map(str.isalnum, TAG.sub("", piece)))


def paragraphs(text: str) -> list[str]:
    """Blocks of text between blank lines, with the blank lines after them."""
    return _PARAGRAPH.findall(text)


def make_splitter(unit: str | Splitter, language: str | None) -> Splitter:
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


if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_DEFAULT = "en"
# Below this, too many single sentences are taken for another language:
# see docs/evaluation/reliability.md.
_MIN_CONFIDENCE = 0.5
_MAX_LENGTH = 400


def language_of(text: str, others: Iterable[str] = ()) -> str:
    """The ISO 639 code of a text's language, by its beginning.

    A text that is too short to tell has the language of the first of the `others` that is not, or
    else English.
    """
    detected = (_detected(one[:_MAX_LENGTH]) for one in (text, *others))
    return next(filter(None, detected), _DEFAULT)


@lru_cache(maxsize=4096)
def _detected(text: str) -> str | None:
    language, confidence = _identifier().classify(text)
    # zxx: code, figures and the like
    return language if confidence >= _MIN_CONFIDENCE and language != "zxx" else None


@lru_cache(maxsize=1)
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
