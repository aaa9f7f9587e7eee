"""Rotary frequencies that change while a model answers: scored as `generate` computed."""

from typing import Any

import pytest
import torch
from support.implementations import chosen
from transformers import LlamaConfig, LlamaForCausalLM, Phi3Config, Phi3ForCausalLM, PreTrainedModel

from attribot_rag.model.generation import Generation
from attribot_rag.scoring.local_backend import LocalBackend
from attribot_rag.scoring.local_prefix import Cropped, Reference
from attribot_rag.scoring.row import Row

LIMIT = 40
SHORT: dict[str, Any] = {
    **{"vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "initializer_range": 0.25},
    **{"pad_token_id": 0, "bos_token_id": None, "eos_token_id": None},
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "short_factor": [1.0] * 4,
    "long_factor": [2.0, 5.0, 10.0, 20.0],
    "original_max_position_embeddings": LIMIT,
}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10_000.0}


def phi3() -> PreTrainedModel:
    config = Phi3Config(
        **SHORT,
        max_position_embeddings=4 * LIMIT,
        original_max_position_embeddings=LIMIT,
        rope_parameters=dict(LONGROPE),
    )
    return Phi3ForCausalLM(config)


def llama_longrope() -> PreTrainedModel:
    """Unlike Phi-3, it keeps the keys that it has encoded before the limit."""
    config = LlamaConfig(**SHORT, max_position_embeddings=4 * LIMIT, rope_parameters=dict(LONGROPE))
    return LlamaForCausalLM(config)


def llama_dynamic() -> PreTrainedModel:
    config = LlamaConfig(**SHORT, max_position_embeddings=LIMIT, rope_parameters=dict(DYNAMIC))
    return LlamaForCausalLM(config)


@pytest.mark.parametrize("build", [phi3, llama_longrope, llama_dynamic])
@pytest.mark.parametrize("num_prompt", [20, 30, LIMIT - 1, LIMIT, LIMIT + 1, LIMIT + 9])
def test_scores_are_those_of_the_generation(build: Any, num_prompt: int) -> None:
    """For the prompt that was seen, and for ablated ones whose answers cross the limit or not."""
    torch.manual_seed(0)
    model = build().eval()
    backend = LocalBackend(model)
    ids = torch.randint(3, 300, (1, num_prompt), generator=torch.Generator().manual_seed(1))
    shown = tuple(ids[0].tolist())
    for kept in (shown, shown[: num_prompt // 2], shown[3:]):
        generated = model.generate(
            torch.tensor([kept]),
            max_new_tokens=18,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        response = generated.sequences[0, len(kept) :].tolist()
        expected = chosen(torch.cat(generated.logits), response)
        generation = Generation(shown, tuple(response))
        with torch.no_grad():
            implementation = backend.make(Reference, generation)
            scored = implementation.log_likelihoods([Row.for_prompt(kept, 0, generation)])[0]
        assert torch.allclose(scored, expected, atol=1e-4)
        crossing = Generation(kept, generation.response_ids)
        if len(kept) + 18 <= LIMIT:
            assert backend.why_not(Cropped, crossing) is None
        elif len(kept) <= LIMIT:
            assert "rotary" in str(backend.why_not(Cropped, crossing))
            assert "rotary" in str(backend.why_no_masks(Reference, crossing))


@pytest.mark.parametrize("build", [phi3, llama_longrope, llama_dynamic])
def test_a_longer_row_leaves_nothing_behind(build: Any) -> None:
    """Neither for a shorter one of the same batch nor in the model."""
    torch.manual_seed(0)
    model = build().eval()
    before = model.generation_config.to_dict()
    generation = Generation(tuple(range(3, 93)), tuple(range(100, 120)))
    backend = LocalBackend(model)
    assert backend.prefix_for(generation).name == "reference"
    rows = [
        Row.for_prompt(generation.prompt_ids[:length], 0, generation) for length in (90, 30, 90)
    ]
    with torch.no_grad():
        first, short, second = backend.make(Reference, generation).log_likelihoods(rows)
        alone = backend.make(Reference, generation).log_likelihoods(rows[1:2])[0]
    assert torch.equal(first, second)
    assert torch.allclose(short, alone, atol=1e-5)
    assert model.generation_config.to_dict() == before
