"""Scoring and generating at once on one model: neither may notice the other."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from support.patience import scaled
from support.scripted_generation import ANSWER, DOCUMENTS, generate, messages, rendered
from support.tiny_models import build, byte_level
from transformers import PreTrainedModel

from attribot_rag import Attribution, Attributor, LocalModel


@contextmanager
def repeating(function: Callable[[], Any]) -> Iterator[list[Any]]:
    """Calls a function without pause in another thread; gives the list of its results."""
    results: list[Any] = []
    started, stop = threading.Event(), threading.Event()

    def run() -> None:
        while not stop.is_set():
            started.set()
            results.append(function())

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        assert started.wait(scaled(60))
        try:
            yield results
        finally:
            stop.set()
    running.result()


def attributor_of(model: LocalModel) -> Attributor:
    """Exact, so that scores of all sources can be compared; `auto` decides which are scored."""
    return Attributor(model, method="leave_one_out", progress=False)


@pytest.mark.parametrize(
    ("name", "record"),
    [
        (None, False),
        (None, True),
        ("mistral_sliding_window", False),
        ("gemma2", False),
        ("bloom", False),
    ],
)
def test_a_model_generates_and_is_scored(name: str | None, record: bool) -> None:
    run_at_once(build(name) if name else byte_level(), times=15, max_new_tokens=15, record=record)


@pytest.mark.long
@pytest.mark.slow
def test_the_real_model_generates_and_is_scored(smollm2: LocalModel) -> None:
    run_at_once(smollm2, times=2, max_new_tokens=12, record=False)


def run_at_once(model: LocalModel, *, times: int, max_new_tokens: int, record: bool) -> None:
    attributor = attributor_of(model)
    documents = DOCUMENTS[:2]
    prompt = messages(documents) if model.tokenizer.chat_template else rendered(model, documents)
    inputs = torch.tensor([model.encode_prompt(prompt)])
    options = {"attention_mask": torch.ones_like(inputs), "do_sample": False}

    def answer() -> list[int]:
        sequences = generate(model, inputs, max_new_tokens=max_new_tokens, **options)
        return [int(token_id) for token_id in sequences[0]]

    def score() -> Attribution:
        return attributor.attribute(prompt, ANSWER[:21], documents)

    alone, scores_alone = answer(), score()
    if record:
        attributor.recorder.attach()
    try:
        with repeating(score) as scored:
            answers = [answer() for _ in range(times)]
    finally:
        attributor.recorder.detach()
    assert answers == [alone] * times
    assert scored
    for attribution in scored:
        assert abs(attribution.matrix - scores_alone.matrix).max() < 1e-3
        assert attribution.provenance.implementation == scores_alone.provenance.implementation


def test_scoring_with_two_attributors_at_once() -> None:
    model = byte_level()
    attributors = [attributor_of(model) for _ in range(2)]
    alone = attributors[0].attribute(messages(), ANSWER, DOCUMENTS)

    def score() -> Attribution:
        return attributors[0].attribute(messages(), ANSWER, DOCUMENTS)

    with repeating(score) as theirs:
        mine = [attributors[1].attribute(messages(), ANSWER, DOCUMENTS) for _ in range(10)]
    for attribution in (*mine, *theirs):
        assert abs(attribution.matrix - alone.matrix).max() < 1e-3


def test_the_caller_s_tokenizer_may_be_in_use() -> None:
    """Encoding text with its special tokens split up must not reach the caller's own encoding."""
    model = byte_level()
    text = rendered(model) * 5
    expected = model.tokenizer(text)["input_ids"]
    with repeating(lambda: model.encode("<|im_start|> is text " * 40)) as encoded:
        encodings = [model.tokenizer(text)["input_ids"] for _ in range(1500)]
    assert all(ids == expected for ids in encodings)
    assert len(set(encoded)) == 1


def state_of(model: PreTrainedModel) -> dict[str, Any]:
    """Everything that scoring or recording might change in a model and its modules."""
    modules = dict(model.named_modules())
    hooks = [name for name in vars(model) if name.endswith(("_hooks", "_hooks_with_kwargs"))]
    assert "_forward_hooks" in hooks
    assert "_forward_pre_hooks" in hooks
    return {
        "attributes": {name: sorted(vars(module)) for name, module in modules.items()},
        "attention": {
            name: module.config._attn_implementation
            for name, module in modules.items()
            if hasattr(module, "config")
        },
        "configuration": model.config.to_json_string(use_diff=False),
        "generation": model.generation_config and model.generation_config.to_json_string(),
        "own methods": {
            name: {key: id(value) for key, value in vars(module).items() if callable(value)}
            for name, module in modules.items()
        },
        "hooks": {
            (name, hook): list(getattr(module, hook))
            for name, module in modules.items()
            for hook in hooks
        },
        "training": {name: module.training for name, module in modules.items()},
        "gradients": {
            name: (parameter.requires_grad, parameter.grad is None)
            for name, parameter in model.named_parameters()
        },
        "tensors": {
            name: (id(tensor), tensor.data_ptr(), tensor._version)
            for name, tensor in (*model.named_parameters(), *model.named_buffers())
        },
    }


@pytest.mark.parametrize("name", ["llama", "gemma2", "phi3_longrope", "bloom", "mamba", "mixtral"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("attention", [None, "eager"])
@pytest.mark.parametrize("method", ["auto", "leave_one_out"])
def test_the_model_is_left_as_it_was(
    name: str, training: bool, attention: str | None, method: str
) -> None:
    model = build(name)
    if attention is not None:
        model.model.set_attn_implementation(attention)
    model.model.train(training)
    frozen, *_ = model.model.parameters()
    frozen.requires_grad_(False)
    attributor = Attributor(model, method=method, progress=False)
    document = "The treaty was signed. It was old."
    inputs = torch.tensor([model.encode(f"{document} Where?")])
    # The first call of some models makes attributes and buffers of their own.
    generate(model, inputs, max_new_tokens=3, do_sample=False, eos_token_id=None)
    before = state_of(model.model)
    attributor.attribute(f"{document} Where?", "In town.", [document])
    assert state_of(model.model) == before
    with attributor.recorder as recorder:
        generate(model, inputs, max_new_tokens=3, do_sample=False, eos_token_id=None)
    after_recording = state_of(model.model)
    buffers = {name for name, _ in model.model.named_buffers()}
    for key, state in after_recording.items():
        if key == "tensors":  # rotary embeddings write their buffers whenever they generate
            assert {name: state[name] for name in state.keys() - buffers} == {
                name: before[key][name] for name in before[key].keys() - buffers
            }
        else:
            assert state == before[key]
    attributor.attribute_generation(recorder.generations[-1], [document])
    assert state_of(model.model) == after_recording


def test_scores_of_a_model_in_training_are_those_in_evaluation() -> None:
    model = build("gpt2")
    document = "The treaty was signed. It was old."
    expected = attributor_of(model).attribute(f"{document} Where?", "In town.", [document])
    assert model.model.config.resid_pdrop > 0
    model.model.train()
    attributor = attributor_of(model)
    with attributor.recorder:
        inputs = torch.tensor([model.encode(f"{document} Where?")])
        torch.manual_seed(0)
        generate(model, inputs, max_new_tokens=4, do_sample=False)
    attribution = attributor.attribute(f"{document} Where?", "In town.", [document])
    assert abs(attribution.matrix - expected.matrix).max() < 1e-4
    recorded = attributor.recorder.generations[0]
    again = attributor.attribute_generation(recorded, [document])
    truth = attributor.attribute_generation(recorded.without_cache(), [document])
    assert abs(again.matrix - truth.matrix).max() < 1e-4
