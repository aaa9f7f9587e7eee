"""How much an attribution may cost, and how much it has cost so far."""

from __future__ import annotations

import time
from dataclasses import dataclass

from attribot_rag.errors import InvalidInput

_FIRST_TOKENS = 256


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An upper bound in `seconds`, in forward-pass `tokens`, or both.

    Whatever fits is done, the most useful first, and the result says that it is partial. What is
    spent in any case: the prompt's prefill where generation's cache is not there, and one pass.
    """

    seconds: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not value > 0:
                raise InvalidInput(f"budget of {value} {name}; use more than 0, or None")


class Meter:
    """Counts tokens and seconds against a budget; shared by all that one attribution runs.

    `exhausted` says that something was left undone.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self._started = time.perf_counter()
        self._seconds_per_token: float | None = None
        self._most_tokens: int | None = None
        self.tokens = 0
        self.exhausted = False

    def reserve(self, tokens: int) -> None:
        """Allow no more than so many tokens from here on, however large the budget is."""
        self._most_tokens = self.tokens + tokens

    def spend(self, tokens: int, seconds: float) -> None:
        """Count what went through a model; the last pass tells how long the next will take."""
        self.tokens += tokens
        if tokens:
            self._seconds_per_token = seconds / tokens

    def allows(self, tokens: int) -> bool:
        """Whether so many more tokens fit, by the pace of the last pass."""
        budget = self._budget
        if self._most_tokens is not None and self.tokens + tokens > self._most_tokens:
            return False
        if budget.tokens is not None and self.tokens + tokens > budget.tokens:
            return False
        if budget.seconds is None:
            return True
        elapsed = time.perf_counter() - self._started
        if self._seconds_per_token is None:
            return elapsed < budget.seconds and tokens <= _FIRST_TOKENS
        return elapsed + tokens * self._seconds_per_token <= budget.seconds
