"""How probable it is that a cited text says a sentence, as an answer to what was asked."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log1p

FULL = 0.5
"""The least score of a sentence that its cited text says."""


@dataclass(frozen=True, kw_only=True)
class Signals:
    """What is known of a sentence and its cited text.

    Shares are of words, weighted by how rare they are in the retrieved text. Figures of a model are
    in nats, None without one.
    """

    sentence_covered: float
    """The share of the sentence's words that the cited text has."""
    question_covered: float
    """The share of the question's words that the cited text has."""
    question_elsewhere: float = 0.0
    """The largest such share of a passage that is not cited."""
    effect: float | None = None
    kept: float | None = None
    reliance: float | None = None
    likely: float | None = None
    """The mean log-likelihood of the sentence's tokens."""


def estimate(signals: Signals) -> float:
    """The probability, from 0 to 1, by a logistic regression on these signals."""
    total = -2.0 + 2.0 * signals.sentence_covered + 2.0 * signals.question_covered
    return 1 / (1 + exp(-total))
