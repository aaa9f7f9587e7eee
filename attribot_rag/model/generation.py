"""A generation as it happened: the ids that the model saw and gave, and its KV cache."""

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
    """How many bytes of memory a cache uses."""
    return sum(tensor.untyped_storage().nbytes() for tensor in chain.from_iterable(cache))


@dataclass(frozen=True, eq=False)
class GenerationSettings:
    """Arguments of `generate`, without its inputs, to answer another prompt in the same way.

    `values` has limits, beams and sampling by name. `left_out` names other arguments that affect
    the answer but may have a state: logits processors and stopping criteria. `constraints` names
    those that may have changed the model's choice of a token.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Generation:
    """A prompt and the response that a model gave to it, as token ids.

    Raises InvalidInput for an empty response, and for an empty prompt without other inputs.

    - `response_ids` end before the end-of-sequence token.
    - `cache` covers the beginning of the prompt; a recorded one has at least all tokens except the
      last. It may be None.
    - `retokenized` says that the ids were made from text, so they may differ from those that the
      model saw or gave.
    - `conditioned_on` names inputs other than ids, such as images.
    - `model_version` is the version of the model when it answered; None if unknown.
    - `cut_at` is the limit in tokens that ended the response; None if it ended otherwise.
    - `unfinished` says that a limit, a stop string or a reader ended the response, and
      `out_of_time` that a time limit did.
    - `settings` are those of `generate`; None if unknown.
    - `span` is the OpenTelemetry span of the call, or None.
    - `dropped_bytes` is the size of a recorded cache that was dropped before the attribution.
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
        """How many tokens of the prompt, without its last one, need not be read again."""
        length = self.cache[0].keys.shape[2] if self.cache else 0
        return min(length, len(self.prompt_ids) - 1)

    @property
    def num_bytes(self) -> int:
        """How many bytes of memory the cache uses."""
        return cache_size(self.cache or ())


_CPU_TOKENS = 512  # in one piece; larger ones are no faster, and delay a deadline
_GPU_TOKENS = 2048


CACHE_NAMES = ("cache", "past_key_values")
"""Names of models' cache argument, which depend on the release of transformers."""


def cache_inputs(model: PreTrainedModel, cache: Cache) -> dict[str, Any]:
    """A cache as an argument of the model's forward pass; empty if the model takes none."""
    parameters = inspect.signature(model.forward).parameters
    return dict.fromkeys([n for n in CACHE_NAMES if n in parameters][:1], cache)


def piece_size(device: torch.device) -> int:
    """How many tokens of a prompt are read at once."""
    return _CPU_TOKENS if device.type == "cpu" else _GPU_TOKENS


def read_in_pieces(
    model: PreTrainedModel,
    token_ids: Sequence[int],
    cache: Mapping[str, Any],
    before_piece: Callable[[int], None],
    start: int = 0,
) -> None:
    """Encode ids into an empty cache, or into one that has the tokens before `start`.

    `cache` is the argument for it (`cache_inputs`); the model's body may take it without naming it.
    `before_piece` is called with the position of each piece. If it raises an error, reading ends.
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
