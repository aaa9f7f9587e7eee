"""A generation as it happened: the ids that the model saw, the ids that it gave, its KV cache."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import torch
from torch import nn
from transformers import Cache, PreTrainedModel
from transformers.generation import utils

from attribot_rag.errors import InvalidInput

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class LayerCache(NamedTuple):
    """Keys and values of an attention layer: [1, num_key_value_heads, positions, head_dim]."""

    keys: torch.Tensor
    values: torch.Tensor

    def first(self, num_positions: int) -> LayerCache:
        """A view of the first positions."""
        return LayerCache(*(tensor[:, :, :num_positions] for tensor in self))


PromptCache = tuple[LayerCache, ...]


def cache_size(cache: PromptCache) -> int:
    """Bytes of memory that a cache keeps alive."""
    return sum(tensor.untyped_storage().nbytes() for tensor in chain.from_iterable(cache))


class TokenInput(NamedTuple):
    """An input with a value for each token that depends on the token's id alone."""

    by_id: Mapping[int, int]
    default: int
    """The value of ids that the prompt does not have."""

    def of(self, token_ids: Sequence[int]) -> torch.Tensor:
        """The values of other ids: [1, num_tokens]."""
        return torch.tensor([[self.by_id.get(i, self.default) for i in token_ids]])


@dataclass(frozen=True, eq=False)
class Conditioning:
    """Inputs of the model besides token ids and their mask, by their names in a forward pass.

    `whole` is passed on as it is: images, their sizes. `per_token` follows the ids. `unknown` names
    inputs that cannot be passed on to other prompts, such as embeddings.
    """

    whole: Mapping[str, Any] = field(default_factory=dict)
    per_token: Mapping[str, TokenInput] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.names)

    def __str__(self) -> str:
        return ", ".join(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.whole, *self.per_token, *self.unknown)

    def inputs(self, token_ids: Sequence[int], device: torch.device) -> dict[str, Any]:
        """The inputs of a forward pass over these ids."""
        per_token = {name: values.of(token_ids) for name, values in self.per_token.items()}
        inputs: dict[str, Any] = {**self.whole, **per_token}
        return {
            name: value.to(device) if isinstance(value, torch.Tensor) else value
            for name, value in inputs.items()
        }


