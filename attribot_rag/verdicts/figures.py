"""Numbers in a sentence, and which source each of them comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attribot_rag.methods.base import TokenScores
from attribot_rag.verdicts.options import VerdictOptions

NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")

_MARGIN = 2.0


@dataclass(frozen=True)
class Figure:
    """One number of a sentence, with effects in nats, summed over its `tokens`.

    `surprise` is how unlikely the model finds the number without the context; `reliance` is the
    effect of the context, `effects` are those of single sources.
    """

    tokens: tuple[int, ...]
    effects: Mapping[int, float]
    reliance: float
    surprise: float

    @classmethod
    def of(
        cls,
        tokens: tuple[int, ...],
        token_scores: Sequence[TokenScores | None],
        reliance: TokenScores,
        log_likelihoods: TokenScores,
    ) -> Figure:
        """The figure with these response tokens; `log_likelihoods` are those with the context."""
        worth = sum(reliance[i] for i in tokens)
        surprise = worth - sum(log_likelihoods[i] for i in tokens)
        return cls(tokens, totals(token_scores, tokens), worth, surprise)

    def is_new(self, options: VerdictOptions) -> bool:
        """Whether the question, the answer so far and the model's memory do not foretell it."""
        return self.surprise >= options.min_figure

    def is_retrieved(self, options: VerdictOptions) -> bool:
        """Whether the context matters to it."""
        return self.reliance >= options.min_figure

    def source(self, options: VerdictOptions) -> int | None:
        """The source that it comes from, None if no source has twice the effect of any other."""
        ranked = sorted(self.effects.items(), key=lambda item: -item[1])
        if not ranked or min(ranked[0][1], self.reliance) < options.min_figure:
            return None
        second = ranked[1][1] if len(ranked) > 1 else 0.0
        return ranked[0][0] if ranked[0][1] >= _MARGIN * second else None


def totals(rows: Sequence[TokenScores | None], tokens: Sequence[int]) -> dict[int, float]:
    """The effect of each scored source, by its index, on these tokens."""
    return {index: sum(row[i] for i in tokens) for index, row in enumerate(rows) if row is not None}
