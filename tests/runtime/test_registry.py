"""The services of several models."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from support.scripted_generation import ANSWER, DOCUMENTS, QUESTION, rendered, say
from support.tiny_models import byte_level

from attribot_rag.errors import InvalidInput
from attribot_rag.language_model import LanguageModel
from attribot_rag.runtime import ObservedAnswer, RunStore, ServiceRegistry

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


@pytest.fixture
def models() -> list[LanguageModel]:
    shared = byte_level()
    return [LanguageModel(copy.deepcopy(shared.model), shared.tokenizer) for _ in range(3)]


def test_each_model_has_one_service_and_all_share_the_store(models: list[LanguageModel]) -> None:
    registry = ServiceRegistry(RunStore(), **EXACT)
    services = [registry.service_for(model) for model in models]
    assert [registry.service_for(model) for model in models] == services
    assert len(set(services)) == 3
    for number, (model, service) in enumerate(zip(models, services, strict=True)):
        with service.recording():
            say(model, [rendered(model)], [ANSWER])
            answer = ObservedAnswer(ANSWER, DOCUMENTS, [QUESTION])
            service.attribute(f"run {number}", f"root {number}", answer)
    assert [run.attribution is not None for run in registry.store.values()] == [True] * 3


def test_no_more_are_kept_than_may_be(models: list[LanguageModel]) -> None:
    registry = ServiceRegistry(RunStore(), max_models=2, **EXACT)
    first, second = (registry.service_for(model) for model in models[:2])
    assert registry.service_for(models[0]) is first
    registry.service_for(models[2])
    assert len(registry) == 2
    assert registry.service_for(models[0]) is first
    assert registry.service_for(models[1]) is not second


def test_nothing_is_recorded_unasked_nor_after_closing(models: list[LanguageModel]) -> None:
    registry = ServiceRegistry(RunStore(), **EXACT)
    service = registry.service_for(models[0])
    assert "generate" not in vars(models[0].model)
    service.begin_recording()
    assert "generate" in vars(models[0].model)
    registry.close()
    assert "generate" not in vars(models[0].model)
    assert len(registry) == 0
    service.end_recording()


@pytest.mark.parametrize(
    ("making", "said"),
    [
        (lambda: ServiceRegistry(RunStore(), method="guess"), "guess"),
        (lambda: ServiceRegistry(RunStore(), keep=3), "keep=3 is for a proxy"),
        (lambda: ServiceRegistry(RunStore(), max_models=0), "max_models=0; use at least 1"),
        (lambda: ServiceRegistry(RunStore(), max_pending=0), "max_pending=0; use at least 1"),
        (lambda: ServiceRegistry(RunStore(), mode="on"), "mode='on'; choose"),  # type: ignore[arg-type]
        (lambda: ServiceRegistry(RunStore(), budgte=1), "mean 'budget'"),  # type: ignore[call-arg]
        (lambda: RunStore(0), "max_results=0; use at least 1"),
    ],
)
def test_bad_options_are_refused_before_any_model_is_there(
    making: Callable[[], object], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        making()
