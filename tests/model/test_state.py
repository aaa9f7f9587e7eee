"""A twin is made anew when anything changed that the model's forward pass goes by."""

import functools
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from support.implementations import NATS, generation_for, plain_scores
from support.tiny_models import architecture, unshared

from attribot_rag.model.local_model import ModelState, model_version
from attribot_rag.recording import GenerationRecorder
from attribot_rag.scoring.local_backend import LocalBackend
from attribot_rag.scoring.row import Row

GENERATION = generation_for(architecture("llama"))


def louder(module: torch.nn.Module, args: Any, output: Any) -> Any:
    return output * 1.5


def add_hook(model: Any) -> None:
    model.model.layers[0].mlp.register_forward_hook(louder)


def replace_attribute(model: Any) -> None:
    model.model.layers[1].self_attn.scaling *= 2


def replace_method(model: Any) -> None:
    mlp = model.model.layers[1].mlp
    own = mlp.forward
    mlp.forward = lambda hidden: own(hidden) * 0.5


def replace_weight(model: Any) -> None:
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.flip(0))


def replace_module(model: Any) -> None:
    model.model.layers[2].mlp = torch.nn.Identity()


CHANGES = [add_hook, replace_attribute, replace_method, replace_weight, replace_module]


@pytest.mark.parametrize("implementation", ["packed", "reference"])
@pytest.mark.parametrize("change", CHANGES)
def test_scores_are_those_of_the_model_as_it_is_now(
    change: Callable[[Any], None], implementation: str
) -> None:
    model = architecture("llama").build()
    backend = LocalBackend(model)
    row = Row.for_prompt(GENERATION.prompt_ids, len(GENERATION.prompt_ids), GENERATION)

    def scored() -> torch.Tensor:
        with torch.inference_mode():
            return backend.prefix_for(GENERATION, implementation).log_likelihoods([row])[0]

    before = scored()
    change(model)
    after = scored()
    assert (after - before).abs().max() > 10 * NATS
    plain = plain_scores(model, GENERATION.prompt_ids, GENERATION.response_ids)
    assert (after - plain).abs().max() <= NATS


def test_generating_and_scoring_change_nothing() -> None:
    model: Any = architecture("llama").build()
    before = ModelState(model)
    model.generate(torch.tensor([GENERATION.prompt_ids]), max_new_tokens=3, do_sample=False)
    LocalBackend(model).prefix_for(GENERATION)
    assert ModelState(model) == before


def test_the_version_of_a_model_does_not_keep_it_alive() -> None:
    model: Any = architecture("llama").build()
    model.forward = functools.partial(type(model).forward, model)  # which holds the model
    assert model_version(model) == model_version(model)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_another_hook_in_the_place_of_one_that_is_gone_is_noticed() -> None:
    model: Any = architecture("llama").build()
    versions = set()
    for factor in range(5):
        handle = model.model.register_forward_hook(functools.partial(print, factor))
        versions.add(model_version(model))
        handle.remove()
    assert len(versions) == 5


def test_the_state_is_read_while_recorders_come_and_go() -> None:
    """Another thread answers meanwhile; the hook of its recorder is no change."""
    language_model = unshared()
    recorder, ended = GenerationRecorder(language_model), threading.Event()

    def come_and_go() -> None:
        while not ended.is_set():
            with recorder:
                pass

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as others:
            others.submit(come_and_go)
            try:
                versions = {model_version(language_model.model) for _ in range(300)}
            finally:
                ended.set()
    finally:
        sys.setswitchinterval(before)
    assert len(versions) == 1
