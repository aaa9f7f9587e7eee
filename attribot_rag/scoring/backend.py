"""The contract of scoring: a backend encodes prompts, and rows go on from such a prefix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from attribot_rag.model.generation import Generation, PromptCache
from attribot_rag.scoring.memory import Footprint
from attribot_rag.scoring.patching import Effects, Patch
from attribot_rag.scoring.row import Row
from attribot_rag.scoring.session import Requested


class Unsupported(Exception):
    """A way of scoring cannot serve this model; the message says why."""


class OutOfTime(Exception):
    """The budget ended while the prompt was read, or while a server was waited for."""


class Backend(Protocol):
    """What computes log-likelihoods: a model in this process, or a server."""

    def encode_prefix(
        self,
        generation: Generation,
        implementation: Requested = "auto",
        pass_tokens: int | None = None,
    ) -> Prefix:
        """The prompt of a generation, not read yet, for the fastest way that is right for it.

        `pass_tokens` are those of the prefix, None for what is measured. Raises UnsupportedModel if
        no way is right, or if the one that is asked for is not.
        """

    def reference(self, generation: Generation) -> Prefix:
        """The prompt for the reference implementation, on the user's own model.

        Raises UnsupportedModel where there is none on this machine.
        """

    def make_ready(self, generation: Generation, implementation: Requested) -> None:
        """Do what can be done before the prompt is read.

        Raises UnsupportedModel or InvalidInput for a generation that cannot be scored.
        """

    def for_attribution(self) -> AbstractContextManager[None]:
        """The block of one attribution, in which the model stays as it is."""

    def changed_since(self, generation: Generation) -> bool:
        """Whether the model was changed after it answered, as far as that is known."""


class Prefix(ABC):
    """The prompt of a generation, from which rows go on; it is read once, by `read`.

    `masked_refusal` says why rows cannot hide a part of the prompt, None if they can; `fallback`
    why a faster way of scoring was not chosen. Whoever writes a prefix adds the tokens that went
    through the model to `prefilled_tokens` and `scored_tokens`, which the budget goes by.
    `packs_rows` says that all rows of a call go through it in one forward pass; it is worth
    `pass_tokens` to save one, 0 where tokens are the price. A prompt that was read may be kept as
    its `prompt_cache`, by the state of the model that is `model_version`.
    """

    name: ClassVar[str]
    packs_rows: ClassVar[bool] = False

    def __init__(
        self,
        generation: Generation,
        *,
        pass_tokens: int = 0,
        masked_refusal: str | None = "this way of scoring hides no part of the prompt",
        fallback: str | None = None,
        model_version: int | None = None,
    ) -> None:
        self.generation = generation
        self.pass_tokens = pass_tokens
        self.masked_refusal = masked_refusal
        self.fallback = fallback
        self.model_version = model_version
        self.prompt_cache: PromptCache = ()
        self.prefilled_tokens = 0
        self.scored_tokens = 0

    @property
    def attention(self) -> Attention | None:
        """None where attention is not seen."""
        return None

    @property
    def num_unread(self) -> int:
        """Tokens of the prompt that have to be read before anything can be scored."""
        return 0

    @abstractmethod
    def read(self, reading: Reading | None = None) -> None:
        """Encode the prompt, unless that was done or is not needed."""

    @abstractmethod
    def num_tokens(self, row: Row) -> int:
        """Tokens of the row that have to go through the model."""

    @abstractmethod
    def log_likelihoods(self, rows: Sequence[Row]) -> Tensor:
        """Log-probabilities in nats, float32 on the CPU: [num_rows, num_response_tokens].

        NaN at tokens that a row does not say.
        """

    @abstractmethod
    def batching(self, token_budget: int | None) -> Batching:
        """How many rows are scored at a time, once the prompt is read."""

    def footprint(self, branch: int, num_units: int) -> Footprint | None:
        """The memory of rows that go on from `branch` or later; None if they take none here."""
        return None


class Attention(Protocol):
    """A prefix whose attention is seen."""

    def effects(self, row: Row, patch: Patch) -> Effects:
        """The drop of the log-likelihood of each part of the response without each unit.

        A forward pass over each row, and as many back as the patch says.
        """


@dataclass(frozen=True, eq=False)
class Reading:
    """How a prompt is read, before the first row.

    `before_piece` is called with the position of each piece; it may raise OutOfTime. `deadline` is
    the end of the budget's seconds, a time of `time.perf_counter`; another machine is waited for no
    longer.
    """

    before_piece: Callable[[int], None] = lambda _: None
    deadline: float | None = None


@dataclass
class Batching:
    """Divides rows into batches by a budget; `cost` is a row's share of it."""

    budget: int
    cost: Callable[[Row], int]

    def next_batch(self, waiting: list[Row], rows: Iterator[Row]) -> list[Row]:
        """As many rows as the budget allows, at least one if there is one: those that are waiting.

        Further ones are taken from `rows`, and wait from then on.
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
        """Make room after this batch did not fit into memory."""
        self.budget = min(self.budget, sum(map(self.cost, batch))) // 2


def tolerance(dtype: torch.dtype) -> float:
    """Nats per response token by which implementations may differ because of rounding."""
    return 1e-3 if dtype in (torch.float32, torch.float64) else 0.25


def in_columns(scores: Tensor, rows: Sequence[Row], num_response_tokens: int) -> Tensor:
    """The scores of all rows' targets as [rows, response tokens], NaN at tokens not said."""
    if all(row.said is None for row in rows):
        return scores.view(len(rows), -1)
    every = range(num_response_tokens)
    places = [(i, j) for i, row in enumerate(rows) for j in row.said or every]
    placed = scores.new_full((len(rows), num_response_tokens), torch.nan)
    placed[tuple(torch.tensor(places).T)] = scores
    return placed
