"""Metrics of approximate scores against exact scores, their outliers, and the evidence."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from sklearn.metrics import average_precision_score

MIN_FOR_INTERVAL = 6

SourceScores = Sequence[float | None]
"""[num_sources]; None for a source that the method did not score."""


def average_precision(scores: SourceScores, wanted: Collection[int]) -> float | None:
    """Average precision of the ranking by score; unscored sources tie at its end.

    None if no source is wanted.
    """
    if not wanted:
        return None
    labels = [index in wanted for index in range(len(scores))]
    last = min((score for score in scores if score is not None), default=0.0) - 1.0
    filled = [last if score is None else score for score in scores]
    return float(average_precision_score(labels, filled))


def recall(scores: SourceScores, wanted: Collection[int], top: int) -> float | None:
    """The share of the wanted sources among the `top` scores; None if no source is wanted.

    Equal scores at the edge count by their chance to be among them; unscored sources never are.
    """
    if not wanted:
        return None
    scored = {index: score for index, score in enumerate(scores) if score is not None}
    if top < 1 or not scored:
        return 0.0
    edge = sorted(scored.values(), reverse=True)[:top][-1]
    above = {index for index, score in scored.items() if score > edge}
    tied = {index for index, score in scored.items() if score == edge}
    chance = min(1.0, (top - len(above)) / len(tied))
    return (len(above & set(wanted)) + chance * len(tied & set(wanted))) / len(wanted)


def best(scores: SourceScores, top: int, key: str) -> list[int]:
    """The sources with the `top` highest scores, best first; only scored sources.

    Equal scores are in random order, seeded by `key`.
    """
    order = random.Random(key).sample(range(len(scores)), len(scores))
    scored = [(score, index) for index in order if (score := scores[index]) is not None]
    return [index for _, index in sorted(scored, key=lambda pair: -pair[0])[:top]]


def captured(scores: SourceScores, exact: SourceScores, top: int, key: str) -> float | None:
    """The sum of the exact scores of the `top` best sources, over the largest possible sum.

    Only positive exact scores count in the latter; None if there are none. A method may have scored
    fewer sources than `top`. Equal scores are in random order, seeded by `key`.
    """
    truth = [score or 0.0 for score in exact]
    possible = sum(sorted((score for score in truth if score > 0), reverse=True)[:top])
    return sum(truth[index] for index in best(scores, top, key)) / possible if possible else None


def rms_difference(scores: SourceScores, exact: SourceScores) -> float | None:
    """Root mean square difference in nats over the sources that both scored; None without any."""
    pairs = zip(scores, exact, strict=True)
    errors = [score - truth for score, truth in pairs if score is not None and truth is not None]
    return float(np.sqrt(np.mean(np.square(errors)))) if errors else None


def pearson(scores: SourceScores, exact: SourceScores) -> float | None:
    """Pearson correlation over all sources; an unscored source counts as 0.

    None where the exact scores are constant; 0 where only `scores` are constant.
    """
    return _correlation(stats.pearsonr, scores, exact)


def spearman(scores: SourceScores, exact: SourceScores) -> float | None:
    """Spearman correlation, otherwise as `pearson`."""
    return _correlation(stats.spearmanr, scores, exact)


def linear_datamodeling_score(
    scores: SourceScores, ablations: Mapping[frozenset[int], float]
) -> float | None:
    """Spearman correlation of the summed scores of removed sources with their exact joint score.

    Over random ablations (Park et al., TRAK, 2023; Cohen-Wang et al., ContextCite, 2024). None
    for fewer than three ablations, or where their exact scores are constant; 0 for constant sums.
    """
    if len(ablations) < 3:
        return None
    predicted = [sum(scores[index] or 0.0 for index in removed) for removed in ablations]
    return spearman(predicted, list(ablations.values()))


@dataclass(frozen=True)
class Estimate:
    """A mean over `count` examples with its 95 % bootstrap interval, None for few examples."""

    mean: float
    low: float | None
    high: float | None
    count: int

    def __format__(self, form: str) -> str:
        if self.low is None or self.high is None:
            return f"{self.mean:{form}}"
        return f"{self.mean:{form}} [{self.low:{form}}, {self.high:{form}}]"


def estimate(values: Collection[float | None]) -> Estimate | None:
    """The mean of the values that are not None, with its percentile interval; None without any.

    Fewer than six values have no interval: it would hardly exceed their range.
    """
    defined = np.array([value for value in values if value is not None])
    if not len(defined):
        return None
    mean = float(defined.mean())
    if len(defined) < MIN_FOR_INTERVAL:
        return Estimate(mean, None, None, len(defined))
    interval = stats.bootstrap(
        (defined,), np.mean, n_resamples=2000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    return Estimate(mean, float(interval.low), float(interval.high), len(defined))


def _correlation(statistic: object, scores: SourceScores, exact: SourceScores) -> float | None:
    filled, truth = ([score or 0.0 for score in side] for side in (scores, exact))
    if np.ptp(truth) == 0:
        return None
    if np.ptp(filled) == 0:
        return 0.0
    return float(statistic(filled, truth).statistic)  # type: ignore[operator]
