"""An answer's characters in a text that an application derived from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.distance import Levenshtein

from attribot_rag.context.alignment import places_in

_MIN_SIMILARITY = 0.6


@dataclass(frozen=True)
class Offsets:
    """Maps characters of an answer to the text that its reader saw (`shown`)."""

    shown: str
    similarity: float
    _places: tuple[int, ...]

    @classmethod
    def between(cls, answer: str, shown: str) -> Offsets | None:
        """Align two texts; None if they have too little in common, or the second is blank.

        The second is a part of the answer, or the answer as a parser changed it: stripped, in
        capitals, without mark-up.
        """
        return _offsets(answer, shown) if shown.strip() else None

    def interval(self, start: int, end: int) -> tuple[int, int]:
        """The characters [start, end) of the shown text; an empty interval if it lacks them."""
        first = self._places[start]
        last = min(self._places[end - 1] + 1, self._places[end]) if start < end else first
        return first, max(first, last)


@dataclass(frozen=True)
class Shown:
    """The place of a response in its caller's text.

    It begins at character `start` of the model's answer. `offsets` map the answer's characters to
    those of another text that was made of it; `is_lost` says that these are unknown.
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
        places = [min(max(index - start, 0), length) for index in range(len(answer) + 1)]
        return Offsets(shown, length / len(answer), tuple(places))
    before, after = _without_case(answer), _without_case(shown)
    similarity = Levenshtein.normalized_similarity(before, after, score_cutoff=_MIN_SIMILARITY)
    if not similarity:
        return None
    return Offsets(shown, similarity, tuple(places_in(after, before)))


def _without_case(text: str) -> str:
    lower = text.lower()
    return lower if len(lower) == len(text) else text
