"""A model that a server runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from attribot_rag.errors import (
    InvalidInput,
    Refused,
    ServerFailed,
    TokenizerMismatch,
    UnsupportedServer,
)
from attribot_rag.model.language_model import LanguageModel, without_folder
from attribot_rag.model.server import (
    PROTOCOLS,
    Client,
    Protocol,
    ScoredSequence,
    ServedAnswer,
    ServerOptions,
)
from attribot_rag.model.threads import Background

_TEST_TEXT = (
    "The ferry Kittiwake carries up to 1,084 passengers; a ticket is £18.50. "
    "Café, naïve, 条約は町で署名された。 In 1844 the lamp was lit for the first time."
)
_NUM_SCORED = 16  # tokens at the end of the text

logger = logging.getLogger(__name__)


class ServedModel(LanguageModel):
    """A language model that an HTTP server runs. Its tokenizer runs in this process."""

    weights: ServedWeights

    @classmethod
    def connect(
        cls,
        url: str,
        tokenizer: PreTrainedTokenizerBase | str,
        *,
        model: str | None = None,
        num_parameters: int = 0,
        options: ServerOptions | None = None,
    ) -> ServedModel:
        """Connect to the model at a URL, and test the server's log-probabilities.

        An API key is read from ATTRIBOT_RAG_SERVER_KEY. Raises ServerFailed if the server does not
        answer, UnsupportedServer if it gives no log-probabilities of a prompt, TokenizerMismatch if
        its tokenizer gives other ids, and InvalidInput for a model that it does not serve.

        Args:
            url: http://HOST:PORT, with or without the /v1 for OpenAI's clients.
            tokenizer: The model's own tokenizer, its folder or its Hugging Face id.
            model: The server's name for the model. You need it if the server has several models.
            num_parameters: The number of the model's parameters. The result's FLOPs are 0 without
                it.
            options: How to send requests.
        """
        client = Client(url, options or ServerOptions())
        entry = _chosen(client, _served_models(client), model)
        default = "sglang" if entry.get("owned_by") == "sglang" else "vllm"
        protocol = PROTOCOLS[client.options.protocol or default](str(entry["id"]))
        length = entry.get("max_model_len")
        loaded = _loaded(tokenizer)
        weights = ServedWeights(
            client,
            protocol,
            len(loaded),
            max_length=None if length is None else int(length),
            num_parameters=num_parameters,
        )
        language_model = cls(weights, loaded)
        language_model._check_tokenizer()
        noise = language_model._measured_noise()
        language_model.weights = replace(weights, noise=noise)
        return language_model

    def _check_tokenizer(self) -> None:
        """Raises TokenizerMismatch if the server gives other ids for a text.

        Some servers give none.
        """
        with self._private.locked() as tokenizer:
            ours = list(tokenizer(_TEST_TEXT)["input_ids"])
        theirs = self._their_ids(prompt=_TEST_TEXT, add_special_tokens=True)
        if theirs is not None and theirs != ours:
            name = without_folder(self.tokenizer.name_or_path)
            raise TokenizerMismatch(
                f"the tokenizer {name!r} and the one of the server at "
                f"{self.weights.client.url} give different ids for a text; pass the tokenizer of "
                f"{self.public_name!r}"
            )
        if not self.tokenizer.chat_template:
            return
        messages = [{"role": "user", "content": _TEST_TEXT}]
        theirs = self._their_ids(messages=messages, add_generation_prompt=True)
        if theirs is not None and tuple(theirs) != self.encode_prompt(messages):
            logger.warning(
                "the server at %s renders chat messages differently from the tokenizer here; pass "
                "prompts as rendered text or ids",
                self.weights.client.url,
            )

    def _their_ids(self, **text: Any) -> list[int] | None:
        try:
            answer = self.weights.client.ask("/tokenize", {"model": self.name, **text})
        except ServerFailed as error:
            logger.info("the tokenizer cannot be compared with the server's: %s", error)
            return None
        return answer.get("tokens") if isinstance(answer, dict) else None

    def _measured_noise(self) -> float:
        """The largest difference in nats at a token between a call alone and one among others."""
        ids = self.encode(_TEST_TEXT)
        num_scored = min(_NUM_SCORED, len(ids) - 1)
        try:
            alone = self.weights.score([ids], [num_scored])[0]
        except Refused as error:
            raise UnsupportedServer(f"{error}; {_SERVERS}") from error
        if max(alone.log_probabilities) > 0:
            raise UnsupportedServer(
                f"the server at {self.weights.client.url} gives logits, not log-probabilities; "
                "start vLLM without --logprobs-mode"
            )
        among = self.weights.score([ids[1:], ids, ids[2:]], 3 * [num_scored])[1]
        return float(np.abs(np.subtract(among.log_probabilities, alone.log_probabilities)).max())


def _served_models(client: Client) -> list[dict[str, Any]]:
    listed = client.ask("/v1/models")
    models = listed.get("data") if isinstance(listed, dict) else None
    if not models:
        raise UnsupportedServer(
            f"the server at {client.url} has no list of models at /v1/models; {_SERVERS}"
        )
    return cast(list[dict[str, Any]], models)


def _chosen(client: Client, models: Sequence[dict[str, Any]], name: str | None) -> dict[str, Any]:
    """The model of this name. Raises InvalidInput if there is none, or if a name is needed."""
    names = [str(model.get("id")) for model in models]
    if name is None and len(names) == 1:
        return models[0]
    if name not in names:
        raise InvalidInput(
            f"model={name!r}; the server at {client.url} serves {', '.join(map(repr, names))}"
        )
    return models[names.index(name)]


def _loaded(tokenizer: PreTrainedTokenizerBase | str) -> PreTrainedTokenizerBase:
    if isinstance(tokenizer, PreTrainedTokenizerBase):
        return tokenizer
    if not isinstance(tokenizer, str | Path):
        raise InvalidInput(
            f"tokenizer={tokenizer!r:.80}; pass the model's tokenizer, its folder or its Hugging "
            "Face id"
        )
    try:
        loaded = AutoTokenizer.from_pretrained(os.path.expanduser(tokenizer))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the tokenizer {str(tokenizer)!r} cannot be loaded: {error}") from error
    return cast(PreTrainedTokenizerBase, loaded)


_SERVERS = (
    "vLLM (prompt_logprobs) and SGLang (input_token_logprobs) give log-probabilities of a prompt; "
    "llama.cpp's server, Ollama, TGI and the APIs of OpenAI and the like do not"
)


@dataclass(frozen=True, eq=False)
class ServedWeights:
    """The weights behind an HTTP server, which takes many requests at once.

    - `noise` is the largest difference in nats at a token between two calls for the same tokens,
      where the second is among others.
    - `max_length` is the server's limit in tokens.
    - `num_parameters` is 0 if it is unknown.
    - `device` and `dtype` describe the log-probabilities after they have arrived.
    """

    device: ClassVar[torch.device] = torch.device("cpu")
    dtype: ClassVar[torch.dtype] = torch.float32
    dtype_name: ClassVar[str] = "unknown"
    dequantized: ClassVar[bool] = False
    eos_ids: ClassVar[frozenset[int]] = frozenset()

    client: Client
    protocol: Protocol
    vocabulary_size: int
    max_length: int | None = None
    num_parameters: int = 0
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
        """Two less than the server's limit: it takes the whole response and one more token."""
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
    ) -> list[ScoredSequence]:
        """Log-probabilities of the last tokens of each sequence, given all tokens before them.

        `num_scored` says how many tokens of each. The sequences are requested in their order,
        several at once. Raises NoAnswerInTime after the deadline, a time of `time.perf_counter`.
        """
        protocol = self.protocol
        bodies = [*map(protocol.scoring, sequences, num_scored)]
        answers = self.client.post(protocol.path, bodies, deadline)
        try:
            read = [*map(protocol.scored, answers, sequences, num_scored)]
        except (LookupError, TypeError, ValueError) as error:
            raise self._malformed(error) from error
        scored = [each for each in read if each is not None]
        if len(scored) < len(read):
            raise UnsupportedServer(
                f"the server at {self.client.url} gives no log-probabilities of a prompt; "
                f"{_SERVERS}"
            )
        return scored

    def complete(
        self,
        prompt_ids: Sequence[int],
        max_new_tokens: int,
        options: dict[str, Any],
        deadline: float | None = None,
    ) -> ServedAnswer:
        """The server's answer to a prompt, greedy by default. `options` go to its sampling.

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
