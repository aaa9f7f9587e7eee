"""Attention over rows laid end to end, each with its own view of a shared cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from transformers import AttentionInterface

from attribot_rag.context.intervals import Interval
from attribot_rag.model.generation import PromptCache
from attribot_rag.scoring.backend import Unsupported
from attribot_rag.scoring.local.kernels import (
    Kernel,
    Keys,
    attend_at_once,
    attend_recomputed,
    merge,
)
from attribot_rag.scoring.local.prefix import PACKED_ATTENTION, Visibility
from attribot_rag.scoring.row import Row

_HARMLESS = frozenset(
    {
        *("position_ids", "use_cache", "return_dict", "cache_position", "position_embeddings"),
        "sliding_window",  # it is in the layer's mask, too, which counts here
    }
)
_MASKED_QUERIES = 512  # at a time, where the mask is more than causal


@dataclass(frozen=True, eq=False)
class View:
    """Tokens of the sequence and the keys that they see: of their own row, and of the cache."""

    queries: Interval
    own: tuple[Keys, ...]
    cached: tuple[Keys, ...]


@dataclass(frozen=True, eq=False)
class Attended:
    """The attention of a view's tokens to the cache, in one layer.

    query [1, heads, tokens, head_dim], key and value those of the cache, output [1, heads, tokens,
    value_dim], log_sum [1, heads, tokens] over all visible keys.
    """

    view: View
    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    log_sum: Tensor
    kernel: Kernel

    def weights(self, keys: Keys) -> Tensor:
        """Attention weights on keys of the cache [heads, tokens, keys]."""
        return self.kernel.weights(self.query, self.key, keys, self.log_sum)


class Observer(Protocol):
    """Observes the layers' attention, through which gradients flow."""

    def gate(self, view: View) -> Tensor | None:
        """An addend to the scores of the cache's keys [num_prompt_tokens]; None for nothing."""

    def see(self, attended: Attended) -> None:
        """Take note of a view of the next layer."""

    def pass_on(self, output: Tensor) -> Tensor:
        """The layer's output [1, tokens, heads, value_dim], as the model goes on from it."""


class PackedBlock(NamedTuple):
    """Tokens of the sequence, the first token of their row, and their segments of the cache."""

    span: Interval
    row_start: int
    segments: tuple[Interval, ...]

    def causal_view(self) -> View:
        own: tuple[Keys, ...] = (Keys(self.span, causal=True),)
        if self.row_start < self.span[0]:
            own = (*own, Keys((self.row_start, self.span[0])))
        return View(self.span, own, tuple(map(Keys, self.segments)))

    def masked_views(
        self, visibility: Visibility, positions: Tensor, device: torch.device
    ) -> Iterator[View]:
        """Views of pieces of the block; `positions` [tokens] are those of the sequence."""
        for first in range(*self.span, _MASKED_QUERIES):
            last = min(first + _MASKED_QUERIES, self.span[1])
            queries = positions[first:last]
            visible = visibility.visible(queries, positions[self.row_start : last])
            own = Keys.visible(visible.tril(first - self.row_start), self.row_start, device)
            assert own is not None, "every token sees itself"
            cached = (
                Keys.visible(
                    visibility.visible(queries, torch.arange(*segment)), segment[0], device
                )
                for segment in self.segments
            )
            yield View((first, last), (own,), tuple(keys for keys in cached if keys is not None))


