"""Generations: their ids, and caches of their prompts."""

import pytest
import torch

from attribot_rag.errors import InvalidInput
from attribot_rag.model.generation import Generation, LayerCache


def layer(num_positions: int) -> LayerCache:
    return LayerCache(torch.zeros(1, 2, num_positions, 4), torch.zeros(1, 2, num_positions, 4))


def test_nothing_to_attribute() -> None:
    with pytest.raises(InvalidInput, match="prompt has no tokens; pass"):
        Generation((), (5,))
    with pytest.raises(InvalidInput, match="response has no tokens"):
        Generation((5,), ())


def test_truncating_keeps_the_rest() -> None:
    generation = Generation((5, 6), (7, 8, 9), (layer(2),), retokenized=True)
    short = generation.truncated(2)
    assert short.response_ids == (7, 8)
    assert short.cache is generation.cache
    assert short.retokenized
    assert generation.response_ids == (7, 8, 9)


def test_num_bytes_count_the_storage_that_is_kept_alive() -> None:
    whole = layer(10)
    view = LayerCache(whole.keys[:, :, :3], whole.values[:, :, :3])
    assert view.keys.shape[-2] == 3
    generation = Generation((5,), (7,), (view, layer(1)))
    assert generation.num_bytes == 2 * 2 * 4 * 4 * (10 + 1)
    assert generation.without_cache().num_bytes == 0
    assert generation.without_cache().response_ids == (7,)
