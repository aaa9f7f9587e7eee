"""What a method is, and what every method gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from attribot_rag.errors import InvalidInput
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.scoring import Scorer

Row = tuple[float, ...]

WORTHWHILE = 0.5
"""Nats from which on a score is worth a closer look, when methods choose what goes on."""


@dataclass(frozen=True)
class GroupScore:
    """The score of some units taken out together; `exact` as in Scores."""

    units: tuple[int, ...]
    token_scores: Row
    exact: bool


@dataclass(frozen=True)
class Scores:
    """Scores of a scorer's units, in nats, one row per unit.

    A row holds one score per response token, or is None for a unit that was not scored. `exact`
    says of each unit whether it was taken out of the full prompt and everything after it encoded
    again; `token_log_likelihoods` are those of the response with nothing removed, None where the
    budget did not allow even that. `context_reliance`, if it was measured, is the score of the
    whole context; `agreement`, from 0 to 1, how well approximate scores met the exact ones of the
    same units. `screened`, if some scores are of another kind than others, are those of one kind.
    `groups` are scores of several units at once, the coarsest first. `num_dropped`
    counts units that were removed as whole tokens. `attention`, if it chose the candidates, is how
    strongly the question and the response attend to each unit. `unit` is another one than nats for
    scores that are no differences of log-likelihoods. `notes` are what a reader should know.
    """

    token_log_likelihoods: Row | None
    token_scores: tuple[Row | None, ...]
    exact: tuple[bool, ...]
    context_reliance: Row | None = None
    agreement: float | None = None
    screened: tuple[Row | None, ...] | None = None
    groups: tuple[GroupScore, ...] = ()
    num_dropped: int = 0
    attention: tuple[float, ...] | None = None
    unit: str = "nats"
    notes: tuple[str, ...] = ()

    @property
    def num_approximate(self) -> int:
        """How many units were scored, but not exactly."""
        return sum(
            row is not None and not exact
            for row, exact in zip(self.token_scores, self.exact, strict=True)
        )

    @property
    def totals(self) -> list[float | None]:
        """The score of each unit for the whole response."""
        return [None if row is None else sum(row) for row in self.token_scores]


class Method(Protocol):
    """Decides which ablations to ask a scorer for."""

    @property
    def name(self) -> str:
        """What the result says about how it came about, with the options that matter."""
        ...

    def run(self, scorer: Scorer) -> Scores:
        """Score the scorer's units."""
        ...

    def cost(self, workload: Workload) -> Cost:
        """What that takes, on average, before it runs."""
        ...


def num_kept(keep: int | float, count: int, name: str = "keep") -> int:
    """How many of `count` to keep: a number of them, or a fraction between 0 and 1.

    Raises InvalidInput for anything else.
    """
    if isinstance(keep, bool) or not keep > 0 or (isinstance(keep, float) and keep > 1):
        raise InvalidInput(f"{name}={keep!r}; use a number of at least 1, or a fraction up to 1.0")
    kept = keep if isinstance(keep, int) else round(keep * count)
    return max(1, min(kept, count))


def span_totals(rows: Sequence[Row | None], tokens: range) -> list[float | None]:
    """The score of each row for some of the response's tokens."""
    return [None if row is None else sum(row[i] for i in tokens) for row in rows]


def best(totals: Sequence[float | None], count: int) -> list[int]:
    """Indices of the highest totals, best first; what was not scored comes last."""
    order = sorted(
        range(len(totals)),
        key=lambda index: (totals[index] is None, -(totals[index] or 0.0), index),
    )
    return order[:count]
