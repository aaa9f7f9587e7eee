"""Inputs besides token ids are refused by name."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from support.implementations import plain_scores
from support.tiny_models import build as build_tiny
from support.tiny_models import byte_tokenizer
from support.vision_models import gemma3, ids_of, inputs_for, llava, qwen2_5_vl, tokenizer
from transformers import (
    DynamicCache,
    LlamaForCausalLM,
    LogitsProcessorList,
    PreTrainedModel,
)

from attribot_rag import Attributor
from attribot_rag.attribution import Attribution
from attribot_rag.errors import UnsupportedModel
from attribot_rag.model.generation import cache_inputs

SENTENCES = ("The ferry takes 84 people. ", "The tower is 38 metres high. ")
QUESTION = "How high is it?"
NATS = 1e-3
EOS = byte_tokenizer().eos_token_id


def generate(model: Any, ids: Sequence[int], **inputs: Any) -> torch.Tensor:
    settings = {"max_new_tokens": 6, "do_sample": False, **inputs}
    return torch.as_tensor(model.generate(input_ids=torch.tensor([ids]), **settings))


def attributed(
    model: PreTrainedModel, ids: Sequence[int], inputs: dict[str, Any], **options: Any
) -> tuple[Attribution, list[int]]:
    """The attribution of what the model answers to these inputs, and the answer's ids."""
    settings = {"progress": False, "verdicts": None, **options}
    attributor = Attributor(model, tokenizer(), **settings)
    with attributor.recorder:
        output = generate(model, ids, **inputs)
    response = output[0, len(ids) :].tolist()
    return attributor.attribute(ids, response, SENTENCES), response


TEXT = (*SENTENCES, QUESTION)


@pytest.mark.parametrize("build", [llava, qwen2_5_vl, gemma3])
def test_an_image_is_refused_by_the_name_of_its_input(build: Any) -> None:
    model, ids = build(), ids_of((SENTENCES[0], None, SENTENCES[1], QUESTION))
    with pytest.raises(UnsupportedModel, match="pixel_values"):
        attributed(model, ids, inputs_for(model, ids))


def test_a_prompt_with_the_tokens_of_an_image_is_refused_without_a_record() -> None:
    attributor = Attributor(llava(), tokenizer(), progress=False)
    with pytest.raises(UnsupportedModel, match="tokens that stand for images"):
        attributor.attribute(ids_of((None, *TEXT)), list(b"38 me"), SENTENCES)


@pytest.mark.parametrize("build", [llava, qwen2_5_vl])
def test_an_earlier_answer_about_an_image_changes_no_score_of_a_text(build: Any) -> None:
    model, response = build(), list(b"38 me")
    with torch.no_grad():
        generate(model, ids_of((None, *TEXT)), **inputs_for(model, ids_of((None, *TEXT))))
    attributor = Attributor(
        model, tokenizer(), progress=False, verdicts=None, method="leave_one_out"
    )
    attribution = attributor.attribute(ids_of(TEXT), response, SENTENCES)
    assert attribution.provenance.implementation == "packed"
    full = plain_scores(model, ids_of(TEXT), response).sum()
    for source in attribution.sources:
        rest = ids_of([text.replace(source.text, "") for text in TEXT])
        difference = float(full - plain_scores(model, rest, response).sum())
        assert attribution.score(source.id) == pytest.approx(difference, abs=NATS)


def test_an_input_besides_ids_is_refused_by_its_name() -> None:
    model: Any = build_tiny("gpt2").model
    ids = ids_of(TEXT)
    types = [int(index >= 10) for index in range(len(ids))]
    embeddings = model.get_input_embeddings()(torch.tensor([ids])).detach()
    for inputs in (
        {"token_type_ids": torch.tensor([types])},
        {"token_type_ids": torch.zeros(1, len(ids)).long()},  # it adds the embedding of id 0
        {"position_ids": torch.arange(3, 3 + len(ids))[None]},
        {"inputs_embeds": embeddings},
    ):
        with pytest.raises(UnsupportedModel, match=next(iter(inputs))):
            attributed(model, ids, inputs)


def test_an_answer_to_embeddings_alone_is_no_answer_to_a_text() -> None:
    language_model = build_tiny("llama")
    model: Any = language_model.model
    ids = ids_of(TEXT)
    attributor = Attributor(model, byte_tokenizer(), progress=False)
    with attributor.recorder:
        embeddings = model.get_input_embeddings()(torch.tensor([ids])).detach() * 1.5
        output = model.generate(inputs_embeds=embeddings, max_new_tokens=6, do_sample=False)
    answer = language_model.decode(output[0].tolist(), skip_special_tokens=True)
    with pytest.raises(UnsupportedModel, match="inputs_embeds"):
        attributor.attribute("".join(TEXT), answer, SENTENCES)


def test_inputs_that_change_nothing_are_none() -> None:
    ids = ids_of(TEXT)
    zeros = torch.zeros(1, len(ids), dtype=torch.long)
    for model, inputs, method in (
        (build_tiny("gpt2").model, {"position_ids": torch.arange(len(ids))[None]}, "auto"),
        (qwen2_5_vl(), {"mm_token_type_ids": zeros}, "thorough"),
    ):
        attribution, _ = attributed(model, ids, inputs, method=method)
        assert attribution.provenance.implementation == "packed"


class RenamedCache(LlamaForCausalLM):  # type: ignore[no-untyped-call]
    """Also takes a cache by a name that no release of transformers has."""

    def forward(self, *args: Any, memory: Any = None, **inputs: Any) -> Any:
        inputs |= {} if memory is None else cache_inputs(build_tiny("llama").model, memory)
        return super().forward(*args, **inputs)


def test_a_cache_by_an_unknown_name_is_refused() -> None:
    config: Any = build_tiny("llama").model.config
    model: Any = RenamedCache(config)
    model.eval()
    with pytest.raises(UnsupportedModel, match="memory"):
        attributed(model, ids_of(TEXT), {"memory": DynamicCache()})


def test_a_cache_that_the_caller_filled_changes_no_score() -> None:
    ids = ids_of(TEXT)
    model = build_tiny("llama").model
    cache = DynamicCache()
    with torch.no_grad():
        model(input_ids=torch.tensor([ids[:30]]), use_cache=True, **cache_inputs(model, cache))
    scores, prefilled = [], []
    for inputs in ({}, cache_inputs(model, cache)):
        attribution, _ = attributed(model, ids, inputs)
        scores.append([attribution.score(source.id) for source in attribution.sources])
        prefilled.append(attribution.provenance.prefilled_tokens)
    assert scores[1] == pytest.approx(scores[0], abs=NATS)
    assert prefilled == [0, len(ids) - 1]


@pytest.mark.parametrize(
    ("constraint", "names"),
    [
        ({"prefix_allowed_tokens_fn": lambda *_: [60, 61]}, ["prefix_allowed_tokens_fn"]),
        (
            {"logits_processor": LogitsProcessorList([lambda ids, scores: scores])},
            ["logits_processor"],
        ),
        ({"logits_processor": LogitsProcessorList()}, []),
        ({}, []),
    ],
)
def test_constraints_of_the_call_are_noted(
    constraint: dict[str, Any], names: Sequence[str]
) -> None:
    attribution, _ = attributed(build_tiny("llama").model, ids_of(TEXT), constraint)
    matches = [re.search("choice: (.*) may have preferred", note) for note in attribution.notes]
    assert [match[1] for match in matches if match] == names
