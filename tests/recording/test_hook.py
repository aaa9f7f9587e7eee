"""Callers of `generate` get exactly the output that they would get without a recorder."""

import copy
import gc
import io
import logging
import pickle
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from support.patience import scaled
from support.scripted_generation import generate
from support.tiny_models import build, left_padded, prompt
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
)
from transformers.utils import logging as transformers_logging
from transformers.utils.generic import ModelOutput

from attribot_rag.model.generation import cache_inputs
from attribot_rag.model.local_model import LocalModel
from attribot_rag.recording import GenerationRecorder

Call = Callable[[LocalModel], Any]

LLAMA = build("llama")
IDS = prompt(12)
SHORT: dict[str, Any] = {"max_new_tokens": 6, "do_sample": False}


def asked(*args: Any, **options: Any) -> Call:
    return lambda model: generate(model, IDS, *args, **options)


def padded(pad_id: int, *, with_mask: bool, **options: Any) -> Call:
    ids, mask = left_padded((12, 7, 3), pad_id)
    masks = {"attention_mask": mask} if with_mask else {}
    return lambda model: generate(model, ids, pad_token_id=pad_id, **masks, **SHORT, **options)


def with_default_dict(call: Call) -> Call:
    def run(language_model: LocalModel) -> Any:
        config = generation_config(language_model.model)
        config.return_dict_in_generate = True
        try:
            return call(language_model)
        finally:
            config.return_dict_in_generate = None

    return run


def generation_config(model: PreTrainedModel) -> GenerationConfig:
    assert model.generation_config is not None
    return model.generation_config


def config(**options: Any) -> GenerationConfig:
    made: Any = GenerationConfig
    return cast(GenerationConfig, made(**SHORT, **options))


AS_DICT: dict[str, Any] = {"return_dict_in_generate": True, "output_scores": True, **SHORT}
CALLS: dict[str, Call] = {
    "greedy": asked(**SHORT),
    "input_ids": lambda model: generate(model, input_ids=IDS, **SHORT),
    "inputs_none": lambda model: generate(model, inputs=None, input_ids=IDS, **SHORT),
    "sampling": asked(do_sample=True, temperature=1.0, max_length=20),
    "padded": padded(0, with_mask=True),
    "padded_mask_inferred": padded(0, with_mask=False),
    "padded_with_eos": padded(2, with_mask=True),
    "padded_with_eos_no_mask": padded(2, with_mask=False),
    "return_sequences": asked(do_sample=True, num_return_sequences=3, max_new_tokens=6),
    "beams": asked(num_beams=3, **SHORT),
    "beam_dict": asked(num_beams=3, **AS_DICT),
    "dict": asked(**AS_DICT),
    "dict_false": asked(return_dict_in_generate=False, **SHORT),
    "dict_none_over_default": with_default_dict(asked(return_dict_in_generate=None, **SHORT)),
    "dict_by_default": with_default_dict(asked(**SHORT)),
    "dict_false_over_default": with_default_dict(asked(config(return_dict_in_generate=False))),
    "config": asked(generation_config=config()),
    "config_by_position": asked(config()),
    "config_with_dict": asked(config(return_dict_in_generate=True)),
    "config_and_arguments": asked(config(), max_new_tokens=3),
    "config_and_dict": asked(config(), return_dict_in_generate=True),
    "all_by_position": asked(config(), LogitsProcessorList()),
    "static_cache": asked(cache_implementation="static", **SHORT),
    "no_cache": asked(use_cache=False, **SHORT),
    "own_cache": lambda model: asked(**cache_inputs(model.model, DynamicCache()), **SHORT)(model),
    "no_eos": asked(eos_token_id=None, **SHORT),
    "stop_strings": lambda model: asked(
        stop_strings=["e"], tokenizer=model.tokenizer, max_new_tokens=6
    )(model),
    "embeddings": lambda model: generate(
        model, inputs_embeds=model.model.get_input_embeddings()(IDS), **SHORT
    ),
    "no_prompt": lambda model: generate(model, bos_token_id=1, **SHORT),
}

# What transformers itself warns about, recorded or not.
WARNING = {"padded_with_eos_no_mask", "config_and_arguments", "config_and_dict"}


