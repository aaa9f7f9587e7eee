"""Attention over rows laid end to end, each with its own view of a shared cache."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import AttentionInterface

from attribot_rag.context.text import Interval
from attribot_rag.model.generation import PromptCache
from attribot_rag.scoring.backend import Unsupported
from attribot_rag.scoring.local.kernels import Kernel, Keys, attend_at_once, merge
from attribot_rag.scoring.local.observed_attention import ObservedAttention, Observer
from attribot_rag.scoring.local.prefix import PACKED_ATTENTION, Visibility
from attribot_rag.scoring.row import Row

_HARMLESS = frozenset(
    {
        *("position_ids", "use_cache", "return_dict", "cache_position", "position_embeddings"),
        "sliding_window",  # it is in the layer's mask, too, which counts here
    }
)
_MOST_AT_ONCE = 1 << 26  # places of the mask, of up to 4 bytes each
_MASKED_QUERIES = 512  # at a time, where the mask is more than causal


@dataclass(frozen=True, eq=False)
class View:
    """Tokens of the sequence and the keys that they see: of their own row, and of the cache."""

    queries: Interval
    own: tuple[Keys, ...]
    cached: tuple[Keys, ...]


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


def most_tokens_at_once(num_cached: int, num_groups: int) -> int:
    """Tokens after a cache for which a mask for so many groups of query heads may be made."""
    most_pairs = _MOST_AT_ONCE // max(num_groups, 4)
    return (math.isqrt(num_cached**2 + 4 * most_pairs) - num_cached) // 2


@dataclass(frozen=True, eq=False)
class PackedLayout:
    """Rows in one sequence, block by block.

    `positions` [tokens] are those of all tokens. `layers_seen` collects the layers that attended,
    so that a layer of another kind is noticed. With `at_once`, layers attend to all keys in one
    operation, where their attention and the size of the mask allow it; with an `observer`, always,
    and it sees that.
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
            self._views[id(visibility)] = views
        return views

    def is_at_once(self, num_groups: int) -> bool:
        """Whether a mask for so many groups of query heads may be made."""
        most = most_tokens_at_once(self.num_cached, num_groups)
        return self.at_once and len(self.positions) <= most

    def bias(
        self, visibility: Visibility, num_groups: int, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """The addend to all scores in the layers with this mask, made once: 0 or -inf.

        [tokens, keys of the cache and of the sequence], for each of the groups of query heads one
        after the other; with the gates of an observer.
        """
        key = id(visibility), num_groups
        bias = self._biases.get(key)
        if bias is None:
            num_cached, num_tokens = self.num_cached, len(self.positions)
            seen = np.zeros((num_tokens, num_cached + num_tokens), dtype=bool)
            for block in self.blocks:
                rows = slice(*block.span)
                for start, end in block.segments:
                    seen[rows, start:end] = True
                for token in range(*block.span):
                    seen[token, num_cached + block.row_start : num_cached + token + 1] = True
            visible = torch.from_numpy(seen)
            if not visibility.is_causal:
                keys = torch.cat([torch.arange(num_cached), self.positions])
                visible = visible & visibility.visible(self.positions, keys)
            bias = torch.zeros(visible.shape, dtype=dtype, device=device)
            bias.masked_fill_(~visible.to(device), float("-inf"))
            if self.observer is not None and self.observer.gates is not None:
                bias += self.observer.gates
            self._biases[key] = bias = bias.repeat(num_groups, 1)
        return bias

    @property
    def num_cached(self) -> int:
        return self.cache[0].keys.shape[2] if self.cache else 0


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
    kernel = Kernel(query.shape[-1] ** -0.5 if scaling is None else scaling, softcap)
    cached = _cached(layout.cache, module, layer_index) if layout.cache else None
    num_groups = query.shape[1] // key.shape[1]
    bias = partial(layout.bias, attention_mask, num_groups, device=query.device)
    if layout.observer is not None:
        observed = ObservedAttention(layout.observer, kernel, bias(torch.float32), cached, s_aux)
        return observed.attend(query, key, value).transpose(1, 2), None
    if layout.is_at_once(num_groups) and softcap is None and s_aux is None:
        if cached is not None:
            key, value = (torch.cat(pair, 2) for pair in zip(cached, (key, value), strict=True))
        output = attend_at_once(query, key, value, bias(query.dtype), kernel.scaling)
        return output.transpose(1, 2), None
    output = query.new_empty(1, query.shape[2], query.shape[1], value.shape[-1])
    for view in layout.views(attention_mask, query.device):
        queries = query[:, :, slice(*view.queries)]
        parts = [kernel.attend(queries, key, value, keys) for keys in view.own]
        if view.cached:
            assert cached is not None
            parts += [kernel.attend(queries, *cached, keys) for keys in view.cached]
        part, log_sum = parts[0]
        for other in parts[1:]:
            part, log_sum = merge(part, log_sum, *other)
        if s_aux is not None:
            total = torch.logaddexp(log_sum, s_aux.to(log_sum)[None, :, None])
            part, log_sum = part * (log_sum - total).exp()[..., None].to(part), total
        output[:, slice(*view.queries)] = part.transpose(1, 2)
    return output, None


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
