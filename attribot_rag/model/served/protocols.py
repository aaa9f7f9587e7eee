"""Requests to servers for log-probabilities and answers, and the servers' replies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Sequence
from io import BytesIO
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attribot_rag.errors import ServerFailed

_OTHER_TOKENS = "{} gave log-probabilities of other tokens than it was given"


class Scored(NamedTuple):
    """Log-probabilities of the last tokens of a sequence, in nats.

    `num_tokens` went through the model for them.
    """

    log_probabilities: tuple[float, ...]
    num_tokens: int


class Completion(NamedTuple):
    """An answer: its ids where the server tells them, its text, and whether it was cut."""

    ids: tuple[int, ...] | None
    text: str
    is_cut: bool


class Protocol(ABC):
    """An endpoint of a server, with the form of its requests and replies.

    `reads_cache` says that the common beginning of sequences is encoded once, as far as the
    server's prefix cache holds it; `refuses_lists` that the server took no list of sequences.
    """

    name: ClassVar[str]
    path: ClassVar[str]
    reads_cache: ClassVar[bool]
    refuses_lists: bool = False

    def __init__(self, model: str) -> None:
        self.model = model

    @abstractmethod
    def scoring(self, token_ids: Sequence[int], num_scored: int) -> dict[str, Any]:
        """The request for the log-probabilities of the last tokens of a sequence."""

    def uncached(self, scoring: dict[str, Any]) -> dict[str, Any] | None:
        """The request without the prefix cache; None where replies hold all tokens with it."""
        return None

    def joined(self, scorings: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """One request in place of several; None where the endpoint takes one sequence only."""
        return None

    def parted(self, answer: Any, scorings: Sequence[dict[str, Any]]) -> list[Any]:
        """The reply to each of the joined requests, in their order.

        Raises LookupError or TypeError where one is missing, or is another one's.
        """
        return [answer]

    @abstractmethod
    def scored(self, answer: Any, token_ids: Sequence[int], num_scored: int) -> Scored | None:
        """The prompt's log-probabilities, or None; raises ServerFailed if of other tokens."""

    @abstractmethod
    def completing(
        self, prompt_ids: Sequence[int], max_new_tokens: int, options: dict[str, Any]
    ) -> dict[str, Any]:
        """The request for an answer; `options` go to the server's sampling as they are."""

    @abstractmethod
    def completion(self, answer: Any) -> Completion:
        """The answer in a reply."""


