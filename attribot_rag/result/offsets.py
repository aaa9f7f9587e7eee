"""An answer's characters in a text that an application derived from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.distance import Levenshtein, Opcode

_MIN_SIMILARITY = 0.6


@dataclass(frozen=True)
class Offsets:
    """Maps characters of an answer to the text that its reader saw (`shown`)."""

    shown: str
    similarity: float
    _edits: tuple[Opcode, ...]

    @classmethod
    def between(cls, answer: str, shown: str) -> Offsets | None:
        """Align two texts; None if they have too little in common, or the second is blank.

        It may be a part of the answer, or the answer as a parser changed it: stripped, in capitals,
        without mark-up.
        """
        return _offsets(answer, shown) if shown.strip() else None

    def interval(self, start: int, end: int) -> tuple[int, int]:
        """The characters [start, end) of the shown text; an empty interval if it lacks them."""
        first = self._place(start, 0)
        return first, max(first, self._place(end - 1, 1) if start < end else first)

    def _place(self, position: int, after: int) -> int:
        for edit in self._edits:
            if edit.src_start <= position < edit.src_end:
                place = edit.dest_start + position + after - edit.src_start
                return min(place, edit.dest_end)
        return len(self.shown)


@dataclass(frozen=True)
class Shown:
    """The place of a response in its caller's text.

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
        edits = (
            Opcode("delete", 0, start, 0, 0),
            Opcode("equal", start, end, 0, length),
            Opcode("delete", end, len(answer), length, length),
        )
        return Offsets(shown, length / len(answer), edits)
    before, after = _without_case(answer), _without_case(shown)
    similarity = Levenshtein.normalized_similarity(before, after, score_cutoff=_MIN_SIMILARITY)
    if not similarity:
        return None
    return Offsets(shown, similarity, tuple(Levenshtein.opcodes(before, after)))


def _without_case(text: str) -> str:
    lower = text.lower()
    return lower if len(lower) == len(text) else text
