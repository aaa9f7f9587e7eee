"""Attention over rows laid end to end, each with its own view of a shared cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AttentionInterface

from attribot_rag.context.intervals import Interval
from attribot_rag.generation import PromptCache
from attribot_rag.scoring.base import Reduction, Unsupported
from attribot_rag.scoring.row import Row

PACKED_ATTENTION = "attribot_packed"

_HARMLESS = frozenset(
    {"position_ids", "use_cache", "return_dict", "cache_position", "position_embeddings"}
)


@dataclass(frozen=True, eq=False)
class KeyWeights:
    """Collects how strongly rows attend to each position of the cache: `values` [prompt tokens].

    Over heads and layers the sum of each position's 'largest' weight by any token, or of the
    'total' of all tokens' weights.
    """

    values: torch.Tensor
    reduction: Reduction

    def add(
        self,
        segment: Interval,
        query: torch.Tensor,
        key: torch.Tensor,
        log_sum: torch.Tensor,
        scaling: float | None,
    ) -> None:
        """Of one layer; `log_sum` [1, heads, tokens] is over all keys that the queries see."""
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        grouped = query.reshape(key.shape[1], -1, query.shape[-1])
        scores = (grouped @ key[0].transpose(-1, -2)).float() * scale
        scores = scores.view(query.shape[1], query.shape[2], -1)
        weights = (scores - log_sum[0, :, :, None]).exp()
        reduced = weights.amax(1) if self.reduction == "largest" else weights.sum(1)
        self.values[slice(*segment)] += reduced.sum(0).to(self.values.device)


@dataclass(frozen=True, eq=False)
class PackedLayout:
    """Rows in one sequence, block by block.

    Block i has the tokens `spans[i]`, whose row begins at the token `starts[i]`, and sees
    `segments[i]` of the cache. `layers_seen` collects the layers that attended, so that a layer
    of another kind is noticed. `weights`, if there are any, collect what the rows attend to.
    """

    cache: PromptCache
    spans: tuple[Interval, ...]
    starts: tuple[int, ...]
    segments: tuple[tuple[Interval, ...], ...]
    layers_seen: set[int] = field(default_factory=set)
    weights: KeyWeights | None = None

    @classmethod
    def of(
        cls, rows: Sequence[Row], cache: PromptCache, weights: KeyWeights | None = None
    ) -> PackedLayout:
        spans, starts, end = [], [], 0
        for row in rows:
            start = end
            for block in row.blocks:
                spans.append((end, end + len(block.token_ids)))
                starts.append(start)
                end += len(block.token_ids)
        segments = tuple(block.segments for row in rows for block in row.blocks)
        return cls(cache, tuple(spans), tuple(starts), segments, weights=weights)


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
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **keywords: Any,
) -> tuple[torch.Tensor, None]:
    """An attention function for transformers' AttentionInterface.

    query [1, num_heads, tokens, head_dim]; key and value the same with num_key_value_heads;
    returns [1, tokens, num_heads, head_dim]. Each row attends causally to its own tokens and
    fully to its segments of the cache, whose tensors are never copied; the parts are merged by
    their log-sum-exp. Raises Unsupported for a keyword that would change attention.
    """
    for name, keyword in keywords.items():
        harmless = name in _HARMLESS or (name == "is_causal" and keyword is True)
        if not harmless and keyword is not None and keyword is not False:
            raise Unsupported(f"its attention takes {name}={keyword!r}")
    if attention_mask is not None or dropout:
        raise Unsupported("its attention takes a mask of its own or drops out")
    if key.shape[-1] != value.shape[-1]:
        raise Unsupported("its keys and values differ in width")
    layout = _layout.get()
    layer_index: int = module.layer_idx  # type: ignore[assignment]
    layout.layers_seen.add(layer_index)
    cached = layout.cache[layer_index] if layout.cache else None

    num_groups = query.shape[1] // key.shape[1]
    output = query.new_empty(1, query.shape[2], query.shape[1], value.shape[-1])
    for (start, end), row_start, segments in zip(
        layout.spans, layout.starts, layout.segments, strict=True
    ):
        queries = query[:, :, start:end]
        own_key, own_value = (
            tensor[:, :, start:end].repeat_interleave(num_groups, dim=1) for tensor in (key, value)
        )
        part, log_sum = attend(queries, own_key, own_value, causal=True, scaling=scaling)
        seen = [(key, value, (row_start, start))] if row_start < start else []
        if segments:
            assert cached is not None
            seen += [(cached.keys, cached.values, segment) for segment in segments]
        for keys, values, (first, last) in seen:
            other = _attend_grouped(
                queries, keys[:, :, first:last], values[:, :, first:last], scaling
            )
            part, log_sum = merge(part, log_sum, *other)
        output[:, start:end] = part.transpose(1, 2)
        if layout.weights is not None and cached is not None:
            for first, last in segments:
                keys = cached.keys[:, :, first:last]
                layout.weights.add((first, last), queries, keys, log_sum, scaling)
    return output, None


def _attend_grouped(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Unmasked attention in which heads that share a key-value head share one matrix product."""
    shape = query.shape
    grouped = query.reshape(1, key.shape[1], -1, shape[-1])
    part, log_sum = attend(grouped, key, value, causal=False, scaling=scaling)
    return part.reshape(shape), log_sum.reshape(shape[:3])


def merge(
    left: torch.Tensor, left_log_sum: torch.Tensor, right: torch.Tensor, right_log_sum: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over two sets of keys from the attention over each and their log-sum-exps."""
    weight = torch.sigmoid(right_log_sum - left_log_sum)[..., None]
    merged = torch.lerp(left.to(weight.dtype), right.to(weight.dtype), weight)
    return merged.to(left.dtype), torch.logaddexp(left_log_sum, right_log_sum)


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    causal: bool,
    scaling: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scaled dot-product attention with its log-sum-exp [1, heads, tokens], by the best kernel.

    PyTorch's public function does not give the log-sum-exp away; these are the kernels under it.
    """
    kernels = torch.ops.aten
    if query.device.type == "cpu":
        output, log_sum = kernels._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, causal, scale=scaling
        )
        return output, log_sum
    if query.device.type == "cuda" and query.shape[-1] <= 256:
        if query.dtype in (torch.float16, torch.bfloat16) and query.shape[-1] % 8 == 0:
            output, log_sum, *_ = kernels._scaled_dot_product_flash_attention(
                query, key, value, 0.0, causal, False, scale=scaling
            )
        else:
            output, log_sum, *_ = kernels._scaled_dot_product_efficient_attention(
                query, key, value, None, True, 0.0, causal, scale=scaling
            )
        return output, log_sum[..., : query.shape[2]]
    return _attend_plainly(query, key, value, causal=causal, scaling=scaling)


def _attend_plainly(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    causal: bool,
    scaling: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (query @ key.transpose(-1, -2)).float() * scale
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    log_sum = scores.logsumexp(-1)
    return (scores - log_sum[..., None]).exp().to(value.dtype) @ value, log_sum


AttentionInterface.register(PACKED_ATTENTION, packed_attention)
