"""The sentences and rows of a text, and which of them a sentence is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from attribot_rag.annotation import Check, Interval, same_word, sentences, words

_CELLS = re.compile(r"[|\t;]|(?<!\d),(?=\S)|,(?=[^\W\d])")
_NUMERAL = re.compile(r"\d+(?:[.,:]\d+)*")
_LEAST_LETTERS = 3


@dataclass(frozen=True)
class Statement:
    """A sentence or a row of a text, which ends before its character `end`."""

    end: int
    text: str

    @property
    def is_row(self) -> bool:
        return _CELLS.search(self.text) is not None

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words in lower case, without short ones, and its numbers."""
        long = (
            word
            for word in words(_NUMERAL.sub(" ", self.text.lower()))
            if len(word) >= _LEAST_LETTERS or not word.isascii()
        )
        return frozenset((*long, *_NUMERAL.findall(self.text)))

    def num_shared(self, other: Statement) -> int:
        """How many words of another statement it has."""
        return sum(any(same_word(word, own) for own in self.words) for word in other.words)


def value_check(
    kind: str, text: str, span: Interval, source: int | None = None, shown: str | None = None
) -> Check:
    """The check of these characters of a sentence, with the value that a source has there."""
    start, end = span
    value = text[start:end]
    return Check(start=start, end=end, kind=kind, value=value, source_value=shown, source=source)


@dataclass(frozen=True)
class StatedValue:
    """A value as it is `shown` in the `statement` of a source, and whether others confirm it."""

    source: int
    shown: str
    statement: Statement
    is_likely: bool


def statements(text: str, language: str) -> tuple[Statement, ...]:
    """The sentences of a text in order. If all lines have cells, the lines."""
    lines = text.splitlines(keepends=True)
    are_rows = all(_CELLS.search(line) for line in lines)
    pieces = lines if are_rows else sentences(text, language)
    ends = accumulate(map(len, pieces))
    return tuple(Statement(end, piece) for end, piece in zip(ends, pieces, strict=True))


def spoken_of(
    sentence: str, values: Sequence[StatedValue], texts: Iterable[Statement]
) -> StatedValue | None:
    """The value in the statement that shares most words with a sentence.

    None if several values differ there, or if it stands in a row and another row shares more words.
    """
    own = Statement(len(sentence), sentence)
    ranks = [(value.statement.num_shared(own), value.is_likely) for value in values]
    best = max(ranks)
    first, *others = (value for value, rank in zip(values, ranks, strict=True) if rank == best)
    if any(other.shown != first.shown for other in others):
        return None
    rows = (text for text in texts if first.statement.is_row and text.is_row)
    return None if any(row.num_shared(own) > best[0] for row in rows) else first
