"""Attention in parts, merged, equals attention over everything at once."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.masking_utils import (
    causal_mask_function,
    chunked_causal_mask_function,
    sliding_window_causal_mask_function,
)

from attribot_rag.model.generation import LayerCache
from attribot_rag.scoring.backend import Unsupported
from attribot_rag.scoring.local_prefix import Visibility
from attribot_rag.scoring.packed import (
    Kernel,
    Keys,
    PackedLayout,
    merge_attention,
    packed_attention,
    packed_layout,
)
from attribot_rag.scoring.row import Row, TokenBlock

HEADS, KEY_HEADS, WIDTH, CACHED = 4, 2, 8, 20


CAUSAL = Visibility(causal_mask_function)


class Layer(torch.nn.Module):
    layer_idx = 0
    config = LlamaConfig()


def random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


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
        Row(
            tuple(
                TokenBlock(draw(segments()), (5,) * length, CACHED + 8 * place)
                for place, length in enumerate(draw(lengths))
            )
        )
        for _ in range(draw(st.integers(1, 4)))
    ]


def by_hand(
    rows: list[Row],
    visibility: Visibility,
    query: torch.Tensor,
    own: LayerCache,
    cache: LayerCache,
    *,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Textbook attention, token by token: [1, tokens, HEADS, value width]."""
    outputs, start = [], 0
    for row in rows:
        positions, cached = row.positions, []
        for block in row.blocks:
            cached += [[i for a, b in block.segments for i in range(a, b)]] * len(block.token_ids)
        for index, position in enumerate(positions):
            at = torch.tensor([position])
            old = [i for i in cached[index] if visibility.mask(at, torch.tensor([i]))]
            new = [
                start + i
                for i in range(index + 1)
                if visibility.mask(at, torch.tensor([positions[i]]))
            ]
            keys, values = (
                torch.cat([old_tensor[0][:, old], new_tensor[0][:, new]], dim=1)
                .repeat_interleave(HEADS // KEY_HEADS, dim=0)
                .double()
                for old_tensor, new_tensor in zip(cache, own, strict=True)
            )
            token_query = query[0, :, start + index].double()
            scores = torch.einsum("hd,hkd->hk", token_query, keys) * query.shape[-1] ** -0.5
            if softcap is not None:
                scores = softcap * torch.tanh(scores / softcap)
            if sinks is not None:
                scores = torch.cat([scores, sinks.double()[:, None]], dim=1)
            weights = scores.softmax(-1)[:, : keys.shape[1]]
            outputs.append(torch.einsum("hk,hkd->hd", weights, values))
        start += len(positions)
    return torch.stack(outputs)[None]


MASKS = {
    "causal": CAUSAL,
    "window": Visibility(sliding_window_causal_mask_function(4)),
    "chunks": Visibility(chunked_causal_mask_function(5, torch.zeros(1, dtype=torch.long))),
}


@pytest.mark.parametrize("mask", MASKS)
@given(rows=made_rows(), softcap=st.sampled_from([None, 1.5]), sinks=st.booleans())
@settings(max_examples=40)
def test_each_token_sees_its_segments_and_the_past_of_its_row_as_the_layer_has_it(
    rows: list[Row], mask: str, softcap: float | None, sinks: bool
) -> None:
    total = sum(row.num_new for row in rows)
    query = random(1, HEADS, total, WIDTH, seed=1)
    own, cache = (
        LayerCache(
            random(1, KEY_HEADS, length, WIDTH, seed=seed),
            random(1, KEY_HEADS, length, WIDTH - 2, seed=seed + 1),
        )
        for length, seed in ((total, 2), (CACHED, 4))
    )
    sink = random(HEADS, seed=6) if sinks else None
    layout = PackedLayout.of(rows, (cache,))
    with packed_layout(layout):
        output, _ = packed_attention(Layer(), query, *own, MASKS[mask], softcap=softcap, s_aux=sink)
    assert layout.layers_seen == {0}
    expected = by_hand(rows, MASKS[mask], query, own, cache, softcap=softcap, sinks=sink)
    assert torch.allclose(output.double(), expected, atol=1e-5)


def test_more_queries_than_are_masked_at_a_time() -> None:
    """A row of 1,100 tokens in a window of 700, on a cache of 20 positions."""
    row = Row((TokenBlock(((0, CACHED),), (5,) * 1100, CACHED),))
    query = random(1, HEADS, 1100, WIDTH, seed=1)
    own = LayerCache(*(random(1, KEY_HEADS, 1100, WIDTH, seed=seed) for seed in (2, 3)))
    cache = LayerCache(*(random(1, KEY_HEADS, CACHED, WIDTH, seed=seed) for seed in (4, 5)))
    window = Visibility(sliding_window_causal_mask_function(700))
    with packed_layout(PackedLayout.of([row], (cache,))):
        output, _ = packed_attention(Layer(), query, *own, window)
    keys, values = (
        torch.cat([old, new], dim=2).repeat_interleave(HEADS // KEY_HEADS, dim=1)
        for old, new in zip(cache, own, strict=True)
    )
    positions = torch.arange(CACHED + 1100)
    visible = window.mask(positions[CACHED:], positions)
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, keys, values, attn_mask=visible
    )
    assert torch.allclose(output, expected.transpose(1, 2), atol=1e-5)


def test_merging_is_symmetric_and_survives_parts_of_very_different_weight() -> None:
    first, second = random(1, 2, 3, 4, seed=1), random(1, 2, 3, 4, seed=2)
    low, high = torch.full((1, 2, 3), -200.0), torch.full((1, 2, 3), 200.0)
    merged, log_sum = merge_attention(first, low, second, high)
    assert torch.allclose(merged, second)
    assert torch.allclose(log_sum, high)
    swapped, _ = merge_attention(second, high, first, low)
    assert torch.allclose(merged, swapped)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("scaling", [WIDTH**-0.5, 0.7])
def test_the_kernel_gives_the_natural_log_sum_exp(causal: bool, scaling: float) -> None:
    query, key, value = (random(1, HEADS, 9, WIDTH, seed=seed) for seed in (1, 2, 3))
    output, log_sum = Kernel(scaling).attend(query, key, value, Keys((0, 9), causal=causal))
    scores = query @ key.transpose(-1, -2) * scaling
    if causal:
        future = torch.ones(9, 9, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    assert torch.allclose(log_sum, scores.logsumexp(-1), atol=1e-5)
    assert torch.allclose(output, scores.softmax(-1) @ value, atol=1e-5)


@pytest.mark.parametrize("softcap", [None, 2.0])
def test_a_query_that_sees_no_key_adds_nothing(softcap: float | None) -> None:
    query, key, value = (random(1, HEADS, 3, WIDTH, seed=seed) for seed in (1, 2, 3))
    visible = torch.tensor([[True, False, True], [False] * 3, [True] * 3])
    keys = Keys.from_mask(visible, 0, visible.device)
    assert keys is not None
    output, log_sum = Kernel(0.3, softcap).attend(query, key, value, keys)
    assert bool((output[:, :, 1] == 0).all())
    assert bool((log_sum[:, :, 1] == float("-inf")).all())
    assert bool(output.isfinite().all() and log_sum[:, :, ::2].isfinite().all())


EMPTY = PackedLayout.of([Row((TokenBlock((), (1, 2), 0),))], ())


@pytest.mark.parametrize(
    ("mask", "keyword", "named"),
    [(CAUSAL, {"novel": 1}, "novel=1"), (None, {}, "mask"), (torch.zeros(1, 1, 2, 2), {}, "mask")],
)
def test_arguments_that_would_change_attention_are_refused(
    mask: Any, keyword: dict[str, Any], named: str
) -> None:
    query = random(1, HEADS, 2, WIDTH, seed=1)
    key = value = random(1, KEY_HEADS, 2, WIDTH, seed=2)
    with packed_layout(EMPTY), pytest.raises(Unsupported, match=named):
        packed_attention(Layer(), query, key, value, mask, **keyword)
