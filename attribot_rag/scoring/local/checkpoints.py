"""States of recurrent layers at some positions of the prompt, from which rows go on."""

from __future__ import annotations

import copy
import inspect
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from attribot_rag.model.generation import cache_inputs
from attribot_rag.scoring.backend import Unsupported

BEGIN_ANEW = frozenset({"falcon_mamba", "jamba", "mamba", "recurrent_gemma", "zamba"})
"""Types of models whose layers go on from a state with a single token, but not with several."""

_STRIDE = 64  # tokens, at least; a kernel's own chunk, shorter pieces take as long
_MAX_BYTES = 1 << 30
_NO_WINDOW = 1 << 31  # positions


@dataclass(frozen=True, eq=False)
class Checkpoints:
    """The prompt's cache, and copies of it without keys and values at ascending positions.

    A state cannot be cropped to an earlier position, as keys and values can, but it can be kept.
    """

    cache: DynamicCache
    copies: tuple[tuple[int, DynamicCache], ...]

    @classmethod
    def of(
        cls,
        twin: PreTrainedModel,
        token_ids: Sequence[int],
        before_piece: Callable[[int], None],
    ) -> Checkpoints:
        """Encode the prompt once, keeping the states after pieces of 64 tokens.

        Pieces are longer if the states took more than 1 GB. Raises Unsupported if the model does
        not take the cache.
        """
        cache = DynamicCache(config=twin.config)
        for layer in cache.layers:
            if isinstance(layer, DynamicSlidingWindowLayer):
                layer.sliding_window = _NO_WINDOW  # rows begin before the last window
        copies = [(0, copy.deepcopy(cache))]
        start, stride = 0, _STRIDE
        while start < len(token_ids):
            before_piece(start)
            stop = min(start + stride, len(token_ids))
            _read(twin, token_ids[start:stop], start, cache)
            states, num_bytes = _states(cache)
            copies.append((stop, states))
            if start == 0:
                num_stops = max(1, _MAX_BYTES // max(1, num_bytes))
                stride = max(stride, -(-len(token_ids) // num_stops))
            start = stop
        for layer in _with_keys(cache):
            if layer.is_initialized and layer.keys.shape[-2] != len(token_ids):
                raise Unsupported("it keeps something other than every position's keys and values")
        return cls(cache, tuple(copies))

    def before(self, num_positions: int) -> tuple[int, DynamicCache]:
        """The last position up to `num_positions`, and the copy at it."""
        return self.copies[bisect_right(self.copies, num_positions, key=lambda kept: kept[0]) - 1]

    def resume(self, num_positions: int) -> tuple[DynamicCache, int]:
        """A cache to go on from, and its position."""
        position, states = self.before(num_positions)
        cache = copy.deepcopy(states)
        for layer, whole in zip(_with_keys(cache), _with_keys(self.cache), strict=True):
            if layer.is_initialized:
                layer.keys = whole.keys[:, :, :position]
                layer.values = whole.values[:, :, :position]
        return cache, position


def keeps_states(model: PreTrainedModel) -> bool:
    """Whether layers of the model keep states that cannot be cropped."""
    layers = DynamicCache(config=model.config).layers
    return bool(getattr(model, "_is_stateful", False)) or any(
        hasattr(layer, "conv_states") for layer in layers
    )


def _read(twin: PreTrainedModel, token_ids: Sequence[int], start: int, cache: DynamicCache) -> None:
    """Go on from a cache with these ids."""
    base = getattr(twin, twin.base_model_prefix, twin)
    inputs = {
        "input_ids": torch.tensor([token_ids], device=twin.device),
        "position_ids": torch.arange(start, start + len(token_ids), device=twin.device)[None],
        "use_cache": True,
        **cache_inputs(twin, cache),
    }
    parameters = inspect.signature(base.forward).parameters
    try:
        base(**{name: value for name, value in inputs.items() if name in parameters})
    except (TypeError, ValueError, AttributeError) as error:
        raise Unsupported(f"its cache cannot be resumed ({type(error).__name__})") from error


def _states(cache: DynamicCache) -> tuple[DynamicCache, int]:
    """A copy without keys and values, and the bytes that it takes."""
    shared = {id(part) for layer in _with_keys(cache) for part in (layer.keys, layer.values)}
    copies: dict[int, Any] = dict.fromkeys(shared)
    copied = copy.deepcopy(cache, copies)
    own = (value for key, value in copies.items() if key not in shared)
    return copied, sum(value.nbytes for value in own if isinstance(value, Tensor))


def _with_keys(cache: DynamicCache) -> list[Any]:
    """The layers that can have keys and values."""
    return [layer for layer in cache.layers if isinstance(layer, DynamicLayer)]
