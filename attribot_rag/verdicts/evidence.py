"""What the scores say of one sentence of the answer, before anything more is scored."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attribot_rag.methods import Scores
from attribot_rag.methods.base import TokenScores
from attribot_rag.verdicts.options import VerdictOptions

_ENOUGH_SCORES = 8
_ENOUGH_PAIRS = 4
_TO_DEVIATION = 1.4826  # a normal distribution's standard deviation by its median deviation


@dataclass(frozen=True)
class Evidence:
    """Effects on one sentence in nats: `effects` of each scored source, `reliance` of the context.

    `own` is what a source is worth to the tokens for which it is worth more than any other source.
    `noise` is how far scores of what is no cause are from 0.
    """

    effects: Mapping[int, float]
    own: Mapping[int, float]
    reliance: float
    noise: float

    @classmethod
    def of(cls, scores: Scores, tokens: Sequence[int], reliance: TokenScores) -> Evidence:
        """The sums over a sentence's tokens."""
        effects = _totals(scores.token_scores, tokens)
        sample = effects if scores.screened is None else _totals(scores.screened, tokens)
        return cls(
            effects,
            _own(scores.token_scores, tokens),
            sum(reliance[i] for i in tokens),
            _noise(effects, sample),
        )

    def floor(self, options: VerdictOptions) -> float:
        """The nats from which on an effect matters."""
        return max(options.min_effect, options.noise_factor * self.noise)

    def cited(self, options: VerdictOptions) -> tuple[int, ...]:
        """The best source, if its effect matters, and others with a part of their own; best first.

        A source that gives the sentence another fact is worth much to the words of that fact, where
        no other source is. What is only near, or speaks of the same, is worth a little everywhere.
        """
        floor = self.floor(options)
        above = [one for one, effect in self.effects.items() if effect >= floor]
        ranked = sorted(above, key=lambda one: (-self.effects[one], one))
        others = (one for one in ranked[1:] if self.own[one] >= options.min_own)
        return (*ranked[:1], *others)


def _totals(rows: Sequence[TokenScores | None], tokens: Sequence[int]) -> dict[int, float]:
    return {index: sum(row[i] for i in tokens) for index, row in enumerate(rows) if row is not None}


def _own(rows: Sequence[TokenScores | None], tokens: Sequence[int]) -> dict[int, float]:
    known = {index: row for index, row in enumerate(rows) if row is not None}
    own = dict.fromkeys(known, 0.0)
    for token in tokens:
        best = max(known, key=lambda index: known[index][token], default=None)
        if best is not None:
            own[best] += max(0.0, known[best][token])
    return own


def _noise(effects: Mapping[int, float], sample: Mapping[int, float]) -> float:
    """How far scores of sources that are no causes are from 0, as a standard deviation in nats.

    The larger of two robust estimates, each where there are enough scores for it: the spread of
    scores of one kind, and the difference between the exact and the masked score of a source,
    which both take it away. Medians, so that the few causes do not count. 0 if neither is known.
    """
    estimates = [0.0]
    if len(sample) >= _ENOUGH_SCORES:
        middle = statistics.median(sample.values())
        estimates.append(statistics.median(abs(one - middle) for one in sample.values()))
    known = effects.keys() & sample.keys()
    pairs = [abs(effects[one] - sample[one]) for one in known if effects[one] != sample[one]]
    if len(pairs) >= _ENOUGH_PAIRS:
        estimates.append(statistics.median(pairs))
    return _TO_DEVIATION * max(estimates)
