"""The services of several models."""

from collections.abc import Callable

import pytest
from support.scripted_generation import ANSWER, DOCUMENTS, QUESTION, rendered, say
from support.summaries import EXACT
from support.tiny_models import unshared

from attribot_rag.errors import InvalidInput
from attribot_rag.model.local_model import LocalModel
from attribot_rag.runtime import (
    Answer,
    AttributionService,
    RunStore,
    ServiceRegistry,
)
from attribot_rag.runtime.service import service_that_saw


@pytest.fixture
def models() -> list[LocalModel]:
    return [unshared() for _ in range(3)]


def test_each_model_has_one_service_and_all_share_the_store(models: list[LocalModel]) -> None:
    registry = ServiceRegistry(RunStore(), **EXACT)
    services = [registry.service_for(model) for model in models]
    assert [registry.service_for(model) for model in models] == services
    assert len(set(services)) == 3
    for number, (model, service) in enumerate(zip(models, services, strict=True)):
        with service.recording():
            say(model, [rendered(model)], [ANSWER])
            answer = Answer(ANSWER, DOCUMENTS, [QUESTION])
            service.attribute(f"run {number}", f"root {number}", answer)
    assert [run.attribution is not None for run in registry.store.values()] == [True] * 3


def test_the_services_of_the_last_four_models_are_kept(models: list[LocalModel]) -> None:
    registry = ServiceRegistry(RunStore(), **EXACT)
    every = [*models, unshared(), unshared()]
    services = [registry.service_for(model) for model in every]
    assert list(registry.services) == services[1:]
    assert registry.service_for(every[1]) is services[1]
    assert registry.service_for(every[0]) is not services[0]


def test_nothing_is_recorded_unasked_nor_after_closing(models: list[LocalModel]) -> None:
    registry = ServiceRegistry(RunStore(), **EXACT)
    service = registry.service_for(models[0])
    assert "generate" not in vars(models[0].model)
    service.begin_recording()
    assert "generate" in vars(models[0].model)
    registry.close()
    assert "generate" not in vars(models[0].model)
    assert not registry.services
    service.end_recording()


@pytest.mark.parametrize(
    ("making", "message"),
    [
        (lambda: ServiceRegistry(RunStore(), method="guess"), "guess"),
        (lambda: ServiceRegistry(RunStore(), keep=3), "keep=3 is for a proxy"),
        (lambda: RunStore(0), "max_results=0; use at least 1"),
    ],
)
def test_bad_options_are_refused_before_any_model_is_there(
    making: Callable[[], object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        making()


def answer_of(text: str) -> Answer:
    return Answer(text, DOCUMENTS, [QUESTION])


def test_the_service_of_the_model_that_answered_is_chosen(models: list[LocalModel]) -> None:
    services = [AttributionService(model, **EXACT) for model in models]
    for model, text in zip(models, ("One.", "Two.", "Three."), strict=True):
        say(model, [rendered(model)], [text])
    for text, service in zip(("One.", "Two.", "Three."), services, strict=True):
        chosen, matched = service_that_saw(services, answer_of(text))
        assert chosen is service
        assert matched.transcript is not None
    for text in ("Four.", " "):
        assert service_that_saw(services, answer_of(text))[0] is services[0]
