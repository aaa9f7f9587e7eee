"""Patching follows attention to first order, and finds what each sentence was made from."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from support.implementations import RESPONSE_LENGTH, chosen, generation_for
from support.tiny_models import architecture, build

from attribot_rag import Attributor, LocalModel
from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.methods import Patching
from attribot_rag.model.generation import cache_inputs
from attribot_rag.scoring.local_backend import LocalBackend
from attribot_rag.scoring.local_prefix import as_dynamic_cache, prefill
from attribot_rag.scoring.packed import Packed
from attribot_rag.scoring.patching import Patch
from attribot_rag.scoring.row import Row

UNITS = (range(3, 12), range(12, 30), range(30, 45))
PARTS = (range(3), range(3, RESPONSE_LENGTH))
TAIL = range(45, 60)
MEMBERS = torch.stack([torch.tensor([float(i in unit) for i in range(60)]) for unit in UNITS], 1)

# Everything that attention has: windows, sinks, soft caps, latent keys, shared layers.
KINDS = ["llama", "gpt2", "gemma2", "gemma3", "gpt_oss", "deepseek_v3", "gemma3n", "phimoe"]


def packed(name: str) -> tuple[Packed, Row]:
    generation = generation_for(architecture(name))
    implementation = LocalBackend(architecture(name).build()).make(Packed, generation)
    assert isinstance(implementation, Packed)
    implementation.read()
    return implementation, Row.masked(generation, (), TAIL)


def gated(implementation: Packed, row: Row, unit: Sequence[int], factor: float) -> torch.Tensor:
    """The log-likelihood of each part with the attention to a unit scaled."""
    members = torch.zeros(60, 1)
    members[list(unit)] = 1.0
    gates = implementation.observer_for(row, Patch(members, PARTS, (factor,)))
    with torch.no_grad():
        scored = implementation.score([row], gates)[0].double()
    return torch.stack([scored[list(part)].sum() for part in PARTS])


@pytest.mark.parametrize("name", KINDS)
def test_no_attention_weights_on_the_prompt_are_kept(name: str) -> None:
    implementation, row = packed(name)
    kept: list[torch.Size] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        implementation.effects(row, Patch(MEMBERS, PARTS, (0.25, 0.75)))
    assert kept
    assert not [shape for shape in kept if TAIL.start in shape]


@pytest.mark.parametrize("name", KINDS)
def test_the_gradient_is_that_of_a_small_gate(name: str) -> None:
    implementation, row = packed(name)
    near_one = 1 - 1e-4
    with torch.inference_mode():
        derivative = implementation.effects(row, Patch(MEMBERS, PARTS, (near_one,))).by_part
    step = 4e-3
    changes = [
        (gated(implementation, row, unit, 1 + step) - gated(implementation, row, unit, 1 - step))
        / (2 * step)
        for unit in UNITS
    ]
    expected = torch.stack(changes, 1)
    assert expected.abs().max() > 0.1
    assert torch.allclose(derivative.double(), expected, atol=5e-3, rtol=5e-3)


@pytest.mark.parametrize("name", KINDS)
def test_located_effects_add_up_to_those_on_the_whole_response(name: str) -> None:
    factors = (0.25, 0.75)
    implementation, row = packed(name)
    everything = tuple(range(RESPONSE_LENGTH))
    halves = ((), everything[:4], everything[4:])
    with torch.inference_mode():
        whole = implementation.effects(row, Patch(MEMBERS, [everything], factors)).by_part
        located = implementation.effects(row, Patch(MEMBERS, halves, factors, True)).by_part
    question, first, second = located
    assert question.abs().max() > 1e-4
    assert not torch.allclose(first, second, atol=1e-4)
    torch.testing.assert_close((first + second - question)[None], whole, atol=1e-4, rtol=1e-4)


def test_a_gate_equals_a_mask_in_the_model_s_own_attention() -> None:
    """By transformers' eager attention with a mask that holds the gate."""
    implementation, row = packed("llama")
    generation = implementation.generation
    model: Any = copy.deepcopy(architecture("llama").build())
    model.config._attn_implementation = "eager"
    with torch.no_grad():
        cache = prefill(model, generation.prompt_ids[:45])
    for factor in (0.25, 0.9):
        mask = torch.zeros(row.num_new, 45 + row.num_new)
        mask[:, 45:] = torch.full((row.num_new, row.num_new), -torch.inf).triu(1)
        mask[:, list(UNITS[1])] += math.log(factor)
        with torch.no_grad():
            logits = model(
                input_ids=torch.tensor([row.token_ids]),
                position_ids=torch.tensor([row.positions]),
                attention_mask=mask[None, None],
                **cache_inputs(model, as_dynamic_cache(cache, 45)),
            ).logits[0, -RESPONSE_LENGTH:]
        plain = chosen(logits, generation.response_ids)
        expected = torch.stack([plain[list(part)].sum() for part in PARTS]).double()
        assert torch.allclose(gated(implementation, row, UNITS[1], factor), expected, atol=1e-4)


DOCUMENTS = [
    "The ferry Kittiwake carries up to 84 passengers.",
    "The lighthouse of Varn is 38 metres high.",
    "The bakery opens at six in the morning.",
    "Cherries grow in the garden of the mayor.",
    "The school has two teachers and a dog.",
]
ANSWER = "The lighthouse is 38 metres high. The ferry carries 84 passengers."


def prompt_for(documents: Sequence[str]) -> str:
    return "\n".join([*documents, "What do you know of the lighthouse and the ferry?", ""])


@pytest.mark.slow
def test_each_sentence_finds_its_own_cause(smollm2: LocalModel) -> None:
    attributor = Attributor(smollm2, method=Patching(2), progress=False, verdicts=None)
    attribution = attributor.attribute(prompt_for(DOCUMENTS), ANSWER, DOCUMENTS)
    for words, document in (("38 metres", 1), ("84 passengers", 0)):
        start, _ = attribution.find(words)
        best = attribution.top(1, start, start + len(words))[0]
        assert best.source.documents == (document,)
        assert best.score > 0
    assert attribution.exact == (False,) * 5
    assert attribution.unit == "nats"


@pytest.mark.parametrize("name", ["bloom", "mamba"])
def test_patching_is_refused_where_attention_is_not_seen(name: str) -> None:
    model = build(name)
    attributor = Attributor(model, method=Patching(), progress=False)
    for gates in (0, -1, 1.5, True):
        with pytest.raises(InvalidInput, match="gates="):
            Patching(gates)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedModel, match="attention is not seen"):
        attributor.attribute("A cat sat. A dog ran. Who?", "a dog", ["A cat sat.", "A dog ran."])