class VllmCompletions(Protocol):
    """vLLM of any version: OpenAI's completions with vLLM's `prompt_logprobs`.

    vLLM encodes such a prompt from its beginning, and generates a token that nobody needs.
    """

    name = "vllm"
    path = "/v1/completions"
    reads_cache = False

    def scoring(self, token_ids: Sequence[int], num_scored: int) -> dict[str, Any]:
        return self._asking(token_ids, 1, prompt_logprobs=0)

    def joined(self, scorings: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {**scorings[0], "prompt": [scoring["prompt"] for scoring in scorings]}

    def parted(self, answer: Any, scorings: Sequence[dict[str, Any]]) -> list[Any]:
        choices = {choice["index"]: choice for choice in answer["choices"]}
        return [{"choices": [choices[index]]} for index in range(len(scorings))]

    def scored(self, answer: Any, token_ids: Sequence[int], num_scored: int) -> Scored | None:
        positions = answer["choices"][0].get("prompt_logprobs")
        if not positions:
            return None
        pairs = zip(positions[-num_scored:], token_ids[-num_scored:], strict=True)
        entries = [(position or {}).get(str(token_id)) for position, token_id in pairs]
        if len(positions) != len(token_ids) or not all(entries):
            raise ServerFailed(_OTHER_TOKENS.format(self.path))
        return Scored(tuple(float(entry["logprob"]) for entry in entries if entry), len(token_ids))

    def completing(
        self, prompt_ids: Sequence[int], max_new_tokens: int, options: dict[str, Any]
    ) -> dict[str, Any]:
        return self._asking(prompt_ids, max_new_tokens, return_token_ids=True) | options

    def completion(self, answer: Any) -> Completion:
        choice = answer["choices"][0]
        ids = choice.get("token_ids")
        is_cut = choice.get("finish_reason") == "length"
        return Completion(None if ids is None else tuple(ids), choice["text"], is_cut)

    def _asking(self, token_ids: Sequence[int], max_tokens: int, **options: Any) -> dict[str, Any]:
        request = {"model": self.model, "prompt": list(token_ids), "max_tokens": max_tokens}
        return {**request, "temperature": 0, **options}


class VllmGenerate(Protocol):
    """vLLM's endpoint of ids, which takes those to score (its Model Runner V2; not on CPUs).

    The head runs on the answer's rows only, and the prefix cache is read: a hit ends where a source
    was removed. Where it goes on into the answer, which has been scored or generated there before,
    vLLM gives no log-probabilities at all.
    """

    name = "vllm-generate"
    path = "/inference/v1/generate"
    reads_cache = True

    def scoring(self, token_ids: Sequence[int], num_scored: int) -> dict[str, Any]:
        return self._asking(
            token_ids,
            max_tokens=1,
            prompt_logprob_token_ids=[[token_id] for token_id in token_ids[-num_scored:]],
            prompt_logprob_start=len(token_ids) - num_scored - 1,
            skip_reading_prefix_cache=False,
        )

    def uncached(self, scoring: dict[str, Any]) -> dict[str, Any] | None:
        sampling = {**scoring["sampling_params"], "skip_reading_prefix_cache": True}
        return {**scoring, "sampling_params": sampling}

    def scored(self, answer: Any, token_ids: Sequence[int], num_scored: int) -> Scored | None:
        encoded = answer.get("prompt_token_id_logprobs")
        if encoded is None:
            return None
        matrix = np.lib.format.read_array(BytesIO(b64decode(encoded)), allow_pickle=False)
        if matrix.shape != (num_scored, 1):
            raise ServerFailed(_OTHER_TOKENS.format(self.path))
        return Scored(tuple(map(float, matrix[:, 0])), len(token_ids))

    def completing(
        self, prompt_ids: Sequence[int], max_new_tokens: int, options: dict[str, Any]
    ) -> dict[str, Any]:
        return self._asking(prompt_ids, max_tokens=max_new_tokens, **options)

    def completion(self, answer: Any) -> Completion:
        choice = answer["choices"][0]
        return Completion(tuple(choice["token_ids"]), "", choice.get("finish_reason") == "length")

    def _asking(self, token_ids: Sequence[int], **sampling: Any) -> dict[str, Any]:
        return {
            "model": self.model,
            "token_ids": list(token_ids),
            "sampling_params": {"temperature": 0, **sampling},
        }


class SglangGenerate(Protocol):
    """SGLang's own endpoint, which encodes the tokens that its radix cache lacks."""

    name = "sglang"
    path = "/generate"
    reads_cache = True

    def scoring(self, token_ids: Sequence[int], num_scored: int) -> dict[str, Any]:
        return {
            "input_ids": list(token_ids),
            "sampling_params": {"max_new_tokens": 0, "temperature": 0},
            "return_logprob": True,
            "logprob_start_len": len(token_ids) - num_scored - 1,
        }

    def joined(self, scorings: Sequence[dict[str, Any]]) -> dict[str, Any]:
        own = ("input_ids", "logprob_start_len")
        return {**scorings[0], **{name: [scoring[name] for scoring in scorings] for name in own}}

    def parted(self, answer: Any, scorings: Sequence[dict[str, Any]]) -> list[Any]:
        if not isinstance(answer, list) or len(answer) != len(scorings):
            raise TypeError(f"no list of {len(scorings)} replies")
        # The scored tokens are the answer's in each: only the lengths tell whose reply it is.
        for reply, scoring in zip(answer, scorings, strict=True):
            if reply["meta_info"]["prompt_tokens"] != len(scoring["input_ids"]):
                raise LookupError("a reply is that to another sequence")
        return answer

    def scored(self, answer: Any, token_ids: Sequence[int], num_scored: int) -> Scored | None:
        details = answer["meta_info"]
        entries = (details.get("input_token_logprobs") or ())[-num_scored:]
        if not entries:
            return None
        if [entry[1] for entry in entries] != list(token_ids[-num_scored:]):
            raise ServerFailed(_OTHER_TOKENS.format(self.path))
        num_tokens = len(token_ids) - int(details.get("cached_tokens") or 0)
        return Scored(tuple(float(entry[0]) for entry in entries), num_tokens)

    def completing(
        self, prompt_ids: Sequence[int], max_new_tokens: int, options: dict[str, Any]
    ) -> dict[str, Any]:
        sampling = {"max_new_tokens": max_new_tokens, "temperature": 0, **options}
        return {"input_ids": list(prompt_ids), "sampling_params": sampling}

    def completion(self, answer: Any) -> Completion:
        ids = answer.get("output_ids")
        is_cut = answer["meta_info"]["finish_reason"]["type"] == "length"
        return Completion(None if ids is None else tuple(ids), answer["text"], is_cut)