@pytest.fixture
def log_lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """The log lines of transformers since the last call, each warning as if for the first time."""
    transformers_logging.enable_propagation()

    def taken() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        caplog.clear()
        cast(Any, transformers_logging.warning_once).cache_clear()
        return lines

    taken()
    yield taken
    transformers_logging.disable_propagation()


def assert_same(actual: Any, expected: Any) -> None:
    assert type(actual) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert torch.equal(actual, expected)
    elif isinstance(expected, ModelOutput):
        assert list(actual) == list(expected)
        for name in expected:
            assert_same(actual[name], expected[name])
    elif isinstance(expected, tuple):
        for part, other in zip(actual, expected, strict=True):
            assert_same(part, other)


@pytest.mark.parametrize("name", CALLS)
def test_callers_get_what_they_would_get_unrecorded(
    name: str, log_lines: Callable[[], list[str]]
) -> None:
    torch.manual_seed(1)
    expected = CALLS[name](LLAMA)
    expected_lines = log_lines()
    recorder = GenerationRecorder(LLAMA)
    with recorder:
        torch.manual_seed(1)
        actual = CALLS[name](LLAMA)
    assert_same(actual, expected)
    assert log_lines() == expected_lines
    assert bool(expected_lines) == (name in WARNING)
    sequences = expected if isinstance(expected, torch.Tensor) else expected["sequences"]
    is_kept = name != "no_prompt"  # embeddings are, to be refused by name
    assert len(recorder.generations) == len(sequences) * is_kept


def test_the_caller_s_config_is_not_touched() -> None:
    settings = config()
    before = settings.to_dict()
    with GenerationRecorder(LLAMA) as recorder:
        generate(LLAMA, IDS, settings)
        generate(LLAMA, IDS, generation_config=settings)
    assert settings.to_dict() == before
    assert settings.return_dict_in_generate is None
    assert len(recorder.generations) == 2


@pytest.mark.parametrize(
    ("error", "ids", "options"),
    [(IndexError, torch.tensor([[10_000]]), {}), (ValueError, IDS, {"unheard_of": 1})],
)
def test_an_exception_propagates_and_nothing_stays_in_flight(
    error: type[Exception], ids: torch.Tensor, options: dict[str, Any]
) -> None:
    with GenerationRecorder(LLAMA) as recorder:
        with pytest.raises(error) as raised:
            generate(LLAMA, ids, **SHORT, **options)
        recorder.find("anything", timeout=scaled(60))
        generate(LLAMA, IDS, **SHORT)
    with pytest.raises(error) as expected:
        generate(LLAMA, ids, **SHORT, **options)
    assert str(raised.value) == str(expected.value)
    assert len(recorder.generations) == 1


def test_a_failing_listener_does_not_lose_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(GenerationRecorder):
        def _keep(self, generations: Any) -> None:
            raise RuntimeError("no room")

    expected = generate(LLAMA, IDS, **SHORT)
    with Failing(LLAMA), caplog.at_level(logging.ERROR):
        assert_same(generate(LLAMA, IDS, **SHORT), expected)
    assert "could not be recorded" in caplog.text
    assert "no room" in caplog.text


def test_a_listener_may_leave_and_die_while_it_is_called() -> None:
    """The generation that calls the listeners still holds its weak reference."""

    class Leaving(GenerationRecorder):
        def _keep(self, generations: Any) -> None:
            other = recorders.pop()
            other.detach()

    recorders = [GenerationRecorder(LLAMA)]
    with Leaving(LLAMA):
        recorders[0].attach()
        generate(LLAMA, IDS, **SHORT)
        gc.collect()
    assert "generate" not in vars(LLAMA.model)


@pytest.mark.parametrize("first", [0, 1])
def test_detaching_in_any_order_restores_the_model(first: int) -> None:
    """And attaching or detaching twice is as once."""
    before = dict(vars(LLAMA.model))
    recorders = [GenerationRecorder(LLAMA).attach().attach(), GenerationRecorder(LLAMA).attach()]
    generate(LLAMA, IDS, **SHORT)
    recorders[first].detach()
    recorders[first].detach()
    generate(LLAMA, IDS, **SHORT)
    recorders[1 - first].detach()
    generate(LLAMA, IDS, **SHORT)
    assert vars(LLAMA.model) == before
    assert [len(recorders[first].generations), len(recorders[1 - first].generations)] == [1, 2]


