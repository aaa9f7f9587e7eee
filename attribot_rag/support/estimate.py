"""How probable it is that a cited text says a sentence, as an answer to what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

FULL = 0.22
"""The least score of a sentence that its cited text says."""
UNSURE = (0.1, 0.4)
"""Scores by words between these are left to a model, if there is one."""
UNLIKELY = -8.5
"""The log-likelihood in nats, after a text, below which a word is about something else.

Most words in the place of another one are below it, such as "magazines" where the text says
"books". Few other words for the same thing are, such as "fee" for "price".
"""


@dataclass(frozen=True, kw_only=True)
class Signals:
    """What is known of a sentence and its cited text.

    Shares are of words, weighted by how rare they are in the retrieved text. The log-likelihood is
    in nats for each token, None if it was not scored.
    """

    added_covered: float
    """The share of the words that the sentence adds to the question's which the cited text has; 0
    if it adds none."""
    question_covered: float
    """The share of the question's words that the cited text has, of those that any retrieved text
    has: others may be the question's own way to put it."""
    question_repeated: float = 0.0
    """The share of the question's words that the sentence repeats."""
    question_likely: float | None = None
    """The mean log-likelihood of the question's tokens after the cited text alone."""


@dataclass(frozen=True)
class Regression:
    """A logistic regression on signals by their names, fitted by benchmarks.support.estimate."""

    constant: float
    weights: Mapping[str, float]

    def score(self, signals: Signals) -> float:
        """The probability, from 0 to 1."""
        total = self.constant + sum(
            weight * getattr(signals, name) for name, weight in self.weights.items()
        )
        return 1 / (1 + exp(-total))


WORDS = Regression(
    -3.745, {"added_covered": 1.942, "question_covered": 2.45, "question_repeated": 0.302}
)
"""By words alone."""
MODEL = Regression(
    -1.574,
    {
        "added_covered": 1.748,
        "question_covered": 1.741,
        "question_repeated": 0.601,
        "question_likely": 0.552,
    },
)
"""With the likelihood of the question, which a model has to read the cited text for."""


def estimate(signals: Signals) -> float:
    """The probability, from 0 to 1, that the cited text says the sentence.

    By words alone without the likelihood of the question.
    """
    return (WORDS if signals.question_likely is None else MODEL).score(signals)
