"""The places of an answer's characters in the text that an application made of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.distance import Levenshtein

_MIN_SIMILARITY = 0.6


@dataclass(frozen=True)
class _Block:
    """Characters [start, end) of the answer became [shown_start, shown_end) of the shown text."""

    start: int
    end: int
    shown_start: int
    shown_end: int

    def place(self, position: int) -> int:
        return min(self.shown_start + position - self.start, self.shown_end)


@dataclass(frozen=True)
class Offsets:
    """Maps the characters of an answer to those of `shown`, the text that its caller was given."""

    shown: str
    similarity: float
    _blocks: tuple[_Block, ...]

    @classmethod
    def between(cls, answer: str, shown: str) -> Offsets | None:
        """None if the two have too little in common, or the shown text is blank.

        It may be a part of the answer, or the answer as a parser changed it: stripped, in capitals,
        without mark-up.
        """
        return _offsets(answer, shown) if shown.strip() else None

    def interval(self, start: int, end: int) -> tuple[int, int]:
        """Characters [start, end) of the shown text; none of them if these are not shown."""
        first = self._place(start, 0)
        return first, max(first, self._place(end - 1, 1) if start < end else first)

    def _place(self, position: int, after: int) -> int:
        for block in self._blocks:
            if block.start <= position < block.end:
                return block.place(position + after)
        return len(self.shown)


@dataclass(frozen=True)
class Shown:
    """The place of a response in the text that its caller was given.

    It begins at character `start` of the model's answer. `offsets` map the answer's characters to
    those of another text that was made of it; `is_lost` says that these cannot be told.
    """

    start: int = 0
    offsets: Offsets | None = None
    is_lost: bool = False

    def interval(self, start: int, end: int) -> tuple[int, int]:
        """The place of characters [start, end) of the response."""
        start, end = self.start + start, self.start + end
        return (start, end) if self.offsets is None else self.offsets.interval(start, end)


@lru_cache(maxsize=16)
def _offsets(answer: str, shown: str) -> Offsets | None:
    is_end = answer.rstrip().endswith(shown.rstrip())  # the prompt may stand before it
    if shown in answer and (is_end or 2 * len(shown) >= len(answer)):
        start, length = answer.rindex(shown), len(shown)
        end = start + length
        edges = ((0, start, 0, 0), (start, end, 0, length), (end, len(answer), length, length))
        return Offsets(shown, length / len(answer), tuple(_Block(*edge) for edge in edges))
    before, after = _without_case(answer), _without_case(shown)
    similarity = Levenshtein.normalized_similarity(before, after, score_cutoff=_MIN_SIMILARITY)
    if not similarity:
        return None
    edits = Levenshtein.opcodes(before, after)
    blocks = (
        _Block(edit.src_start, edit.src_end, edit.dest_start, edit.dest_end) for edit in edits
    )
    return Offsets(shown, similarity, tuple(blocks))


def _without_case(text: str) -> str:
    lower = text.lower()
    return lower if len(lower) == len(text) else text