@pytest.fixture
def model() -> LocalModel:
    """A model on which somebody puts a `generate` of their own."""
    return build("llama")


def test_a_generate_of_one_s_own_is_called_as_it_is_and_comes_back(model: LocalModel) -> None:
    original = cast(Callable[..., Any], model.model.generate)

    def shouting(question: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = original(question, **SHORT)
        return answer[:, :-1]

    vars(model.model)["generate"] = shouting
    expected = generate(model, IDS)
    with GenerationRecorder(model) as recorder:
        assert_same(generate(model, question=IDS), expected)
        assert_same(generate(model, IDS), expected)
    assert vars(model.model)["generate"] is shouting
    assert [generation.response_ids for generation in recorder.generations] == [
        tuple(expected[0, 12:])
    ]


def test_a_generate_that_returns_something_else_is_left_alone(
    model: LocalModel, caplog: pytest.LogCaptureFixture
) -> None:
    with GenerationRecorder(model) as recorder:
        pass
    for answered in (lambda inputs: "done", lambda inputs: inputs.flip(1).repeat(1, 2)):
        vars(model.model)["generate"] = answered
        with recorder:
            assert_same(generate(model, IDS), answered(IDS))
    assert recorder.generations == ()
    assert caplog.records == []


def test_a_generate_of_one_s_own_is_the_copy_s_too(model: LocalModel) -> None:
    vars(model.model)["generate"] = mine = lambda inputs: inputs
    with GenerationRecorder(model):
        twin = copy.deepcopy(model.model)
    assert vars(twin)["generate"] is mine


def test_a_generate_that_is_put_on_while_recording_stays(model: LocalModel) -> None:
    recorder = GenerationRecorder(model).attach()
    hooked = cast(Callable[..., Any], model.model.generate)
    vars(model.model)["generate"] = mine = lambda *args, **kwargs: hooked(*args, **kwargs)
    expected = generate(model, IDS, **SHORT)
    recorder.detach()
    assert vars(model.model)["generate"] is mine
    assert_same(generate(model, IDS, **SHORT), expected)


def changed(model: PreTrainedModel) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))


def pickled(model: PreTrainedModel) -> PreTrainedModel:
    loaded = pickle.loads(pickle.dumps(model))
    assert isinstance(loaded, PreTrainedModel)
    return loaded


def saved(model: PreTrainedModel) -> PreTrainedModel:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert isinstance(loaded, PreTrainedModel)
    return loaded


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled, saved])
def test_a_copy_generates_with_its_own_weights_unrecorded(
    duplicate: Callable[[PreTrainedModel], PreTrainedModel],
) -> None:
    expected = generate(LLAMA, IDS, **SHORT)
    with GenerationRecorder(LLAMA) as recorder:
        twin = LocalModel(duplicate(LLAMA.model), LLAMA.tokenizer)
    assert_same(generate(twin, IDS, **SHORT), expected)
    torch.manual_seed(5)
    changed(twin.model)
    assert not torch.equal(generate(twin, IDS, **SHORT), expected)
    assert_same(generate(LLAMA, IDS, **SHORT), expected)
    assert recorder.generations == ()


def test_saving_while_recording(tmp_path: Path) -> None:
    with GenerationRecorder(LLAMA):
        LLAMA.model.save_pretrained(tmp_path)
    loaded = type(LLAMA.model).from_pretrained(tmp_path)
    expected = generate(LLAMA, IDS, **SHORT)
    assert_same(generate(LocalModel(loaded, LLAMA.tokenizer), IDS, **SHORT), expected)


def test_a_dropped_recorder_leaves_the_model_and_both_can_go() -> None:
    model = build("llama")
    before = dict(vars(model.model))
    recorder = GenerationRecorder(model).attach()
    generate(model, IDS, **SHORT)
    cache = recorder.generations[0].cache
    assert cache is not None
    keys = weakref.ref(cache[0].keys)
    del recorder, cache
    gc.collect()
    assert vars(model.model) == before
    assert keys() is None
    recorder = GenerationRecorder(model).attach()
    generate(model, IDS, **SHORT)
    reference = weakref.ref(model.model)
    del model, recorder, before
    gc.collect()
    assert reference() is None
