"""How strongly the question and the response attend to each source, by the model's own weights."""

import copy

import numpy as np
import pytest
import torch
from support.scorers import built, many_documents, scorer

from attribot_rag.context import Ablation
from attribot_rag.methods import Thorough
from attribot_rag.scoring import ScoringModels
from attribot_rag.scoring.base import Reduction
from attribot_rag.scoring.implementations.packed import Packed
from attribot_rag.scoring.row import Row

NAMES = (
    *("llama", "qwen2", "qwen3", "mixtral", "phi3", "gpt_neox", "granite", "cohere", "gemma2"),
    *("gemma3", "gpt_oss"),
)


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_those_of_plain_attention(name: str) -> None:
    one = scorer(many_documents(3), "The hall.", language_model=built(name))
    if not one.sees_attention:
        pytest.fail(f"{name} is said to be scored by {one.implementation}")
    found = one.attention()
    model = copy.deepcopy(one.language_model.model)
    model.set_attn_implementation("eager")
    generation, end = one.generation, one.context.end
    ids = [*generation.prompt_ids, *generation.response_ids[:-1]]
    with torch.inference_mode():
        attentions = model(torch.tensor([ids]), output_attentions=True).attentions
    largest = sum(layer[0, :, end:, :].amax(1).sum(0) for layer in attentions)
    held = [one.context.hidden_tokens(Ablation.of(*unit)) for unit in one.units]
    expected = [float(largest[list(tokens)].sum()) for tokens in held]
    assert max(expected) > 1.2 * min(expected)
    np.testing.assert_allclose(found or (), expected, rtol=1e-3)


def test_it_costs_one_row_unless_the_budget_is_spent() -> None:
    one = scorer(many_documents(3))
    one.score([])
    before = one.usage.scored_tokens
    assert one.attention() is not None
    row = len(one.generation.prompt_ids) - one.context.end + len(one.generation.response_ids) - 1
    assert one.usage.scored_tokens - before == row
    poor = scorer(many_documents(3), budget=len(one.generation.prompt_ids))
    poor.score([poor.context.whole])
    before = poor.usage.scored_tokens
    assert poor.attention() is None
    assert poor.usage.scored_tokens == before


@pytest.mark.parametrize("name", ["bloom", "falcon", "mamba"])
def test_where_it_is_not_seen(name: str) -> None:
    one = scorer(many_documents(3), "The hall.", language_model=built(name))
    assert not one.sees_attention
    assert one.attention() is None


def test_weights_that_do_not_fit_into_memory_are_left_out() -> None:
    one = scorer(many_documents(3))

    class Scarce(Packed):
        def weights(self, row: Row, reduction: Reduction) -> torch.Tensor:
            raise torch.OutOfMemoryError("CUDA out of memory")

    models = ScoringModels(one.language_model.model)
    one._engine._implementation = models.make(Scarce, one.generation)
    assert one.attention() is None
    assert Thorough().run(one).num_approximate > 0
