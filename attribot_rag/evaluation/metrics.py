"""How close approximate scores are to exact leave-one-out, and to what people marked."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from sklearn.metrics import average_precision_score

from attribot_rag.verdicts import outliers

MIN_FOR_INTERVAL = 6

Found = Sequence[float | None]
"""Scores of all sources; None for one that the method did not score."""


def exact_outliers(exact: Sequence[float]) -> frozenset[int]:
    """The sources that stand out in the truth, by the paper's form of the ESD test."""
    return frozenset(outliers(exact, form="paper"))


def average_precision(found: Found, wanted: Collection[int]) -> float | None:
    """Of the ranking by score; what was not scored ties at its end. None if nothing is wanted."""
    if not wanted:
        return None
    labels = [index in wanted for index in range(len(found))]
    return float(average_precision_score(labels, _with_last(found)))


def recall(found: Found, wanted: Collection[int], top: int) -> float | None:
    """Which share of what is wanted is among the `top` scores; None if nothing is wanted.

    Equal scores at the edge count by the chance to be among them. What was not scored never is.
    """
    if not wanted:
        return None
    scores = {index: score for index, score in enumerate(found) if score is not None}
    if top < 1 or not scores:
        return 0.0
    edge = sorted(scores.values(), reverse=True)[:top][-1]
    above = {index for index, score in scores.items() if score > edge}
    tied = {index for index, score in scores.items() if score == edge}
    chance = min(1.0, (top - len(above)) / len(tied))
    return (len(above & set(wanted)) + chance * len(tied & set(wanted))) / len(wanted)


def best(found: Found, top: int, key: str) -> list[int]:
    """The sources with the `top` highest scores, best first; what was not scored is not there.

    Equal scores are in random order, always the same for a `key`.
    """
    order = random.Random(key).sample(range(len(found)), len(found))
    scored = [(score, index) for index in order if (score := found[index]) is not None]
    return [index for _, index in sorted(scored, key=lambda one: -one[0])[:top]]


def captured(found: Found, exact: Found, top: int, key: str) -> float | None:
    """The exact scores of the `top` best sources, over the largest sum that so many can have.

    Only positive exact scores count in the latter; None where there are none. A method that scored
    fewer sources has what these have. Equal scores are in random order, always the same for a
    `key`.
    """
    truth = [score or 0.0 for score in exact]
    possible = sum(sorted((score for score in truth if score > 0), reverse=True)[:top])
    return sum(truth[index] for index in best(found, top, key)) / possible if possible else None


def rms_difference(found: Found, exact: Found) -> float | None:
    """Root mean square, in nats, over the sources that both scored; None without any."""
    pairs = zip(found, exact, strict=True)
    known = [one - other for one, other in pairs if one is not None and other is not None]
    return float(np.sqrt(np.mean(np.square(known)))) if known else None


def pearson(found: Found, exact: Found) -> float | None:
    """Over all sources, those without a score counting as 0.

    None where the exact scores are constant; 0 where only the found ones are, which tell nothing.
    """
    return _correlation(stats.pearsonr, found, exact)


def spearman(found: Found, exact: Found) -> float | None:
    """As `pearson`, of the ranks."""
    return _correlation(stats.spearmanr, found, exact)


def outlier_recall(
    found: Found, wanted: Collection[int], fractions: Sequence[float]
) -> list[float]:
    """Which share of the outliers is among the best fraction of all sources, for each fraction."""
    kept = [round(fraction * len(found)) for fraction in fractions]
    return [recall(found, wanted, count) or 0.0 for count in kept]


def linear_datamodeling_score(
    found: Found, ablations: Mapping[frozenset[int], float]
) -> float | None:
    """Spearman correlation of the summed scores of what was removed with its exact score.

    Over random ablations (Park et al., TRAK, 2023; Cohen-Wang et al., ContextCite, 2024). None
    for fewer than three ablations, or where their exact scores are constant; 0 for constant sums.
    """
    if len(ablations) < 3:
        return None
    predicted = [sum(found[index] or 0.0 for index in removed) for removed in ablations]
    return spearman(predicted, list(ablations.values()))


@dataclass(frozen=True)
class Estimate:
    """A mean over examples with its 95 % bootstrap interval, if they are enough for one."""

    mean: float
    low: float | None
    high: float | None
    count: int

    def __format__(self, form: str) -> str:
        if self.low is None or self.high is None:
            return f"{self.mean:{form}}"
        return f"{self.mean:{form}} [{self.low:{form}}, {self.high:{form}}]"


def estimate(values: Collection[float | None]) -> Estimate | None:
    """The mean of what is not None, with its percentile interval; None without any.

    Fewer than six have no interval: theirs would hardly be wider than from the least to the most.
    """
    known = np.array([value for value in values if value is not None])
    if not len(known):
        return None
    mean = float(known.mean())
    if len(known) < MIN_FOR_INTERVAL:
        return Estimate(mean, None, None, len(known))
    interval = stats.bootstrap(
        (known,), np.mean, n_resamples=2000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    return Estimate(mean, float(interval.low), float(interval.high), len(known))


def _with_last(found: Found) -> list[float]:
    last = min((score for score in found if score is not None), default=0.0) - 1.0
    return [last if score is None else score for score in found]


def _correlation(statistic: object, found: Found, exact: Found) -> float | None:
    filled, truth = ([one or 0.0 for one in side] for side in (found, exact))
    if np.ptp(truth) == 0:
        return None
    if np.ptp(filled) == 0:
        return 0.0
    return float(statistic(filled, truth).statistic)  # type: ignore[operator]
