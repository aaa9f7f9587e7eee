"""The states of recurrent layers at some positions of the prompt, from which rows go on."""

from __future__ import annotations

import copy
import inspect
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import (
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
    LinearAttentionCacheLayerMixin,
)

from attribot_rag.scoring.base import Unsupported

_STRIDE = 64  # tokens, at least; a kernel's own chunk, shorter pieces take as long
_MAX_BYTES = 1 << 30

States = dict[int, torch.Tensor | None]


class WholeWindowLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """A layer with a window that keeps every position: rows begin before the last window."""

    is_sliding = True


class WholeWindowAndStateLayer(  # type: ignore[no-untyped-call]
    LinearAttentionAndFullAttentionLayer
):
    """A layer with recurrent states and a window, of which it keeps every position."""

    is_sliding = True


@dataclass(frozen=True, eq=False)
class LayerStates:
    """A copy of the convolution and recurrent states of one layer."""

    convolution: States
    recurrent: States

    @classmethod
    def of(cls, layer: object) -> LayerStates | None:
        """Of a layer of a cache; None for a layer that keeps none."""
        if not isinstance(layer, LinearAttentionCacheLayerMixin):
            return None
        return cls(_copied(layer.conv_states), _copied(layer.recurrent_states))

    @property
    def num_bytes(self) -> int:
        states = (*self.convolution.values(), *self.recurrent.values())
        return sum(state.nbytes for state in states if state is not None)


@dataclass(frozen=True, eq=False)
class Checkpoints:
    """The prompt's cache, and the states of its layers at ascending `positions`.

    A state cannot be cropped to an earlier position, as keys and values can, but it can be kept.
    """

    config: PreTrainedConfig
    cache: DynamicCache
    positions: tuple[int, ...]
    states: tuple[tuple[LayerStates | None, ...], ...]

    @classmethod
    def of(
        cls, twin: PreTrainedModel, token_ids: Sequence[int], branches: Sequence[int] = ()
    ) -> Checkpoints:
        """Encode the prompt once, keeping the states after pieces of 64 to 127 tokens.

        A piece ends at one of the ascending `branches`, where rows will go on, if one is in reach.
        Pieces are longer if the states took more than 1 GB. Raises Unsupported for caches of
        another kind.
        """
        cache = _empty_cache(twin.config)
        base = getattr(twin, twin.base_model_prefix, twin)
        known = frozenset(inspect.signature(base.forward).parameters)
        positions: list[int] = []
        kept: list[tuple[LayerStates | None, ...]] = []
        stride, start = _STRIDE, 0
        while start < len(token_ids):
            stop = min(_end_of_piece(start + stride, stride, branches), len(token_ids))
            inputs = {
                "input_ids": torch.tensor([token_ids[start:stop]], device=twin.device),
                "position_ids": torch.arange(start, stop, device=twin.device)[None],
                "past_key_values": cache,
                "cache_params": cache,  # as Mamba calls it
                "use_cache": True,
            }
            try:
                base(**{name: value for name, value in inputs.items() if name in known})
            except (TypeError, ValueError, AttributeError) as error:
                raise Unsupported(f"its cache cannot be resumed ({error})") from error
            states = tuple(map(LayerStates.of, cache.layers))
            if not positions:
                num_bytes = sum(one.num_bytes for one in states if one is not None)
                num_stops = max(1, _MAX_BYTES // max(1, num_bytes))
                stride = max(stride, -(-len(token_ids) // num_stops))
            positions.append(stop)
            kept.append(states)
            start = stop
        return cls(twin.config, cache, tuple(positions), tuple(kept))

    def resume(self, num_positions: int) -> tuple[DynamicCache, int]:
        """A cache of the prompt's beginning, and how many positions it holds: at most this many."""
        index = bisect_right(self.positions, num_positions) - 1
        if index < 0:
            return _empty_cache(self.config), 0
        cache = DynamicCache()
        for layer, states in zip(self.cache.layers, self.states[index], strict=True):
            cache.layers.append(_resumed(layer, states, self.positions[index]))
        return cache, self.positions[index]


def keeps_states(model: PreTrainedModel) -> bool:
    """Whether layers of the model keep states that cannot be cropped."""
    layers = DynamicCache(config=model.config).layers
    return any(isinstance(layer, LinearAttentionCacheLayerMixin) for layer in layers)


def _end_of_piece(least: int, reach: int, branches: Sequence[int]) -> int:
    """The first branch from `least` on, if it is within reach."""
    index = bisect_left(branches, least)
    within = index < len(branches) and branches[index] < least + reach
    return branches[index] if within else least


def _empty_cache(config: PreTrainedConfig) -> DynamicCache:
    cache = DynamicCache(config=config)
    cache.layers = [_keeping_everything(layer) for layer in cache.layers]
    return cache


# Any: transformers' layers have no common type that tells what they keep.
def _keeping_everything(layer: Any) -> Any:
    if type(layer) is DynamicSlidingWindowLayer:
        return WholeWindowLayer()  # type: ignore[no-untyped-call]
    if type(layer) is LinearAttentionAndSlidingWindowAttentionLayer:
        return WholeWindowAndStateLayer(layer.number_of_states)
    return layer


def _resumed(layer: Any, states: LayerStates | None, position: int) -> Any:
    """A copy of a layer as it was when the cache had so many positions."""
    resumed = copy.copy(layer)
    if isinstance(layer, DynamicLayer) and layer.is_initialized:
        assert layer.keys is not None
        assert layer.values is not None
        resumed.keys = layer.keys[:, :, :position]
        resumed.values = layer.values[:, :, :position]
    if states is not None:
        resumed.conv_states = _copied(states.convolution)
        resumed.recurrent_states = _copied(states.recurrent)
        resumed.has_previous_state = dict(layer.has_previous_state)
    return resumed


def _copied(states: States) -> States:
    return {key: None if state is None else state.clone() for key, state in states.items()}
