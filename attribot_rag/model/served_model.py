"""A model that another machine serves."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

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
from attribot_rag.model.local_model import LocalModel
from attribot_rag.model.served.client import Client, ServerOptions
from attribot_rag.model.served.protocols import SglangGenerate, VllmCompletions, VllmGenerate
from attribot_rag.model.served.weights import SERVERS, ServedWeights

_TEST_TEXT = (
    "The ferry Kittiwake carries up to 1,084 passengers; a ticket is £18.50. "
    "Café, naïve, 条約は町で署名された。 In 1844 the lamp was lit for the first time."
)
_NUM_SCORED = 16  # tokens at its end
_PROTOCOLS = {kind.name: kind for kind in (VllmCompletions, VllmGenerate, SglangGenerate)}

logger = logging.getLogger(__name__)


class ServedModel(LanguageModel):
    """A LanguageModel whose weights are behind an HTTP server; its tokenizer is here."""

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
        reference: LocalModel | None = None,
    ) -> ServedModel:
        """The model at a URL, after a test of the server's log-probabilities.

        An API key is read from ATTRIBOT_RAG_SERVER_KEY. Raises ServerFailed if the server does not
        answer, UnsupportedServer without log-probabilities of a prompt, TokenizerMismatch if its
        tokenizer, or that of the reference, gives other ids, InvalidInput for a model that it does
        not serve.

        Args:
            url: http://HOST:PORT, also with the /v1 that OpenAI's clients need.
            tokenizer: The model's own, its folder or its Hugging Face id.
            model: The server's name for it; needed if it serves several models.
            num_parameters: For the FLOPs of the result, which are 0 without it.
            options: Options of the requests.
            reference: The same weights on this machine, with which the log-probabilities of a test
                text are compared, and those of each attribution if `self_check` is set.
        """
        client = Client(url, options or ServerOptions())
        entry = _chosen(client, _served_models(client), model)
        default = "sglang" if entry.get("owned_by") == "sglang" else "vllm"
        kind = _PROTOCOLS[client.options.protocol or default]
        length = entry.get("max_model_len")
        loaded = _loaded(tokenizer)
        weights = ServedWeights(
            client,
            kind(str(entry["id"])),
            len(loaded),
            max_length=None if length is None else int(length),
            num_parameters=num_parameters,
            reference=None if reference is None else reference.model,
        )
        language_model = cls(weights, loaded)
        language_model._check_tokenizer()
        if kind is VllmCompletions and client.options.protocol is None:
            language_model._prefer_generate()
        noise = language_model._measured_noise(reference)
        language_model.weights = replace(language_model.weights, noise=noise)
        return language_model

    def _check_tokenizer(self) -> None:
        """Raises TokenizerMismatch if the server tells other ids for a text; some tell none."""
        with self._private.locked() as tokenizer:
            ours = list(tokenizer(_TEST_TEXT)["input_ids"])
        theirs = self._their_ids(prompt=_TEST_TEXT, add_special_tokens=True)
        if theirs is not None and theirs != ours:
            name = without_folder(self.tokenizer.name_or_path)
            raise TokenizerMismatch(
                f"the tokenizer {name!r} and that of the server at "
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

    def _test_ids(self) -> tuple[tuple[int, ...], int]:
        """The ids of the test text, and the number of those at its end that are scored."""
        ids = self.encode(_TEST_TEXT)
        return ids, min(_NUM_SCORED, len(ids) - 1)

    def _prefer_generate(self) -> None:
        """Take vLLM's faster endpoint if it gives log-probabilities; most servers lack it."""
        ids, num_scored = self._test_ids()
        protocol = VllmGenerate(self.name)
        body = protocol.uncached(protocol.scoring(ids, num_scored))
        try:
            answer = self.weights.client.ask(protocol.path, body)
            scored = None if answer is None else protocol.scored(answer, ids, num_scored)
        except (ServerFailed, LookupError, TypeError, ValueError) as error:
            logger.info("%s is not used: %s", protocol.path, error)
            return
        if scored is not None:
            self.weights = replace(self.weights, protocol=protocol)

    def _measured_noise(self, reference: LocalModel | None) -> float:
        """The largest difference in nats at a token from a call alone.

        To a call among calls for other ids, and to the reference.
        """
        ids, num_scored = self._test_ids()
        try:
            alone = self.weights.score([ids], [num_scored])[0]
        except Refused as error:
            raise UnsupportedServer(f"{error}; {SERVERS}") from error
        if max(alone.log_probabilities) > 0:
            raise UnsupportedServer(
                f"the server at {self.weights.client.url} gives logits, not log-probabilities; "
                "start vLLM without --logprobs-mode"
            )
        among = self.weights.score([ids[1:], ids, ids[2:]], 3 * [num_scored])[1]
        compared = [among.log_probabilities]
        if reference is not None:
            compared.append(self._by_reference(reference, ids, num_scored))
        return float(np.abs(np.subtract(compared, alone.log_probabilities)).max())

    def _by_reference(
        self, reference: LocalModel, token_ids: tuple[int, ...], num_scored: int
    ) -> tuple[float, ...]:
        if reference.encode(_TEST_TEXT) != token_ids:
            raise TokenizerMismatch(
                f"the reference {reference.public_name!r} has another tokenizer than "
                f"{self.public_name!r}; pass "
                "the same weights"
            )
        ids = torch.tensor([token_ids], device=reference.device)
        with torch.no_grad():
            logits = reference.model(input_ids=ids[:, :-1]).logits[0, -num_scored:]
        scored = logits.float().log_softmax(-1).gather(-1, ids[0, -num_scored:, None])
        return tuple(scored[:, 0].tolist())


def _served_models(client: Client) -> list[dict[str, Any]]:
    listed = client.ask("/v1/models")
    models = listed.get("data") if isinstance(listed, dict) else None
    if not models:
        raise UnsupportedServer(
            f"the server at {client.url} has no list of models at /v1/models; {SERVERS}"
        )
    return cast(list[dict[str, Any]], models)


def _chosen(client: Client, models: Sequence[dict[str, Any]], name: str | None) -> dict[str, Any]:
    """The model of this name; raises InvalidInput if there is none, or another one is needed."""
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
