"""A generation as it happened: the ids that the model saw, the ids that it gave, its KV cache."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from transformers import Cache, PreTrainedModel

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
    the model saw or gave. `conditioned_on` names inputs besides ids that shaped the answer, such as
    images. `model_version` is that of the model when it answered, None if that is not known.
    `cut_at` is the limit in tokens at which the model had to stop, None if it ended otherwise;
    `unfinished` says that it, a stop string or a reader ended the response and not the model,
    `out_of_time` that the end of its seconds did. `settings` are how it was generated, None if that
    is not known; `span` is the OpenTelemetry span in which it answered, None without any. `refusal`
    says why it cannot be attributed, None if it can. `dropped_bytes` are those of a recorded cache
    that was let go before the answer was attributed. Raises InvalidInput for an empty response, and
    for an empty prompt that nothing else conditioned.
    """

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    cache: PromptCache | None = None
    retokenized: bool = False
    conditioned_on: tuple[str, ...] = ()
    model_version: int | None = None
    cut_at: int | None = None
    unfinished: bool = False
    out_of_time: bool = False
    settings: GenerationSettings | None = None
    span: Span | None = None
    refusal: str | None = None
    dropped_bytes: int = 0

    def __post_init__(self) -> None:
        if not (self.prompt_ids or self.conditioned_on):
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
        """Bytes of memory that the cache keeps alive."""
        return cache_size(self.cache or ())


_CPU_TOKENS = 512  # in one piece: larger pieces are no faster, and a deadline waits for one
_GPU_TOKENS = 2048


CACHE_NAMES = ("cache", "past_key_values")
"""Names under which models take a cache, by their release of transformers."""


def cache_inputs(model: PreTrainedModel, cache: Cache) -> dict[str, Any]:
    """A cache as an argument of the model's forward pass; nothing if it takes none."""
    parameters = inspect.signature(model.forward).parameters
    return dict.fromkeys([n for n in CACHE_NAMES if n in parameters][:1], cache)


def piece_size(device: torch.device) -> int:
    """The number of tokens of a prompt that are read at once."""
    return _CPU_TOKENS if device.type == "cpu" else _GPU_TOKENS


def read_in_pieces(
    model: PreTrainedModel,
    token_ids: Sequence[int],
    cache: Mapping[str, Any],
    before_piece: Callable[[int], None],
    start: int = 0,
) -> None:
    """Encode ids into an empty cache, or into one of the tokens before `start`.

    `cache` is that as an argument (`cache_inputs`): a body may take it without naming it.
    `before_piece` is called with the position of each piece; what it raises ends the reading.
    """
    takes_positions = "position_ids" in inspect.signature(model.forward).parameters
    size = piece_size(model.device)
    for first in range(start, len(token_ids), size):
        before_piece(first)
        chunk = torch.tensor([token_ids[first : first + size]], device=model.device)
        inputs = {"input_ids": chunk, "use_cache": True, **cache}
        if takes_positions:
            stop = first + chunk.shape[1]
            inputs["position_ids"] = torch.arange(first, stop, device=model.device)[None]
        model(**inputs)
