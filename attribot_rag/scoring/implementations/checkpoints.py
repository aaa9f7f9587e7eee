"""States of recurrent layers at some positions of the prompt, from which rows go on."""

from __future__ import annotations

import copy
import inspect
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from attribot_rag.model.generation import cache_inputs, returned_cache
from attribot_rag.scoring.base import Prefill, Unsupported

_STRIDE = 64  # tokens, at least; a kernel's own chunk, shorter pieces take as long
_MAX_BYTES = 1 << 30
_NO_WINDOW = 1 << 31  # positions

Attributes = dict[tuple[str, str], Tensor | None]
"""Tensors that modules keep on themselves, by the module's name and the attribute's."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A copy of a model's states: in its cache, and in attributes of modules.

    Keys and values, which can be cropped, are not copied. Without a `cache` the model makes its
    own, which is empty.
    """

    position: int
    cache: Any
    attributes: Attributes
    num_bytes: int = 0

    @classmethod
    def of(cls, cache: Any, attributes: Attributes, position: int) -> Snapshot:
        shared = {id(part) for layer in _with_keys(cache) for part in (layer.keys, layer.values)}
        copies: dict[int, Any] = dict.fromkeys(shared)
        copied = copy.deepcopy(cache, copies)
        kept = {name: _cloned(value) for name, value in attributes.items()}
        values = [*(value for key, value in copies.items() if key not in shared), *kept.values()]
        num_bytes = sum(value.nbytes for value in values if isinstance(value, Tensor))
        return cls(position, copied, kept, num_bytes)


@dataclass(frozen=True, eq=False)
class Checkpoints:
    """The prompt's cache, and snapshots at ascending positions, of which the first is 0.

    A state cannot be cropped to an earlier position, as keys and values can, but it can be kept.
    """

    twin: PreTrainedModel
    cache: Any
    snapshots: tuple[Snapshot, ...]

    @classmethod
    def of(
        cls, twin: PreTrainedModel, token_ids: Sequence[int], prefill: Prefill | None = None
    ) -> Checkpoints:
        """Encode the prompt once, keeping the states after pieces of 64 to 127 tokens.

        A piece ends at a branch of the prefill, where rows will go on, if one is in reach.
        Pieces are longer if the states took more than 1 GB. Raises Unsupported if the model cannot
        go on from its states.
        """
        prefill = prefill or Prefill()
        empty = _empty_cache(twin)
        cache, before = copy.deepcopy(empty), _attributes(twin)
        snapshots: list[Snapshot] = []
        stride, start = _STRIDE, 0
        while start < len(token_ids):
            prefill.before_piece(start)
            stop = min(_end_of_piece(start + stride, stride, prefill.branches), len(token_ids))
            cache = _read(twin, token_ids[start:stop], start, cache)
            after = _attributes(twin)
            if not snapshots:
                changed = [name for name, value in after.items() if before.get(name) is not value]
                snapshots.append(Snapshot(0, empty, dict.fromkeys(changed)))
            kept = {name: after.get(name) for name in snapshots[0].attributes}
            snapshots.append(Snapshot.of(cache, kept, stop))
            if start == 0:
                num_stops = max(1, _MAX_BYTES // max(1, snapshots[-1].num_bytes))
                stride = max(stride, -(-len(token_ids) // num_stops))
            start = stop
        for layer in _with_keys(cache):
            if layer.is_initialized and layer.keys.shape[-2] != len(token_ids):
                raise Unsupported("it keeps something other than every position's keys and values")
        return cls(twin, cache, tuple(snapshots) or (Snapshot(0, empty, {}),))

    def resume(self, num_positions: int) -> tuple[dict[str, Any], int]:
        """The twin's cache as an argument, and its position: the last one up to `num_positions`."""
        index = bisect_right(self.snapshots, num_positions, key=lambda kept: kept.position) - 1
        snapshot = self.snapshots[index]
        for (module, name), value in snapshot.attributes.items():
            setattr(self.twin.get_submodule(module), name, _cloned(value))
        cache = copy.deepcopy(snapshot.cache)
        for layer, whole in zip(_with_keys(cache), _with_keys(self.cache), strict=False):
            if layer.is_initialized:
                layer.keys = whole.keys[:, :, : snapshot.position]
                layer.values = whole.values[:, :, : snapshot.position]
        return cache_inputs(self.twin, cache), snapshot.position


def keeps_states(model: PreTrainedModel) -> bool:
    """Whether layers of the model keep states that cannot be cropped."""
    layers = DynamicCache(config=model.config).layers
    return bool(getattr(model, "_is_stateful", False)) or any(
        hasattr(layer, "conv_states") for layer in layers
    )


def _read(twin: PreTrainedModel, token_ids: Sequence[int], start: int, cache: Any) -> Any:
    """Go on from a cache with these ids; returns the cache then. With None, the model makes one."""
    base = getattr(twin, twin.base_model_prefix, twin)
    inputs = {
        "input_ids": torch.tensor([token_ids], device=twin.device),
        "position_ids": torch.arange(start, start + len(token_ids), device=twin.device)[None],
        "use_cache": True,
        **cache_inputs(twin, cache),
    }
    parameters = inspect.signature(base.forward).parameters
    try:
        output = base(**{name: value for name, value in inputs.items() if name in parameters})
    except (TypeError, ValueError, AttributeError) as error:
        raise Unsupported(f"its cache cannot be resumed ({error})") from error
    returned = returned_cache(twin, output)
    return cache if returned is None else returned


def _attributes(twin: PreTrainedModel) -> Attributes:
    """The tensors that modules keep on themselves, besides parameters and buffers."""
    return {
        (path, name): value
        for path, module in twin.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, Tensor)
    }


def _end_of_piece(least: int, reach: int, branches: Sequence[int]) -> int:
    """The first branch from `least` on, if it is within reach."""
    index = bisect_left(branches, least)
    within = index < len(branches) and branches[index] < least + reach
    return branches[index] if within else least


def _empty_cache(twin: PreTrainedModel) -> DynamicCache | None:
    """A cache that keeps every position; None if the model takes only one that it makes itself."""
    cache = DynamicCache(config=twin.config)
    for layer in cache.layers:
        if isinstance(layer, DynamicSlidingWindowLayer):
            layer.sliding_window = _NO_WINDOW  # rows begin before the last window
    try:
        _read(twin, [0], 0, copy.deepcopy(cache))
    except Unsupported:
        return None
    return cache


def _with_keys(cache: Any) -> list[Any]:
    """The layers of a cache that can have keys and values."""
    layers = cache.layers if isinstance(cache, Cache) else []
    return [layer for layer in layers if isinstance(layer, DynamicLayer)]


def _cloned(value: Tensor | None) -> Tensor | None:
    return None if value is None else value.clone()
