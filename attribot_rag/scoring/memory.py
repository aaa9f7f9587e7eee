"""How much memory an attribution needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psutil
import torch
from transformers import PreTrainedModel

from attribot_rag.errors import ScoringOutOfMemory
from attribot_rag.model.generation import Generation

ATTENTION_LAYERS = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
"""Layers that keep each token's keys and values."""

_SCORE_BYTES = 8  # a log-likelihood of a unit at a token, and its difference from the full prompt


@dataclass(frozen=True)
class Footprint:
    """Bytes that scoring needs in addition to the model and a recorded cache.

    `cache` is for the keys and values of a prompt that must be read, `piece` for the states of its
    largest piece, and `row` for the states and logits of the longest row. `token` is the size of
    one token's states. The other fields count tokens and units.
    """

    num_prompt: int
    num_response: int
    num_units: int
    token: int
    row: int
    cache: int = 0
    piece: int = 0

    @classmethod
    def of(cls, model: PreTrainedModel, generation: Generation, num_units: int) -> Footprint:
        """The need of rows that are read from the beginning.

        States of recurrent layers, which do not grow with the prompt, are not counted.
        """
        prompt, response = len(generation.prompt_ids), len(generation.response_ids)
        token = token_bytes(model)
        row = (prompt + response) * token + response * logit_bytes(model)
        return cls(prompt, response, num_units, token, row)

    @property
    def scores(self) -> int:
        """The size of the log-likelihoods of all units."""
        return self.num_units * self.num_response * _SCORE_BYTES

    def batch_tokens(self, limit: int) -> int:
        """How many tokens a forward pass may have within so many bytes, at least 1."""
        return max(1, (limit - self.cache - self.scores) // self.token)

    @property
    def least(self) -> int:
        """The need of scoring one row at a time."""
        return self.cache + max(self.row, self.piece) + self.scores

    def check(self, limit: int | None, device: torch.device) -> None:
        """Raises ScoringOutOfMemory if `limit`, or else the device's free memory, is smaller."""
        allowed = free_memory(device) if limit is None else limit
        if allowed is None or self.least <= allowed:
            return
        room = "free" if limit is None else "allowed by ScoringOptions(max_memory=...)"
        raise ScoringOutOfMemory(
            f"the attribution of {self.num_prompt:,} prompt tokens, {self.num_response:,} response "
            f"tokens and {self.num_units:,} units needs about {_megabytes(self.least)}, but only "
            f"{_megabytes(allowed)} are {room}; use a shorter context, a smaller dtype or another "
            "device, or set max_memory to allow more"
        )


def token_bytes(model: PreTrainedModel) -> int:
    """Bytes of a token's states in the largest layer: residual, attention and feed-forward."""
    config = model.config.get_text_config(decoder=True)
    hidden = int(config.hidden_size)
    inner = 4 * hidden
    for layer in _layers(config):
        sizes = getattr(layer, "intermediate_size", None) or 0  # Gemma 3n has a list of them
        inner = max(inner, *(sizes if isinstance(sizes, list) else [sizes]))
    return (12 * hidden + 4 * inner) * model.dtype.itemsize


def logit_bytes(model: PreTrainedModel) -> int:
    """Bytes of the logits at one position, and of their softmax in float32."""
    vocab_size = int(model.config.get_text_config(decoder=True).vocab_size)
    return vocab_size * (model.dtype.itemsize + 4)


def cache_bytes(model: PreTrainedModel) -> int:
    """Bytes of a token's keys and values in all layers that keep them."""
    config = model.config.get_text_config(decoder=True)
    layers = _layers(config)
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * len(layers)
    kept = [layer for layer, kind in zip(layers, kinds, strict=True) if kind in ATTENTION_LAYERS]
    return 2 * sum(map(_key_size, kept)) * model.dtype.itemsize


def _layers(config: Any) -> Sequence[Any]:
    """The shape of each layer; most models have one for all."""
    return getattr(config, "per_layer_config", None) or [config] * int(config.num_hidden_layers)


def _key_size(layer: Any) -> int:
    """The size of a token's keys in a layer, in numbers."""
    num_heads = getattr(layer, "num_attention_heads", None)
    if not isinstance(num_heads, int):
        return 0
    head_dim = getattr(layer, "head_dim", None) or layer.hidden_size // num_heads
    return int(head_dim * (getattr(layer, "num_key_value_heads", None) or num_heads))


def free_memory(device: torch.device) -> int | None:
    """Free bytes; None for a device that does not report them."""
    if device.type == "cpu":
        return int(psutil.virtual_memory().available)
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


REMEDY = "use a shorter context, a smaller dtype, or another device"
_CPU_TOKENS = 1536
_MAX_CUDA_TOKENS = 1 << 16
_MEMORY_SHARE = 0.5
Result = TypeVar("Result")


def default_budget(device: torch.device, bytes_per_token: int) -> int:
    """How many tokens a pass has: on a GPU, by its free memory. On a CPU, more are not faster."""
    if device.type != "cuda":
        return _CPU_TOKENS
    free, _ = torch.cuda.mem_get_info(device)
    return max(1, min(int(free * _MEMORY_SHARE) // bytes_per_token, _MAX_CUDA_TOKENS))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out. CUDA has its own error; the CPU raises a plain RuntimeError."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    messages = ("not enough memory", "can't allocate memory")
    return isinstance(error, RuntimeError) and any(text in str(error) for text in messages)


@contextmanager
def naming_out_of_memory(num_tokens: int) -> Iterator[None]:
    """Raise the out-of-memory errors of any allocator as ScoringOutOfMemory."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, ScoringOutOfMemory) or not is_out_of_memory(error):
            raise
        raise ScoringOutOfMemory(
            f"the attribution of {num_tokens} tokens does not fit into memory; {REMEDY}"
        ) from error


def unless_out_of_memory(compute: Callable[[], Result]) -> Result | None:
    """The result, computed without gradients; None if it does not fit into memory."""
    try:
        with torch.no_grad():
            return compute()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None