@dataclass(frozen=True, eq=False)
class GenerationSettings:
    """Arguments of `generate` besides its inputs, with which another prompt is answered alike.

    `values` are limits, beams, sampling by name. `left_out` names arguments that shaped the answer,
    too, but may hold a state: processors of logits, criteria to stop. `constraints` names those
    that made the model's own choice of a token another one.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Generation:
    """A prompt and the response that a model gave to it, in token ids.

    `response_ids` hold neither the end-of-sequence token nor tokens after it. `cache`, if not
    None, covers the beginning of the prompt; a recorded one, at least all tokens but the last.
    `retokenized` says that the ids were made from text afterwards and may differ from the ids that
    the model saw or gave. The decoder of an encoder-decoder began with `decoder_ids`; empty, with
    its start token.
    `model_version` is that of the model when it answered (`state.model_version`), None if
    that is not known. `cut_at` is the limit in tokens at which the model had to stop, None if it
    ended otherwise; `unfinished` says that it, a stop string or a reader ended the response and not
    the model, `out_of_time` that the end of its seconds did. `settings` are how it was generated,
    None if that is not known; `span` is the OpenTelemetry span in which it answered, None without
    any. `refusal` says why it cannot be attributed, None if it can. `dropped_bytes` are those of a
    recorded cache that was let go before the answer was attributed. Raises InvalidInput for an
    empty response, and for an empty prompt that nothing else conditioned.
    """

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    cache: PromptCache | None = None
    retokenized: bool = False
    conditioning: Conditioning = Conditioning()
    decoder_ids: tuple[int, ...] = ()
    model_version: int | None = None
    cut_at: int | None = None
    unfinished: bool = False
    out_of_time: bool = False
    settings: GenerationSettings | None = None
    span: Span | None = None
    refusal: str | None = None
    dropped_bytes: int = 0

    def __post_init__(self) -> None:
        if not (self.prompt_ids or self.conditioning):
            raise InvalidInput("the prompt has no tokens; pass what the model was given")
        if not self.response_ids:
            raise InvalidInput("the response has no tokens, so there is nothing to attribute")

    def __repr__(self) -> str:
        return (
            f"Generation({len(self.prompt_ids)} prompt tokens, {len(self.response_ids)} response "
            f"tokens, {'not cached' if self.cache is None else 'cached'}, "
            f"{'retokenized' if self.retokenized else 'not retokenized'})"
        )

    def without_cache(self) -> Generation:
        return replace(self, cache=None)

    def without_tensors(self) -> Generation:
        """The same generation without its cache and without other inputs, which are named only."""
        return replace(self, cache=None, conditioning=Conditioning(unknown=self.conditioning.names))

    def truncated(self, num_response_tokens: int) -> Generation:
        """The same generation with only the first tokens of its response."""
        if num_response_tokens >= len(self.response_ids):
            return self
        shorter = self.response_ids[:num_response_tokens]
        return replace(self, response_ids=shorter, cut_at=None, unfinished=True, out_of_time=False)

    @property
    def num_cached(self) -> int:
        """Tokens of the prompt, but for its last one, that need not be read."""
        length = self.cache[0].keys.shape[2] if self.cache else 0
        return min(length, len(self.prompt_ids) - 1)

    @property
    def num_bytes(self) -> int:
        """Bytes of memory that the cache and the other inputs keep alive."""
        inputs = self.conditioning.whole.values()
        tensors = (value for value in inputs if isinstance(value, torch.Tensor))
        return cache_size(self.cache or ()) + sum(x.untyped_storage().nbytes() for x in tensors)


_CPU_TOKENS = 512  # in one piece: larger pieces are no faster, and a deadline waits for one
_GPU_TOKENS = 2048

_NAMES = ("cache", "past_key_values", "cache_params")

CACHE_NAMES = (*_NAMES, *(name for name in utils.ALL_CACHE_NAMES if name not in _NAMES))
"""Names under which models are known to take a cache or states of recurrent layers."""


def cache_name(model: nn.Module) -> str | None:
    """The parameter for a cache or states, by its name or its type; None without any."""
    parameters = inspect.signature(model.forward).parameters
    annotated = (name for name, parameter in parameters.items() if _is_cache(parameter.annotation))
    named = (name for name in CACHE_NAMES if name in parameters)
    return next(named, None) or next(annotated, None)


def cache_inputs(model: nn.Module, cache: Any) -> dict[str, Any]:
    """A cache as an argument of the model's forward pass; nothing if it takes none."""
    name = cache_name(model)
    return {} if name is None else {name: cache}


def holds_cache(value: object) -> bool:
    """Whether a value is a Cache, or a container with one in it."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        return any(map(holds_cache, value))
    return isinstance(value, Cache)


def piece_size(device: torch.device) -> int:
    """The number of tokens of a prompt that are read at once."""
    return _CPU_TOKENS if device.type == "cpu" else _GPU_TOKENS


def read_in_pieces(
    model: PreTrainedModel,
    token_ids: Sequence[int],
    cache: Mapping[str, Any],
    before_piece: Callable[[int], None],
    conditioning: Conditioning | None = None,
    start: int = 0,
) -> None:
    """Encode ids into an empty cache, or from `start` on; with `conditioning` in one piece.

    `cache` is that as an argument (`cache_inputs`): a body may take it without naming it.
    `before_piece` is called with the position of each piece; what it raises ends the reading.
    """
    takes_positions = "position_ids" in inspect.signature(model.forward).parameters
    size = len(token_ids) if conditioning else piece_size(model.device)
    for first in range(start, len(token_ids), size):
        before_piece(first)
        chunk = torch.tensor([token_ids[first : first + size]], device=model.device)
        inputs = {"input_ids": chunk, "use_cache": True, **cache}
        if conditioning:
            inputs |= conditioning.inputs(token_ids, model.device)
        elif takes_positions:  # else the model counts on from its images
            stop = first + chunk.shape[1]
            inputs["position_ids"] = torch.arange(first, stop, device=model.device)[None]
        model(**inputs)


def _is_cache(annotation: object) -> bool:
    kinds: Iterable[object] = get_args(annotation) or (annotation,)
    return any(isinstance(kind, type) and issubclass(kind, Cache) for kind in kinds)
