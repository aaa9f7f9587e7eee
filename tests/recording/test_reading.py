"""Recorded ids are those that `generate` saw and gave; recorded caches are those of a prefill."""

from typing import Any

import pytest
import torch
from support.architectures import ARCHITECTURES
from support.scripted_generation import generate
from support.tiny_models import build, left_padded, prompt
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteriaList,
)
from transformers.cache_utils import DynamicLayer

from attribot_rag.model.generation import Generation, cache_inputs
from attribot_rag.model.local_model import LocalModel
from attribot_rag.recording import GenerationRecorder

NAMES = [architecture.name for architecture in ARCHITECTURES]
EOS, PAD = 2, 0
LLAMA = build("llama")
CONFIG = GenerationConfig(max_new_tokens=5, eos_token_id=2)  # type: ignore[no-untyped-call]
SHORT: dict[str, Any] = {"max_new_tokens": 6, "do_sample": False}


class Ending(LogitsProcessor):
    """Row i says EOS at step `steps[i]` and no earlier."""

    def __init__(self, steps: tuple[int, ...], prompt_length: int) -> None:
        self.steps = steps
        self.prompt_length = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.clone()
        scores[:, [EOS, PAD]] = float("-inf")
        for row, step in enumerate(self.steps):
            if input_ids.shape[1] - self.prompt_length == step:
                scores[row, EOS] = 1e9
        return scores


def recorded(
    language_model: LocalModel, *args: Any, **options: Any
) -> tuple[torch.Tensor, tuple[Generation, ...]]:
    with GenerationRecorder(language_model) as recorder:
        output = generate(language_model, *args, **options)
    sequences = output if isinstance(output, torch.Tensor) else output["sequences"]
    return sequences, recorder.generations


def prefilled(language_model: LocalModel, ids: tuple[int, ...]) -> DynamicCache:
    cache = DynamicCache()
    with torch.no_grad():
        model = language_model.model
        model(input_ids=torch.tensor([ids]), use_cache=True, **cache_inputs(model, cache))
    return cache


