"""The contract of scoring: a backend encodes prompts as prefixes, and scores rows after them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from attribot_rag.errors import UnsupportedModel
from attribot_rag.model.generation import Generation, PromptCache
from attribot_rag.scoring.patching import Effects, Patch
from attribot_rag.scoring.row import Row
from attribot_rag.scoring.session import Requested


class Unsupported(UnsupportedModel):
    """A way of scoring cannot serve this model. The message says why."""


class OutOfTime(Exception):
    """The budget ended while the prompt was read, or while waiting for a server."""


class Backend(Protocol):
    """Computes log-likelihoods, with a model in this process or on a server."""

    def prefix_for(
        self,
        generation: Generation,
        implementation: Requested = "auto",
        pass_tokens: int | None = None,
    ) -> Prefix:
        """The prompt of a generation for the fastest way of scoring that is right, not read yet.

        `pass_tokens` are the prefix's; None takes the measured number. The first call also copies
        and probes the model. Raises UnsupportedModel if no way is right, or the requested one is
        not, and InvalidInput for an unknown name.
        """

    def reference(self, generation: Generation) -> Prefix:
        """The prompt for the reference implementation, on the user's own model.

        Raises UnsupportedModel if there is none on this machine.
        """

    def assume_unchanged(self) -> AbstractContextManager[None]:
        """A block in which the backend looks for no changes of the model."""

    def changed_since(self, generation: Generation) -> bool:
        """Whether the model was changed after it answered, as far as that is known."""


class Prefix(ABC):
    """The encoded prompt of a generation, after which rows are scored. `read` encodes it once.

    - `why_no_masks` says why rows cannot hide a part of the prompt; None if they can.
    - `fallback` says why a faster way of scoring was not chosen.
    - `prefilled_tokens` and `scored_tokens` count the tokens that went through the model. Every
      subclass has to add to them, because the budget uses them.
    - `packs_rows` says that all rows of a call share one forward pass. Saving a pass is worth
      `pass_tokens` tokens, 0 if only tokens cost time.
    - `prompt_cache` may be kept for later, with `model_version`, the state of the model.
    """

    name: ClassVar[str]
    packs_rows: ClassVar[bool] = False

    pass_tokens: int = 0
    why_no_masks: str | None = "this way of scoring hides no part of the prompt"
    fallback: str | None = None
    model_version: int | None = None

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.prompt_cache: PromptCache = ()
        self.prefilled_tokens = 0
        self.scored_tokens = 0

    @property
    def sees_attention(self) -> bool:
        """Whether there are `effects`."""
        return False

    def effects(self, row: Row, patch: Patch) -> Effects:
        """How much the log-likelihood of each part of the response drops without each unit.

        This takes a forward pass over each row, and as many backward passes as the patch says.
        """
        raise NotImplementedError

    @property
    def num_unread(self) -> int:
        """How many tokens of the prompt must be read before anything can be scored."""
        return 0

    @abstractmethod
    def read(self, reading: Reading | None = None) -> None:
        """Encode the prompt, unless that is done or not needed."""

    @abstractmethod
    def num_tokens(self, row: Row) -> int:
        """How many tokens of the row must go through the model."""

    @abstractmethod
    def log_likelihoods(self, rows: Sequence[Row]) -> Tensor:
        """Log-probabilities in nats, float32 on the CPU: [num_rows, num_response_tokens].

        NaN at tokens that a row does not score.
        """

    @abstractmethod
    def batching(self, token_budget: int | None) -> Batching:
        """How many rows are scored at a time, once the prompt is read."""


@dataclass(frozen=True, eq=False)
class Reading:
    """How a prompt is read, before the first row.

    `before_piece` is called with the position of each piece, and may raise OutOfTime. `deadline` is
    the end of the budget's seconds, a time of `time.perf_counter`. A server is not waited for any
    longer.
    """

    before_piece: Callable[[int], None] = lambda _: None
    deadline: float | None = None


@dataclass
class Batching:
    """Divides rows into batches by a budget. `cost` is a row's share of it."""

    budget: int
    cost: Callable[[Row], int]

    def next_batch(self, waiting: list[Row], rows: Iterator[Row]) -> list[Row]:
        """The next rows that the budget allows, at least one if there is one.

        Waiting rows come first. Others are taken from `rows`; those that do not fit then wait.
        """
        used = 0
        for index in count():
            if index == len(waiting):
                if (row := next(rows, None)) is None:
                    break
                waiting.append(row)
            used += self.cost(waiting[index])
            if used > self.budget and index:
                return waiting[:index]
        return [*waiting]

    def halve(self, batch: Sequence[Row]) -> None:
        """Make later batches smaller, because this one did not fit into memory."""
        self.budget = min(self.budget, sum(map(self.cost, batch))) // 2


def tolerance(dtype: torch.dtype) -> float:
    """Nats per response token by which implementations may differ because of rounding."""
    return 1e-3 if dtype in (torch.float32, torch.float64) else 0.25


def in_columns(scores: Tensor, rows: Sequence[Row], num_response_tokens: int) -> Tensor:
    """The scores of all rows' targets as [rows, response tokens]; NaN at other tokens."""
    if all(row.kept_response is None for row in rows):
        return scores.view(len(rows), -1)
    every = range(num_response_tokens)
    places = [(i, j) for i, row in enumerate(rows) for j in row.kept_response or every]
    placed = scores.new_full((len(rows), num_response_tokens), torch.nan)
    placed[tuple(torch.tensor(places).T)] = scores
    return placed
