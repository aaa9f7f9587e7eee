"""What the scores say of one sentence of the answer, before anything more is scored."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attribot_rag.methods import Scores
from attribot_rag.methods.base import Row
from attribot_rag.verdicts.options import VerdictOptions
from attribot_rag.verdicts.outliers import outliers

_FEW = 4
_ENOUGH_SCORES = 8
_ENOUGH_PAIRS = 4
_TO_DEVIATION = 1.4826  # a normal distribution's standard deviation by its median deviation


@dataclass(frozen=True)
class Evidence:
    """Effects on one sentence in nats: `effects` of each scored source, `reliance` of the context.

    `sample` are scores of one kind, exact or masked, among which outliers are looked for. `noise`
    is how far scores of what is no cause are from 0.
    """

    effects: Mapping[int, float]
    sample: Mapping[int, float]
    reliance: float
    noise: float

    @classmethod
    def of(cls, scores: Scores, tokens: Sequence[int], reliance: Row) -> Evidence:
        """The sums over a sentence's tokens."""
        effects = _totals(scores.token_scores, tokens)
        sample = effects if scores.screened is None else _totals(scores.screened, tokens)
        return cls(effects, sample, sum(reliance[i] for i in tokens), _noise(effects, sample))

    def standing_out(self, options: VerdictOptions) -> tuple[int, ...]:
        """Sources that are outliers, or carry most of what the context does; best first.

        With four or fewer the test has no power: there all that are above the floor stand out.
        """
        effects = self.effects
        if len(self.sample) > _FEW:
            carrying = options.carrying_share * self.reliance
            found = {one for one in effects if effects[one] >= carrying}
            ids = list(self.sample)
            places = outliers([self.sample[one] for one in ids], alpha=options.alpha)
            found |= {ids[place] for place in places}
        else:
            found = set(effects)
        floor = max(
            options.min_effect,
            options.noise_factor * self.noise,
            options.min_share * max(effects.values(), default=0.0),
        )
        cited = (one for one in found if effects.get(one, 0.0) >= floor)
        return tuple(sorted(cited, key=lambda one: (-effects[one], one)))


def _totals(rows: Sequence[Row | None], tokens: Sequence[int]) -> dict[int, float]:
    return {index: sum(row[i] for i in tokens) for index, row in enumerate(rows) if row is not None}


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
    pairs = [abs(effects[one] - sample[one]) for one in sample if effects[one] != sample[one]]
    if len(pairs) >= _ENOUGH_PAIRS:
        estimates.append(statistics.median(pairs))
    return _TO_DEVIATION * max(estimates)