def assert_cache_is_that_of_a_prefill(language_model: LocalModel, generation: Generation) -> None:
    assert generation.cache is not None
    fresh = prefilled(language_model, generation.prompt_ids)
    assert len(generation.cache) == len(fresh.layers) == 3
    for layer, truth in zip(generation.cache, fresh.layers, strict=True):
        assert isinstance(truth, DynamicLayer)
        assert truth.keys is not None
        assert truth.values is not None
        assert layer.keys.shape == truth.keys.shape
        assert layer.keys.shape[-2] == len(generation.prompt_ids)
        torch.testing.assert_close(layer.keys, truth.keys, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(layer.values, truth.values, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lengths", [(40,), (40, 13, 27)])
def test_caches_that_keep_every_position_equal_a_prefill(
    name: str, lengths: tuple[int, ...]
) -> None:
    """Windows, chunks and recurrent states do not; nothing is taken over of those."""
    language_model = build(name)
    config = language_model.model.config.get_text_config(decoder=True)
    kept = all(type(layer) is DynamicLayer for layer in DynamicCache(config=config).layers)
    ids, mask = left_padded(lengths, PAD)
    _, generations = recorded(language_model, ids, attention_mask=mask, **SHORT)
    assert [len(generation.prompt_ids) for generation in generations] == list(lengths)
    for generation in generations:
        if kept:
            assert_cache_is_that_of_a_prefill(language_model, generation)
        else:
            assert generation.cache is None


@pytest.mark.parametrize("pad_id", [PAD, EOS])
@pytest.mark.parametrize("with_mask", [True, False])
def test_rows_that_end_early(pad_id: int, with_mask: bool) -> None:
    lengths = (12, 5, 9)
    ids, mask = left_padded(lengths, pad_id)
    masks = {"attention_mask": mask} if with_mask else {}
    ending = LogitsProcessorList([Ending((2, 99, 4), 12)])
    sequences, generations = recorded(
        LLAMA, ids, logits_processor=ending, pad_token_id=pad_id, **masks, **SHORT
    )
    # Without a mask `generate` itself cannot tell padding from EOS, and sees all of it.
    expected_lengths = lengths if with_mask or pad_id == PAD else (12, 12, 12)
    expected = zip(generations, expected_lengths, (2, 6, 4), strict=True)
    for row, (generation, length, num_tokens) in enumerate(expected):
        assert generation.prompt_ids == tuple(ids[row, 12 - length :].tolist())
        assert generation.response_ids == tuple(sequences[row, 12 : 12 + num_tokens].tolist())
        assert_cache_is_that_of_a_prefill(LLAMA, generation)


def test_several_answers_to_each_prompt() -> None:
    ids, mask = left_padded((10, 4), PAD)
    torch.manual_seed(3)
    sequences, generations = recorded(
        LLAMA,
        ids,
        attention_mask=mask,
        do_sample=True,
        num_return_sequences=3,
        max_new_tokens=5,
        eos_token_id=None,
        pad_token_id=None,
    )
    assert [len(generation.prompt_ids) for generation in generations] == [10, 10, 10, 4, 4, 4]
    for row, generation in enumerate(generations):
        assert generation.prompt_ids == tuple(ids[row // 3][mask[row // 3].bool()].tolist())
        assert generation.response_ids == tuple(sequences[row, 10:].tolist())
        assert_cache_is_that_of_a_prefill(LLAMA, generation)
    assert len({generation.response_ids for generation in generations[:3]}) > 1


def test_beams_are_recorded_without_their_cache() -> None:
    ids, mask = left_padded((10, 4), PAD)
    sequences, generations = recorded(
        LLAMA, ids, attention_mask=mask, num_beams=3, num_return_sequences=2, **SHORT
    )
    assert [generation.prompt_ids for generation in generations[::2]] == [
        tuple(ids[0].tolist()),
        tuple(ids[1, 6:].tolist()),
    ]
    for row, generation in enumerate(generations):
        response = tuple(sequences[row, 10:].tolist())
        assert generation.response_ids == response[: len(generation.response_ids)]
        assert set(response[len(generation.response_ids) :]) <= {EOS, PAD}
        assert generation.cache is None


@pytest.mark.parametrize(
    "options",
    [
        {"cache_implementation": "static"},
        {"use_cache": False},
        cache_inputs(build("llama").model, DynamicCache()),
        {"position_ids": torch.arange(5, 25)[None]},
    ],
    ids=lambda options: next(iter(options)),
)
def test_caches_that_are_not_adopted(options: dict[str, Any]) -> None:
    ids = prompt(20)
    sequences, (generation,) = recorded(LLAMA, ids, **options, **SHORT)
    assert generation.cache is None
    assert generation.prompt_ids == tuple(ids[0].tolist())
    assert generation.response_ids == tuple(sequences[0, 20:].tolist())


def test_a_model_in_training_or_under_autocast_lends_no_cache() -> None:
    language_model = build("llama")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _, (generation,) = recorded(language_model, prompt(20), **SHORT)
    assert generation.cache is None
    language_model.model.train()
    _, (generation,) = recorded(language_model, prompt(20), **SHORT)
    assert generation.cache is None
    assert language_model.model.training


def test_a_hole_in_the_attention_mask_is_no_token_of_the_prompt() -> None:
    ids, mask = prompt(10), torch.ones(1, 10).long()
    mask[0, 4:6] = 0
    _, (generation,) = recorded(LLAMA, ids, attention_mask=mask, **SHORT)
    assert generation.prompt_ids == tuple(ids[0, [0, 1, 2, 3, 6, 7, 8, 9]].tolist())
    assert generation.cache is None


def test_an_answer_of_nothing_is_not_recorded() -> None:
    """Unless EOS is switched off, and a token like others."""
    ending = LogitsProcessorList([Ending((0,), 10)])
    sequences, generations = recorded(LLAMA, prompt(10), logits_processor=ending, **SHORT)
    assert sequences[0, 10:].tolist() == [EOS]
    assert generations == ()
    sequences, (generation,) = recorded(
        LLAMA, prompt(10), logits_processor=ending, eos_token_id=None, **SHORT
    )
    assert sequences[0, 10] == EOS
    assert generation.response_ids == tuple(sequences[0, 10:].tolist())


def test_padding_after_a_stop_string_is_no_part_of_the_answer() -> None:
    ids, mask = left_padded((10, 10), PAD)

    class Letters(LogitsProcessor):
        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            scores = torch.full_like(scores, float("-inf"))
            scores[0, 30 + input_ids.shape[1] - 10] = 0
            scores[1, 60 + input_ids.shape[1] - 10] = 0
            return scores

    stop = LLAMA.decode([31])
    sequences, (first, second) = recorded(
        LLAMA,
        ids,
        attention_mask=mask,
        logits_processor=LogitsProcessorList([Letters()]),
        stop_strings=[stop],
        tokenizer=LLAMA.tokenizer,
        **SHORT,
    )
    assert sequences[0, 10:].tolist() == [30, 31, PAD, PAD, PAD, PAD]
    assert first.response_ids == (30, 31)
    assert second.response_ids == (60, 61, 62, 63, 64, 65)


@pytest.mark.parametrize("name", ["llama", "gpt2", "phi3_longrope"])
def test_a_cache_is_read_before_the_caller_goes_on_with_it(name: str) -> None:
    """The caller may continue from the cache that it was given."""
    language_model = build(name)
    with GenerationRecorder(language_model) as recorder:
        output = generate(language_model, prompt(20), return_dict_in_generate=True, **SHORT)
        again = torch.cat([output["sequences"], prompt(5, seed=9)], dim=1)
        cache = output["past_key_values"]
        generate(language_model, again, **cache_inputs(language_model.model, cache), **SHORT)
    first, second = recorder.generations
    assert_cache_is_that_of_a_prefill(language_model, first)
    assert second.cache is None


@pytest.mark.parametrize(
    "limit", [{"max_new_tokens": 5}, {"max_length": 45}, {"generation_config": CONFIG}]
)
def test_rows_that_the_limit_cut_did_not_end_by_themselves(limit: dict[str, Any]) -> None:
    ids, mask = left_padded((40, 40, 40), PAD)
    ending = LogitsProcessorList([Ending((2, 4, 99), 40)])
    settings = {"do_sample": False, "pad_token_id": PAD, "eos_token_id": EOS, **limit}
    _, generations = recorded(LLAMA, ids, attention_mask=mask, logits_processor=ending, **settings)
    assert [len(generation.response_ids) for generation in generations] == [2, 4, 5]
    assert [generation.cut_at for generation in generations] == [None, None, 5]
    assert [generation.unfinished for generation in generations] == [False, False, True]
    assert generations[0].truncated(1).unfinished
    assert generations[2].truncated(5).cut_at == 5
    assert generations[2].truncated(4).cut_at is None  # the user stopped it before


def test_an_answer_that_a_criterion_stopped_is_unfinished() -> None:
    def three_tokens(ids: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return torch.full((len(ids),), ids.shape[1] >= 43)

    criteria = StoppingCriteriaList([three_tokens])
    _, (generation,) = recorded(LLAMA, prompt(40), stopping_criteria=criteria, **SHORT)
    assert (len(generation.response_ids), generation.cut_at) == (3, None)
    assert generation.unfinished