@dataclass(frozen=True, eq=False)
class PackedLayout:
    """Rows in one sequence, block by block.

    `positions` [tokens] are those of all tokens. `layers_seen` collects the layers that attended,
    so that a layer of another kind is noticed. An `observer` sees the rows' attention. With
    `at_once`, layers attend to all keys in one operation, where their attention allows it.
    """

    cache: PromptCache
    positions: Tensor
    blocks: tuple[PackedBlock, ...]
    observer: Observer | None = None
    layers_seen: set[int] = field(default_factory=set)
    at_once: bool = False
    _biases: dict[tuple[int, int], Tensor] = field(default_factory=dict)
    _views: dict[int, tuple[View, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: Sequence[Row],
        cache: PromptCache,
        observer: Observer | None = None,
        *,
        at_once: bool = False,
    ) -> PackedLayout:
        blocks: list[PackedBlock] = []
        end = 0
        for row in rows:
            row_start = end
            for block in row.blocks:
                start, end = end, end + len(block.token_ids)
                blocks.append(PackedBlock((start, end), row_start, block.segments))
        positions = torch.tensor([position for row in rows for position in row.positions])
        return cls(cache, positions, tuple(blocks), observer, at_once=at_once)

    def views(self, visibility: Visibility, device: torch.device) -> tuple[View, ...]:
        """The views of all tokens in the layers with this mask, made once, on this device."""
        views = self._views.get(id(visibility))
        if views is None:
            if visibility.is_causal:
                views = tuple(block.causal_view() for block in self.blocks)
            else:
                pieces = (
                    block.masked_views(visibility, self.positions, device) for block in self.blocks
                )
                views = tuple(chain.from_iterable(pieces))
            self._views[id(visibility)] = views = tuple(map(self._gated, views))
        return views

    def bias(self, visibility: Visibility, query: Tensor, num_groups: int) -> Tensor:
        """The addend to all scores in the layers with this mask, made once: 0 or -inf.

        [tokens, keys of the cache and of the sequence], for each of the groups of query heads one
        after the other, of the type and device of the `query`.
        """
        key = id(visibility), num_groups
        bias = self._biases.get(key)
        if bias is None:
            num_cached, num_tokens = self.num_cached, len(self.positions)
            visible = torch.zeros(num_tokens, num_cached + num_tokens, dtype=torch.bool)
            for block in self.blocks:
                rows = slice(*block.span)
                for start, end in block.segments:
                    visible[rows, start:end] = True
                visible[rows, num_cached + block.row_start : num_cached + block.span[1]] = True
            visible[:, num_cached:].tril_()
            if not visibility.is_causal:
                keys = torch.cat([torch.arange(num_cached), self.positions])
                visible &= visibility.visible(self.positions, keys)
            bias = torch.zeros(visible.shape).masked_fill_(~visible, float("-inf"))
            self._biases[key] = bias = bias.to(query).repeat(num_groups, 1)
        return bias

    @property
    def num_cached(self) -> int:
        return self.cache[0].keys.shape[2] if self.cache else 0

    def _gated(self, view: View) -> View:
        gate = None if self.observer is None else self.observer.gate(view)
        if gate is None:
            return view
        return replace(view, cached=tuple(keys.gated(gate) for keys in view.cached))


_layout: ContextVar[PackedLayout] = ContextVar("attribot_packed_layout")


@contextmanager
def packed_layout(layout: PackedLayout) -> Iterator[None]:
    """The layout that packed attention follows in this thread."""
    token = _layout.set(layout)
    try:
        yield
    finally:
        _layout.reset(token)


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Visibility | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **keywords: Any,
) -> tuple[Tensor, None]:
    """An attention function for transformers' AttentionInterface.

    query [1, num_heads, tokens, head_dim]; key and value the same with num_key_value_heads, the
    values perhaps of another width; returns [1, tokens, num_heads, value_dim]. Each row attends
    to its own tokens and to its segments of the cache, as far as the layer's own mask lets it. The
    cache is never copied; the parts are merged by their log-sum-exp, which attention sinks (`s_aux`
    [num_heads]) enter last. Raises Unsupported for a keyword that would change attention.
    """
    for name, keyword in keywords.items():
        harmless = name in _HARMLESS or (name == "is_causal" and keyword is True)
        if not harmless and keyword is not None and keyword is not False:
            raise Unsupported(f"its attention takes {name}={keyword!r}")
    if not isinstance(attention_mask, Visibility) or dropout:
        raise Unsupported("its attention uses a mask of its own, or dropout")
    layout = _layout.get()
    layer_index: int = module.layer_idx  # type: ignore[assignment]
    layout.layers_seen.add(layer_index)
    observer = layout.observer
    kernel = Kernel(
        query.shape[-1] ** -0.5 if scaling is None else scaling,
        softcap,
        differentiable=observer is not None,
    )
    cached = _cached(layout.cache, module, layer_index) if layout.cache else None
    if layout.at_once and observer is None and softcap is None and s_aux is None:
        if cached is not None:
            key, value = (torch.cat(pair, 2) for pair in zip(cached, (key, value), strict=True))
        bias = layout.bias(attention_mask, query, query.shape[1] // key.shape[1])
        return attend_at_once(query, key, value, bias, kernel.scaling).transpose(1, 2), None
    output = query.new_empty(1, query.shape[2], query.shape[1], value.shape[-1])
    for view in layout.views(attention_mask, query.device):
        queries = query[:, :, slice(*view.queries)]
        parts = [kernel.attend(queries, key, value, keys) for keys in view.own]
        if view.cached:
            assert cached is not None
            attend = attend_recomputed if kernel.differentiable else Kernel.attend
            parts += [attend(kernel, queries, *cached, keys) for keys in view.cached]
        part, log_sum = parts[0]
        for other in parts[1:]:
            part, log_sum = merge(part, log_sum, *other)
        if s_aux is not None:
            total = torch.logaddexp(log_sum, s_aux.to(log_sum)[None, :, None])
            part, log_sum = part * (log_sum - total).exp()[..., None].to(part), total
        output[:, slice(*view.queries)] = part.transpose(1, 2)
        if observer is not None and cached is not None:
            observer.see(Attended(view, queries, *cached, part, log_sum, kernel))
    return output if observer is None else observer.pass_on(output), None


def _cached(cache: PromptCache, module: torch.nn.Module, layer_index: int) -> tuple[Tensor, Tensor]:
    """The cached keys and values that a layer attends to, as it attends to them.

    Layers that keep none of their own attend to those of an earlier layer (Gemma 3n, Gemma 4);
    compressed ones (multi-head latent attention) are expanded first.
    """
    if layer_index >= len(cache):
        config: Any = module.config
        kinds = config.layer_types
        layer_index = max(i for i in range(len(cache)) if kinds[i] == kinds[layer_index])
    keys, values = cache[layer_index]
    expand: Any = getattr(module, "expand_kv", None)
    if expand is not None:
        with torch.no_grad():
            keys, values = expand(keys, values)
    return keys, values


AttentionInterface.register(PACKED_ATTENTION, packed_attention)
