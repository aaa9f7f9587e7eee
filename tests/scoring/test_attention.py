"""Attention in parts, merged, equals attention over everything at once."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attribot_rag.generation import LayerCache
from attribot_rag.scoring.attention import (
    PackedLayout,
    attend,
    merge,
    packed_attention,
    packed_layout,
)
from attribot_rag.scoring.base import Unsupported

HEADS, KEY_HEADS, WIDTH, CACHED = 4, 2, 8, 20


class Layer(torch.nn.Module):
    layer_idx = 0


def random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def plain(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, num_past: int
) -> torch.Tensor:
    """Textbook attention of queries that follow `num_past` keys, causal among themselves."""
    key, value = (
        tensor.repeat_interleave(HEADS // KEY_HEADS, dim=1).double() for tensor in (key, value)
    )
    scores = query.double() @ key.transpose(-1, -2) * WIDTH**-0.5
    allowed = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(num_past)
    weights = scores.masked_fill(~allowed, float("-inf")).softmax(-1)
    return torch.matmul(weights, value)


@st.composite
def segments(draw: st.DrawFn) -> tuple[tuple[int, int], ...]:
    """Disjoint ascending pieces of the cache, possibly none."""
    edges = draw(st.lists(st.integers(0, CACHED), max_size=6, unique=True).map(sorted))
    return tuple(zip(edges[::2], edges[1::2], strict=False))


@given(rows=st.lists(st.tuples(st.integers(1, 7), segments()), min_size=1, max_size=5))
@settings(deadline=None, max_examples=60)
def test_each_row_sees_its_segments_and_its_own_past(
    rows: list[tuple[int, tuple[tuple[int, int], ...]]],
) -> None:
    total = sum(length for length, _ in rows)
    query = random(1, HEADS, total, WIDTH, seed=1)
    key, value = (random(1, KEY_HEADS, total, WIDTH, seed=seed) for seed in (2, 3))
    cache = LayerCache(*(random(1, KEY_HEADS, CACHED, WIDTH, seed=seed) for seed in (4, 5)))
    ends = [sum(length for length, _ in rows[: index + 1]) for index in range(len(rows))]
    spans = tuple((end - length, end) for end, (length, _) in zip(ends, rows, strict=True))
    layout = PackedLayout((cache,), spans, tuple(seen for _, seen in rows))
    with packed_layout(layout):
        output, _ = packed_attention(Layer(), query, key, value, None)
    assert layout.layers_seen == {0}
    for (start, end), (_, seen) in zip(spans, rows, strict=True):
        keys = torch.cat([*(cache.keys[:, :, a:b] for a, b in seen), key[:, :, start:end]], dim=2)
        values = torch.cat(
            [*(cache.values[:, :, a:b] for a, b in seen), value[:, :, start:end]], dim=2
        )
        num_past = keys.shape[2] - (end - start)
        expected = plain(query[:, :, start:end], keys, values, num_past).transpose(1, 2)
        assert torch.allclose(output[:, start:end].double(), expected, atol=1e-5)


def test_merging_is_symmetric_and_survives_parts_of_very_different_weight() -> None:
    left, right = random(1, 2, 3, 4, seed=1), random(1, 2, 3, 4, seed=2)
    low, high = torch.full((1, 2, 3), -200.0), torch.full((1, 2, 3), 200.0)
    merged, log_sum = merge(left, low, right, high)
    assert torch.allclose(merged, right)
    assert torch.allclose(log_sum, high)
    swapped, _ = merge(right, high, left, low)
    assert torch.allclose(merged, swapped)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("scaling", [None, 0.7])
def test_the_kernel_gives_the_natural_log_sum_exp(causal: bool, scaling: float | None) -> None:
    query, key, value = (random(1, HEADS, 9, WIDTH, seed=seed) for seed in (1, 2, 3))
    output, log_sum = attend(query, key, value, causal=causal, scaling=scaling)
    scores = query @ key.transpose(-1, -2) * (WIDTH**-0.5 if scaling is None else scaling)
    if causal:
        future = torch.ones(9, 9, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    assert torch.allclose(log_sum, scores.logsumexp(-1), atol=1e-5)
    assert torch.allclose(output, scores.softmax(-1) @ value, atol=1e-5)


@pytest.mark.parametrize(
    "keyword", [{"softcap": 30.0}, {"sliding_window": 8}, {"s_aux": torch.ones(4)}, {"novel": 1}]
)
def test_a_keyword_that_would_change_attention_is_refused(keyword: dict[str, Any]) -> None:
    query = random(1, HEADS, 2, WIDTH, seed=1)
    key = value = random(1, KEY_HEADS, 2, WIDTH, seed=2)
    layout = PackedLayout((), ((0, 2),), ((),))
    with packed_layout(layout), pytest.raises(Unsupported, match=next(iter(keyword))):
        packed_attention(Layer(), query, key, value, None, **keyword)


def test_a_mask_is_refused() -> None:
    query = key = value = random(1, HEADS, 2, WIDTH, seed=1)
    with packed_layout(PackedLayout((), ((0, 2),), ((),))), pytest.raises(Unsupported):
        packed_attention(Layer(), query, key, value, torch.zeros(1, 1, 2, 2))
