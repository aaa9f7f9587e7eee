"""The weights of a model on a server."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar

import torch
from transformers import PreTrainedModel

from attribot_rag.errors import Refused, ServerFailed, UnsupportedServer
from attribot_rag.model.background import Background
from attribot_rag.model.served.client import Client
from attribot_rag.model.served.protocols import Completion, Protocol, Scored

_MOST_TOKENS = 1 << 15  # of a list: gateways refuse requests of a megabyte

SERVERS = (
    "vLLM (prompt_logprobs) and SGLang (input_token_logprobs) give log-probabilities of a prompt; "
    "llama.cpp's server, Ollama, TGI and the APIs of OpenAI and the like do not"
)


logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ServedWeights:
    """The weights behind an HTTP server, which takes many requests at once.

    Log-probabilities come from the server, with `noise`: the largest difference in nats at a token
    between two calls for the same tokens, the second among others, and to the `reference`, the same
    weights on this machine, if there is one. `max_length` is the server's limit in tokens;
    `num_parameters` is 0 where nobody said. `device` and `dtype` are those of the log-probabilities
    once they have come.
    """

    is_encoder_decoder: ClassVar[bool] = False
    decoder_start_ids: ClassVar[tuple[int, ...]] = ()
    device: ClassVar[torch.device] = torch.device("cpu")
    dtype: ClassVar[torch.dtype] = torch.float32
    dtype_name: ClassVar[str] = "unknown"
    dequantized: ClassVar[bool] = False
    placeholder_ids: ClassVar[frozenset[int]] = frozenset()
    eos_ids: ClassVar[frozenset[int]] = frozenset()

    client: Client
    protocol: Protocol
    vocabulary_size: int
    max_length: int | None = None
    num_parameters: int = 0
    reference: PreTrainedModel | None = None
    noise: float = 0.0
    background: Background = field(default_factory=Background, init=False)

    @property
    def name(self) -> str:
        return self.protocol.model

    @property
    def device_name(self) -> str:
        return self.client.url

    @property
    def max_positions(self) -> int | None:
        """Two less than the server's limit: it takes the whole response and one token more."""
        return None if self.max_length is None else self.max_length - 2

    @property
    def concurrency(self) -> int:
        return self.client.options.concurrency

    def turn(self) -> AbstractContextManager[None]:
        return nullcontext()

    def give_way(self) -> float:
        return 0.0

    def score(
        self,
        sequences: Sequence[Sequence[int]],
        num_scored: Sequence[int],
        deadline: float | None = None,
    ) -> list[Scored]:
        """Log-probabilities of the last tokens of each sequence, given all tokens before.

        `num_scored` are the numbers of these tokens. The sequences are asked for in their order,
        several at once, in lists where the server takes them. Raises NoAnswerInTime after the
        deadline, a time of `time.perf_counter`.
        """
        protocol = self.protocol
        bodies = [*map(protocol.scoring, sequences, num_scored)]
        answers = self._scored(sequences, bodies, num_scored, deadline)
        lacking = [index for index, answer in enumerate(answers) if answer is None]
        uncached = [protocol.uncached(bodies[index]) for index in lacking]
        if lacking and all(uncached):
            again = [sequences[index] for index in lacking]
            counts = [num_scored[index] for index in lacking]
            repeated = self._scored(again, uncached, counts, deadline)
            for index, answer in zip(lacking, repeated, strict=True):
                answers[index] = answer
        scored = [answer for answer in answers if answer is not None]
        if len(scored) < len(answers):
            raise UnsupportedServer(
                f"the server at {self.client.url} gives no log-probabilities of a prompt; {SERVERS}"
            )
        return scored

    def _scored(
        self,
        sequences: Sequence[Sequence[int]],
        bodies: Sequence[Any],
        num_scored: Sequence[int],
        deadline: float | None,
    ) -> list[Scored | None]:
        answers = self._answers(bodies, [*map(len, sequences)], deadline)
        try:
            return [
                self.protocol.scored(answer, ids, count)
                for answer, ids, count in zip(answers, sequences, num_scored, strict=True)
            ]
        except (LookupError, TypeError, ValueError) as error:
            raise self._malformed(error) from error

    def _answers(
        self, bodies: Sequence[Any], num_tokens: Sequence[int], deadline: float | None
    ) -> list[Any]:
        """The reply to each request; in lists, unless the server refuses the first of them."""
        protocol, client = self.protocol, self.client
        groups = [bodies[start:end] for start, end in self._lists(num_tokens)]
        lists = [*map(protocol.joined, groups)]
        if len(lists) == len(bodies) or None in lists:
            return client.post(protocol.path, bodies, deadline)
        sizes = [*map(len, groups)]
        try:
            replies = client.post(protocol.path, lists, deadline, sizes)
            parted = map(protocol.parted, replies, groups)
            return [*chain.from_iterable(parted)]
        except (Refused, LookupError, TypeError) as error:
            answers = client.post(protocol.path, bodies, deadline)
            protocol.refuses_lists = True
            logger.info("%s is asked for one sequence at a time: %s", client.url, error)
            return answers

    def _lists(self, num_tokens: Sequence[int]) -> list[tuple[int, int]]:
        """Where the lists of sequences with these numbers of tokens start and end.

        Up to half of the concurrency, so that the server is not idle between two lists.
        """
        most = 1 if self.protocol.refuses_lists else max(1, self.concurrency // 2)
        starts: list[int] = []
        for index in range(len(num_tokens)):
            is_full = not starts or index - starts[-1] == most
            if is_full or sum(num_tokens[starts[-1] : index + 1]) > _MOST_TOKENS:
                starts.append(index)
        return [*zip(starts, [*starts[1:], len(num_tokens)], strict=True)]

    def complete(
        self,
        prompt_ids: Sequence[int],
        max_new_tokens: int,
        options: dict[str, Any],
        deadline: float | None = None,
    ) -> Completion:
        """The server's answer to a prompt, greedy by default; `options` are its sampling options.

        Raises NoAnswerInTime as `score` does.
        """
        protocol = self.protocol
        body = protocol.completing(prompt_ids, max_new_tokens, options)
        (answer,) = self.client.post(protocol.path, [body], deadline)
        try:
            return protocol.completion(answer)
        except (LookupError, TypeError) as error:
            raise self._malformed(error) from error

    def _malformed(self, error: Exception) -> ServerFailed:
        return ServerFailed(
            f"the server at {self.client.url} answered {self.protocol.path} in another form than "
            f"{self.protocol.name} ({type(error).__name__}: {error})"
        )
