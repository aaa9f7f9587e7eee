"""A model that another machine serves."""

from __future__ import annotations

import logging
import os
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from attribot_rag.errors import (
    InvalidInput,
    ServerFailed,
    TokenizerMismatch,
    UnsupportedModel,
    UnsupportedServer,
)
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.model.served.client import Client, Refused, ServerOptions
from attribot_rag.model.served.protocols import (
    Protocol,
    Scored,
    SglangGenerate,
    VllmCompletions,
    VllmGenerate,
)
from attribot_rag.model.tokenizer import PrivateTokenizer

_KNOWN_TEXT = (
    "The ferry Kittiwake carries up to 1,084 passengers; a ticket is £18.50. "
    "Café, naïve, 条約は町で署名された。 In 1844 the lamp was lit for the first time."
)
_NUM_KNOWN = 16  # tokens at its end that are scored on connecting
_PROTOCOLS = {one.name: one for one in (VllmCompletions, VllmGenerate, SglangGenerate)}
_SERVERS = (
    "vLLM (prompt_logprobs) and SGLang (input_token_logprobs) give log-probabilities of a prompt; "
    "llama.cpp's server, Ollama, TGI and the APIs of OpenAI and the like do not"
)

logger = logging.getLogger(__name__)


class ServedModel(LanguageModel):
    """A LanguageModel whose weights are behind an HTTP server; its tokenizer is here.

    What needs the weights (`model`) raises UnsupportedModel. Log-probabilities come from the
    server, with `noise`: the largest difference in nats at a token between two calls for the same
    tokens, the second among others, and to the `reference`, the same weights on this machine, if
    there is one. `num_parameters` is 0 where nobody said.
    """

    def __init__(
        self,
        client: Client,
        protocol: Protocol,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_length: int | None,
        num_parameters: int = 0,
        reference: LanguageModel | None = None,
    ) -> None:
        for name, value in {
            "tokenizer": tokenizer,
            "_private": PrivateTokenizer(tokenizer),
            "client": client,
            "protocol": protocol,
            "max_length": max_length,
            "noise": 0.0,
            "reference": reference,
            "_num_parameters": num_parameters,
        }.items():
            object.__setattr__(self, name, value)

    client: Client
    protocol: Protocol
    max_length: int | None
    noise: float
    reference: LanguageModel | None
    _num_parameters: int

    @classmethod
    def connect(
        cls,
        url: str,
        tokenizer: PreTrainedTokenizerBase | str,
        *,
        model: str | None = None,
        num_parameters: int = 0,
        options: ServerOptions | None = None,
        reference: LanguageModel | None = None,
    ) -> ServedModel:
        """The model at a URL, after a look at what the server gives.

        `tokenizer` is the model's own, or its folder or Hugging Face id; `model` the server's name
        for it, which may be left out where it serves a single model. An API key is read from
        ATTRIBOT_RAG_SERVER_KEY. A `reference` has the same weights on this machine, with which a
        known text's log-probabilities are compared, and each attribution's if `self_check` is set.
        Raises ServerFailed if the server does not answer, UnsupportedServer without
        log-probabilities of a prompt, TokenizerMismatch if its tokenizer, or that of the reference,
        gives other ids, InvalidInput for a model that it does not serve.
        """
        client = Client(url, options or ServerOptions())
        served = _served_models(client)
        found = _chosen(client, served, model)
        told = "sglang" if found.get("owned_by") == "sglang" else "vllm"
        kind = _PROTOCOLS[client.options.protocol or told]
        length = found.get("max_model_len")
        language_model = cls(
            client,
            kind(str(found["id"])),
            _loaded(tokenizer),
            max_length=None if length is None else int(length),
            num_parameters=num_parameters,
            reference=reference,
        )
        language_model._check_tokenizer()
        if kind is VllmCompletions and client.options.protocol is None:
            language_model._prefer_generate()
        object.__setattr__(language_model, "noise", language_model._measured_noise())
        return language_model

    def __repr__(self) -> str:
        return f"ServedModel({self.name!r} at {self.client.url})"

    @property
    def model(self) -> PreTrainedModel:
        raise UnsupportedModel(
            f"{self.name!r} is on the server at {self.client.url}; what was asked for needs its "
            "weights on this machine"
        )

    @property
    def identity(self) -> Hashable:
        return self

    @property
    def name(self) -> str:
        return self.protocol.model

    @property
    def device(self) -> torch.device:
        """Where the log-probabilities are, once they have come."""
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        """That of the log-probabilities."""
        return torch.float32

    @property
    def device_name(self) -> str:
        return self.client.url

    @property
    def dtype_name(self) -> str:
        return "unknown"

    @property
    def is_encoder_decoder(self) -> bool:
        return False

    @property
    def vocabulary_size(self) -> int:
        return len(self.tokenizer)

    @property
    def num_parameters(self) -> int:
        return self._num_parameters

    @property
    def max_positions(self) -> int | None:
        """So that the whole response and one token more fit into what the server takes."""
        return None if self.max_length is None else self.max_length - 2

    @property
    def placeholder_ids(self) -> frozenset[int]:
        return frozenset()

    @property
    def eos_ids(self) -> frozenset[int]:
        end = self.tokenizer.eos_token_id
        return frozenset() if end is None else frozenset([end])

    def score(
        self,
        sequences: Sequence[Sequence[int]],
        num_scored: int,
        deadline: float | None = None,
    ) -> list[Scored]:
        """Log-probabilities of the last tokens of each sequence, given all tokens before.

        The sequences are asked for in their order, several at once. Raises NoAnswerInTime after
        the deadline, a time of `time.perf_counter`.
        """
        protocol = self.protocol
        bodies = [protocol.scoring(ids, num_scored) for ids in sequences]
        found = self._found(sequences, bodies, num_scored, deadline)
        lacking = [index for index, one in enumerate(found) if one is None]
        again = [protocol.uncached(bodies[index]) for index in lacking]
        if lacking and all(again):
            asked = [sequences[index] for index in lacking]
            others = self._found(asked, again, num_scored, deadline)
            for index, one in zip(lacking, others, strict=True):
                found[index] = one
        scored = [one for one in found if one is not None]
        if len(scored) < len(found):
            raise UnsupportedServer(
                f"the server at {self.client.url} gives no log-probabilities of a prompt; "
                f"{_SERVERS}"
            )
        return scored

    def _found(
        self,
        sequences: Sequence[Sequence[int]],
        bodies: Sequence[Any],
        num_scored: int,
        deadline: float | None,
    ) -> list[Scored | None]:
        answers = self.client.post(self.protocol.path, bodies, deadline)
        try:
            return [
                self.protocol.scored(answer, ids, num_scored)
                for answer, ids in zip(answers, sequences, strict=True)
            ]
        except (LookupError, TypeError, ValueError) as error:
            raise self._malformed(error) from error

    def answer(
        self, prompt_ids: Sequence[int], *, max_new_tokens: int, **options: Any
    ) -> Generation | None:
        """Let the server answer a prompt, greedily by default; None if the answer has no tokens.

        `options` are the server's own sampling options.
        """
        protocol = self.protocol
        body = protocol.completing(prompt_ids, max_new_tokens, options)
        (answer,) = self.client.post(protocol.path, [body])
        try:
            ids, text, is_cut = protocol.completion(answer)
        except (LookupError, TypeError) as error:
            raise self._malformed(error) from error
        response = list(self.encode(text) if ids is None else ids)
        ends = {*self.eos_ids, *self.tokenizer.all_special_ids}
        while response and response[-1] in ends:
            response.pop()
        if not response:
            return None
        return Generation(
            tuple(prompt_ids),
            tuple(response),
            retokenized=ids is None,
            cut_at=max_new_tokens if is_cut else None,
            unfinished=is_cut,
        )

    def _malformed(self, error: Exception) -> ServerFailed:
        return ServerFailed(
            f"the server at {self.client.url} answered {self.protocol.path} in another form than "
            f"{self.protocol.name} ({type(error).__name__}: {error})"
        )

    def _check_tokenizer(self) -> None:
        """Raises TokenizerMismatch if the server tells other ids for a text; some tell none."""
        with self._private.locked() as tokenizer:
            ours = list(tokenizer(_KNOWN_TEXT)["input_ids"])
        theirs = self._their_ids(prompt=_KNOWN_TEXT, add_special_tokens=True)
        if theirs is not None and theirs != ours:
            raise TokenizerMismatch(
                f"the tokenizer {self.tokenizer.name_or_path!r} and that of the server at "
                f"{self.client.url} give different ids for a text; pass the tokenizer of "
                f"{self.name!r}"
            )
        if not self.tokenizer.chat_template:
            return
        messages = [{"role": "user", "content": _KNOWN_TEXT}]
        theirs = self._their_ids(messages=messages, add_generation_prompt=True)
        if theirs is not None and tuple(theirs) != self.encode_prompt(messages):
            logger.warning(
                "the server at %s renders chat messages differently from the tokenizer here; pass "
                "prompts as rendered text or ids",
                self.client.url,
            )

    def _their_ids(self, **text: Any) -> list[int] | None:
        try:
            answer = self.client.ask("/tokenize", {"model": self.name, **text})
        except ServerFailed as error:
            logger.info("the tokenizer cannot be compared with the server's: %s", error)
            return None
        return answer.get("tokens") if isinstance(answer, dict) else None

    @property
    def _known(self) -> tuple[tuple[int, ...], int]:
        """The ids of a known text, and how many of them are scored."""
        known = self.encode(_KNOWN_TEXT)
        return known, min(_NUM_KNOWN, len(known) - 1)

    def _prefer_generate(self) -> None:
        """Take vLLM's faster endpoint if it gives log-probabilities; most servers lack it."""
        known, num_scored = self._known
        protocol = VllmGenerate(self.name)
        body = protocol.uncached(protocol.scoring(known, num_scored))
        try:
            answer = self.client.ask(protocol.path, body)
            found = None if answer is None else protocol.scored(answer, known, num_scored)
        except (ServerFailed, LookupError, TypeError, ValueError) as error:
            logger.info("%s is not used: %s", protocol.path, error)
            return
        if found is not None:
            object.__setattr__(self, "protocol", protocol)

    def _measured_noise(self) -> float:
        """The largest difference in nats at a token between a call alone, one among others, and the
        reference."""
        known, num_scored = self._known
        try:
            alone = self.score([known], num_scored)[0]
        except Refused as error:
            raise UnsupportedServer(f"{error}; {_SERVERS}") from error
        if max(alone.log_probabilities) > 0:
            raise UnsupportedServer(
                f"the server at {self.client.url} gives logits, not log-probabilities; start vLLM "
                "without --logprobs-mode"
            )
        among = self.score([known[1:], known, known[2:]], num_scored)[1]
        others = [among.log_probabilities]
        if self.reference is not None:
            others.append(self._by_reference(self.reference, known, num_scored))
        return max(
            abs(one - two)
            for other in others
            for one, two in zip(alone.log_probabilities, other, strict=True)
        )

    def _by_reference(
        self, reference: LanguageModel, known: tuple[int, ...], num_scored: int
    ) -> tuple[float, ...]:
        if reference.encode(_KNOWN_TEXT) != known:
            raise TokenizerMismatch(
                f"the reference {reference.name!r} has another tokenizer than {self.name!r}; pass "
                "the same weights"
            )
        ids = torch.tensor([known], device=reference.device)
        with torch.no_grad():
            logits = reference.model(input_ids=ids[:, :-1]).logits[0, -num_scored:]
        found = logits.float().log_softmax(-1).gather(-1, ids[0, -num_scored:, None])
        return tuple(found[:, 0].tolist())


def _served_models(client: Client) -> list[dict[str, Any]]:
    listed = client.get("/v1/models")
    models = listed.get("data") if isinstance(listed, dict) else None
    if not models:
        raise UnsupportedServer(
            f"the server at {client.url} has no list of models at /v1/models; {_SERVERS}"
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
