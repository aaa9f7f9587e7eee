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
from attribot_rag.scoring.row import Row, TokenBlock

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
    """Disjoint ascending blocks of the cache, possibly none."""
    edges = draw(st.lists(st.integers(0, CACHED), max_size=6, unique=True).map(sorted))
    return tuple(zip(edges[::2], edges[1::2], strict=False))


@st.composite
def made_rows(draw: st.DrawFn) -> list[Row]:
    """Up to four rows of up to three blocks; nothing of what a block sees is in order."""
    lengths = st.lists(st.integers(1, 6), min_size=1, max_size=3)
    return [
        Row(tuple(TokenBlock(draw(segments()), (5,) * length, 0) for length in draw(lengths)))
        for _ in range(draw(st.integers(1, 4)))
    ]


@given(rows=made_rows())
@settings(deadline=None, max_examples=60)
def test_each_block_sees_its_segments_and_the_past_of_its_row(rows: list[Row]) -> None:
    total = sum(row.num_tokens for row in rows)
    query = random(1, HEADS, total, WIDTH, seed=1)
    key, value = (random(1, KEY_HEADS, total, WIDTH, seed=seed) for seed in (2, 3))
    cache = LayerCache(*(random(1, KEY_HEADS, CACHED, WIDTH, seed=seed) for seed in (4, 5)))
    layout = PackedLayout.of(rows, (cache,))
    with packed_layout(layout):
        output, _ = packed_attention(Layer(), query, key, value, None)
    assert layout.layers_seen == {0}
    end = 0
    for row in rows:
        row_start = end
        for block in row.blocks:
            start, end = end, end + len(block.token_ids)
            keys, values = (
                torch.cat([*(cached[:, :, a:b] for a, b in block.segments), own], dim=2)
                for cached, own in (
                    (cache.keys, key[:, :, row_start:end]),
                    (cache.values, value[:, :, row_start:end]),
                )
            )
            num_past = keys.shape[2] - (end - start)
            expected = plain(query[:, :, start:end], keys, values, num_past).transpose(1, 2)
            assert torch.allclose(output[:, start:end].double(), expected, atol=1e-5)
    assert end == total


def test_pieces_are_laid_out_row_by_row() -> None:
    rows = [
        Row((TokenBlock(((0, 3),), (5, 6), 7), TokenBlock((), (7, 8, 9), 12))),
        Row((TokenBlock(((2, 4),), (5,), 4),)),
    ]
    layout = PackedLayout.of(rows, ())
    assert layout.spans == ((0, 2), (2, 5), (5, 6))
    assert layout.starts == (0, 0, 5)
    assert layout.segments == (((0, 3),), (), ((2, 4),))


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
    layout = PackedLayout((), ((0, 2),), (0,), ((),))
    with packed_layout(layout), pytest.raises(Unsupported, match=next(iter(keyword))):
        packed_attention(Layer(), query, key, value, None, **keyword)


def test_a_mask_is_refused() -> None:
    query = key = value = random(1, HEADS, 2, WIDTH, seed=1)
    with packed_layout(PackedLayout((), ((0, 2),), (0,), ((),))), pytest.raises(Unsupported):
        packed_attention(Layer(), query, key, value, torch.zeros(1, 1, 2, 2))
