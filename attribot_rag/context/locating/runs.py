"""Common runs of a document and the prompt, found in about linear time."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from rapidfuzz.distance import Postfix, Prefix

from attribot_rag.context.locating.aligned_text import AlignedText
from attribot_rag.context.locating.text_index import TextIndex
from attribot_rag.context.words import num_unspaced

_MAX_PLACES = 64
# What follows a text that was cut within a word, and what precedes a text without its beginning.
_CUT_AFTER = re.compile(r"[^\S\n]*(?:\Z|\n|…|\.\.|[\[\]<>(){}|\"”»*#=~])")
_CUT_BEFORE = re.compile(r"(?:\A|\n|…|\.\.|[\[\]<>(){}|\"“«*#=~])[^\S\n]*\Z")
_MAX_SPACE = 20
_BETWEEN_DIGITS = frozenset(".,:;/-")
_WITHIN_WORDS = frozenset("'’\u00ad\u200b\u200c\u200d\u2060\ufeff")


class Run(NamedTuple):
    """Equal text: `length` characters from `first` in the document and `start` in the prompt."""

    first: int
    start: int
    length: int

    @property
    def last(self) -> int:
        """The end in the document."""
        return self.first + self.length

    @property
    def end(self) -> int:
        """The end in the prompt."""
        return self.start + self.length


def common_runs(document: str, prompt: TextIndex, length: int, stride: int) -> Iterator[Run]:
    """Maximal common runs: all of at least `length` + `stride` - 1 characters, some shorter.

    Runs whose n-grams of this length all stand in more than 64 places are left out: such text is
    not specific to a document.
    """
    text = prompt.text
    hits = prompt.hits(document, length, stride, _MAX_PLACES * len(document))
    done: dict[int, int] = {}
    for at, place in sorted(hits):
        diagonal = place - at
        if at < done.get(diagonal, 0):
            continue
        before = Postfix.similarity(document[:at], text[max(0, diagonal) : place])
        after = Prefix.similarity(document[at:], text[place : diagonal + len(document)])
        done[diagonal] = at + after
        yield Run(at - before, place - before, before + after)


def at_words(document: AlignedText, prompt: AlignedText, run: Run) -> Run:
    """The run without the incomplete words at its ends; empty if nothing is left.

    An incomplete word of the document stays if the prompt's text also ends there: at the end of
    a line, a quotation or an element, or before an ellipsis.
    """
    first, start, length = run
    while length and not _ends(document, prompt, first + length, start + length):
        length -= 1
    while length and not _begins(document, prompt, first, start):
        first, start, length = first + 1, start + 1, length - 1
    return Run(first, start, length)


def _ends(document: AlignedText, prompt: AlignedText, at: int, place: int) -> bool:
    if prompt.text[place - 1] == " " or not is_border(prompt, place):
        return False
    end = prompt.source_span(place - 1, place)[1]
    return is_border(document, at) or bool(_CUT_AFTER.match(prompt.source, end))


def _begins(document: AlignedText, prompt: AlignedText, at: int, place: int) -> bool:
    if prompt.text[place] == " " or not is_border(prompt, place):
        return False
    start = prompt.source_span(place, place + 1)[0]
    return is_border(document, at) or bool(
        _CUT_BEFORE.search(prompt.source[max(0, start - _MAX_SPACE) : start])
    )


def is_border(text: AlignedText, index: int) -> bool:
    """Whether this place of a text's letters is not inside a word, number or character.

    In scripts without spaces every character is a word.
    """
    if not 0 < index < len(text.text):
        return True
    if " " in text.text[index - 1 : index + 1]:
        return True
    if not _BETWEEN_DIGITS.isdisjoint(text.text[index - 1 : index + 1]):
        return False
    if not text.is_whole(index, index):
        return False
    before, after = (text.source[text.origins[place, 0]] for place in (index - 1, index))
    if unicodedata.category(after)[0] == "M":
        return False
    return not _WITHIN_WORDS.issuperset(text.gap(index)) or num_unspaced(before + after) > 0
