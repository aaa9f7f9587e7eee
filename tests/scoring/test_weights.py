"""The model's attention weights from the question and the response to each source."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scoring.test_scorer import with_implementation
from support.scorers import built, many_documents
from support.scorers import scorer as scorer_of

from attribot_rag.context import Ablation
from attribot_rag.methods import Thorough
from attribot_rag.model.local_model import model_here
from attribot_rag.scoring import Scorer
from attribot_rag.scoring.packed import Packed
from attribot_rag.scoring.patching import Effects, Patch
from attribot_rag.scoring.row import Row

NAMES = (
    *("llama", "qwen2", "qwen3", "mixtral", "phi3", "gpt_neox", "granite", "cohere", "gemma2"),
    *("gemma3", "gpt_oss"),
)


def plain_attentions(scorer: Scorer, ids: Sequence[int]) -> Any:
    """Of each layer: [1, heads, tokens, tokens]."""
    model = copy.deepcopy(model_here(scorer.language_model))
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        return model(torch.tensor([ids]), output_attentions=True).attentions


def weights_on_units(scorer: Scorer) -> list[float] | None:
    estimates = scorer.estimate_effects([[0]])
    return None if estimates is None else estimates.attention


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_those_of_plain_attention(name: str) -> None:
    scorer = scorer_of(many_documents(3), "The hall.", language_model=built(name))
    if not scorer.sees_attention:
        pytest.fail(f"{name} is said to be scored by {scorer.prefix.name}")
    weights = weights_on_units(scorer)
    generation, end = scorer.generation, scorer.context.query_start
    layers = plain_attentions(scorer, [*generation.prompt_ids, *generation.response_ids[:-1]])
    largest = sum(layer[0, :, end:, :].amax(1).sum(0) for layer in layers)
    unit_tokens = [scorer.context.hidden_tokens(Ablation.of(*unit)) for unit in scorer.units]
    expected = [float(largest[list(tokens)].sum()) for tokens in unit_tokens]
    assert max(expected) > 1.2 * min(expected)
    np.testing.assert_allclose(weights or (), expected, rtol=1e-3)


def test_attention_costs_one_row_unless_the_budget_is_spent() -> None:
    scorer = scorer_of(many_documents(3))
    scorer.score([])
    before = scorer.usage.scored_tokens
    assert weights_on_units(scorer) is not None
    generation = scorer.generation
    row = len(generation.prompt_ids) - scorer.context.query_start + len(generation.response_ids) - 1
    assert scorer.usage.scored_tokens - before == row
    poor = scorer_of(many_documents(3), budget=len(scorer.generation.prompt_ids))
    poor.score([poor.context.without_documents])
    before = poor.usage.scored_tokens
    assert weights_on_units(poor) is None
    assert poor.usage.scored_tokens == before


@pytest.mark.parametrize("name", ["bloom", "falcon", "mamba"])
def test_architectures_whose_attention_is_not_seen(name: str) -> None:
    scorer = scorer_of(many_documents(3), "The hall.", language_model=built(name))
    assert not scorer.sees_attention


def test_weights_that_do_not_fit_into_memory_are_left_out() -> None:
    class Scarce(Packed):
        def effects(self, row: Row, patch: Patch) -> Effects:
            raise torch.OutOfMemoryError("CUDA out of memory")

    scorer = with_implementation(scorer_of(many_documents(3)), Scarce)
    assert weights_on_units(scorer) is None
    assert Thorough().run(scorer).num_approximate > 0
