"""The backend of a model on a server that gives log-probabilities of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import ClassVar

import torch
from torch import Tensor

from attribot_rag.errors import UnsupportedModel
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import without_folder
from attribot_rag.model.served_model import ServedWeights
from attribot_rag.model.server import NoAnswerInTime
from attribot_rag.scoring.backend import Batching, OutOfTime, Prefix, Reading, in_columns
from attribot_rag.scoring.row import Row
from attribot_rag.scoring.session import Requested

_ROUNDS = 2
_MOST_ROWS = 256
_FEW_SHARED = 256  # tokens; for fewer, rows do not wait until the full prompt is cached


class ServedPrefix(Prefix):
    """Each row is a separate sequence for a server, several at once.

    The full prompt goes first, and then the rows that share most with it, so that a prefix cache on
    the server helps. Nothing is stored here. `pass_tokens` is what a round trip is worth.
    """

    name: ClassVar[str] = "server"
    why_no_masks: str | None = (
        "its weights are on a server, which takes no masks and tells no attention"
    )

    def __init__(self, weights: ServedWeights, generation: Generation) -> None:
        super().__init__(generation)
        self._weights = weights
        self._deadline: float | None = None
        self._is_cached = False

    def read(self, reading: Reading | None = None) -> None:
        """Nothing is read here. Only the deadline is kept."""
        self._deadline = None if reading is None else reading.deadline

    def num_tokens(self, row: Row) -> int:
        """How many tokens of the row the server has to encode: probably those not shared."""
        return row.num_new + 1 + (0 if self._is_cached else row.visible_end)

    def log_likelihoods(self, rows: Sequence[Row]) -> Tensor:
        order = sorted(range(len(rows)), key=lambda index: -rows[index].visible_end)
        scored = torch.empty(len(rows), len(self.generation.response_ids))
        reads_cache = self._weights.protocol.reads_cache
        num_shared = sum(rows[index].visible_end for index in order[1:])
        first = int(reads_cache and not self._is_cached and num_shared > _FEW_SHARED)
        for indices in filter(None, (order[:first], order[first:])):
            scored[indices] = self._scored([rows[index] for index in indices])
            self._is_cached = reads_cache
        return scored

    def _scored(self, rows: Sequence[Row]) -> Tensor:
        sequences = [(*row.full_ids(self.generation), row.targets[-1]) for row in rows]
        counts = [len(row.targets) for row in rows]
        try:
            scores = self._weights.score(sequences, counts, self._deadline)
        except NoAnswerInTime as error:
            raise OutOfTime from error
        self.scored_tokens += sum(score.num_tokens for score in scores)
        flat = torch.tensor([*chain.from_iterable(score.log_probabilities for score in scores)])
        return in_columns(flat, rows, len(self.generation.response_ids))

    def batching(self, token_budget: int | None) -> Batching:
        """As many rows at a time as keep the server busy, before a deadline.

        Without a deadline, it has more rows, so more of them are in the best order for a prefix
        cache.
        """
        num_rows = _ROUNDS * self._weights.concurrency
        if self._deadline is None:
            num_rows = max(num_rows, _MOST_ROWS)
        return Batching(num_rows, lambda _: 1)


class ServedBackend:
    """The server of a model. It has one implementation, and no reference here."""

    def __init__(self, weights: ServedWeights) -> None:
        self._weights = weights

    def assume_unchanged(self) -> AbstractContextManager[None]:
        return nullcontext()

    def prefix_for(
        self,
        generation: Generation,
        implementation: Requested = "auto",
        pass_tokens: int | None = None,
    ) -> ServedPrefix:
        if implementation not in ("auto", ServedPrefix.name):
            name = without_folder(self._weights.name)
            raise UnsupportedModel(
                f"implementation={implementation!r} needs the weights of {name!r}, "
                "which are on a server; use 'auto' or 'server'"
            )
        prefix = ServedPrefix(self._weights, generation)
        prefix.pass_tokens = pass_tokens or 0
        return prefix

    def reference(self, generation: Generation) -> Prefix:
        name = without_folder(self._weights.name)
        raise UnsupportedModel(
            f"{name!r} is on the server at {self._weights.client.url}; a check of its scores needs "
            "its weights on this machine"
        )

    def changed_since(self, generation: Generation) -> bool:
        return False
