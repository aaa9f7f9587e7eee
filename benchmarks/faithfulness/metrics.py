"""How close approximate scores are to exact leave-one-out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats
from sklearn.metrics import average_precision_score

from attribot_rag.verdicts import outliers


def exact_outliers(exact: Sequence[float]) -> set[int]:
    """The sources that stand out in the truth: the paper's form of the ESD test."""
    return set(outliers(exact, form="paper"))


def average_precision(found: Sequence[float | None], wanted: set[int]) -> float:
    """Of the ranking by score; what was not scored ties at its end."""
    known = [score for score in found if score is not None]
    last = min(known, default=0.0) - 1.0
    scores = [last if score is None else score for score in found]
    labels = [index in wanted for index in range(len(scores))]
    return float(average_precision_score(labels, scores))


def recall(found: Sequence[float | None], wanted: set[int], top: int) -> float:
    """Which share of what is wanted is among the `top` scores."""
    scored = [index for index, score in enumerate(found) if score is not None]
    best = sorted(scored, key=lambda index: -(found[index] or 0.0))[:top]
    return len(wanted & set(best)) / len(wanted)


def pearson(found: Sequence[float | None], exact: Sequence[float]) -> float | None:
    """Of all sources, those without a score counting as 0; None where a side is constant."""
    filled = [score or 0.0 for score in found]
    if np.ptp(filled) == 0 or np.ptp(exact) == 0:
        return None
    return float(stats.pearsonr(filled, exact).statistic)
