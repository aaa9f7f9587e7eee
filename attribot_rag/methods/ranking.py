"""Scores by which the units of a scorer are ranked, made when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attribot_rag.methods.base import Part, Scores, best, in_turn, span_totals


@dataclass
class Ranking:
    """Scores that rank all units for a part; `_estimated` adds them once, when they are needed."""

    scores: Scores
    _estimated: Callable[[Scores], Scores] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether units were not estimated yet."""
        return self._estimated is not None

    def estimate(self) -> None:
        """Add what ranks the units, if that was not done."""
        if self._estimated is not None:
            self.scores, self._estimated = self._estimated(self.scores), None

    def of(self, part: Part) -> Sequence[int]:
        """All units by their scores of the part and, in turn, by attention; none without scores."""
        self.estimate()
        rows, attention = self.scores.token_scores, self.scores.attention
        if not any(row is not None for row in rows):
            return ()
        attended = [] if attention is None else [best(attention)]
        return in_turn([best(span_totals(rows, part.tokens)), *attended])
