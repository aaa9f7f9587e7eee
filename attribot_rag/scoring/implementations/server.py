"""Scores by the log-probabilities that a server gives."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.model.local_backend import LocalBackend
from attribot_rag.model.served import ServerBackend
from attribot_rag.model.served.client import NoAnswerInTime, on_one_replica
from attribot_rag.scoring.base import Implementation, OutOfTime, Prefill
from attribot_rag.scoring.implementations.memory import Batching
from attribot_rag.scoring.implementations.selection import Requested, ScoringModels
from attribot_rag.scoring.row import Row

_ROUNDS = 2
_MOST_ROWS = 256


class Server(Implementation):
    """Each row as a sequence of its own, several at once, by a server.

    Rows are sent in the order in which they share most with the full prompt, which goes first, so
    that a prefix cache of the server's serves. It keeps no state here.
    """

    name: ClassVar[str] = "server"

    def __init__(
        self, server: ServerBackend, generation: Generation, prefill: Prefill | None = None
    ) -> None:
        super().__init__(generation, prefill)
        self._server = server
        self._is_cached = False

    def num_tokens(self, row: Row) -> int:
        """Tokens of the row that the server is expected to encode: those that are not shared."""
        return row.num_tokens + 1 + (0 if self._is_cached else row.num_visible)

    def log_likelihoods(self, rows: Sequence[Row]) -> Tensor:
        order = sorted(range(len(rows)), key=lambda index: -rows[index].num_visible)
        scored = torch.empty(len(rows), len(self.generation.response_ids))
        first = int(self._server.protocol.reads_cache and not self._is_cached)
        for indices in filter(None, (order[:first], order[first:])):
            scored[indices] = self._scored([rows[index] for index in indices])
            self._is_cached = self._server.protocol.reads_cache
        return scored

    def _scored(self, rows: Sequence[Row]) -> Tensor:
        response_ids = self.generation.response_ids
        sequences = [(*row.full_ids(self.generation), response_ids[-1]) for row in rows]
        try:
            scores = self._server.score(sequences, len(response_ids), self.prefill.deadline)
        except NoAnswerInTime as error:
            raise OutOfTime from error
        self.scored_tokens += sum(score.num_tokens for score in scores)
        return torch.tensor([score.log_probabilities for score in scores])


class ServerScoring:
    """ScoringModels for a model on a server: one implementation, and no weights.

    Twins raise UnsupportedModel. `original` is the reference on this machine, if there is one.
    """

    def __init__(self, server: ServerBackend) -> None:
        self._server = server

    def for_attribution(self) -> AbstractContextManager[None]:
        return on_one_replica()

    @property
    def original(self) -> PreTrainedModel:
        reference = self._server.reference
        return self.plain_twin if reference is None else reference

    @property
    def plain_twin(self) -> PreTrainedModel:
        return self._server.model

    def select(
        self, requested: Requested, generation: Generation, prefill: Prefill | None = None
    ) -> Implementation:
        self.first(requested, generation)
        return Server(self._server, generation, prefill)

    def first(self, requested: Requested, generation: Generation) -> type[Implementation]:
        if requested not in ("auto", Server.name):
            raise UnsupportedModel(
                f"implementation={requested!r} needs the weights of {self._server.name!r}, which "
                "are on a server; use 'auto' or 'server'"
            )
        return Server

    def fallback(self, used: type[Implementation], generation: Generation) -> str | None:
        return None

    def make_ready(self, requested: Requested, generation: Generation) -> None:
        self.first(requested, generation)
        if generation.conditioning:
            raise InvalidInput(
                f"the answer was also conditioned on {generation.conditioning}, which cannot be "
                "given to a server; pass prompts of token ids alone"
            )

    def changed_since(self, generation: Generation) -> bool:
        return False

    def is_conditioned(self, generation: Generation) -> bool:
        return False

    def masked_refusal(self, kind: type[Implementation], generation: Generation) -> str | None:
        return "its weights are on a server, which takes no masks and tells no attention"

    def batching(self, implementation: Implementation, token_budget: int | None) -> Batching:
        """As many rows at a time as keep the server busy, before a deadline.

        Without a deadline more, so that more are in the order in which a prefix cache serves.
        """
        num_rows = _ROUNDS * self._server.concurrency
        if implementation.prefill.deadline is None:
            num_rows = max(num_rows, _MOST_ROWS)
        return Batching(implementation, num_rows, lambda _: 1)


AnyScoringModels = ScoringModels | ServerScoring


def scoring_models(language_model: LanguageModel) -> AnyScoringModels:
    """The twins of a model's weights, or the server that has them."""
    match language_model.backend:
        case ServerBackend() as server:
            return ServerScoring(server)
        case LocalBackend(model=model):
            return ScoringModels(model)
