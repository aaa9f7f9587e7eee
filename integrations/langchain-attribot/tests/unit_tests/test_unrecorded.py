"""Answers that the model was not seen to give, while it is giving another one."""

import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
import torch
from chains import ByName, rag
from conftest import chat_of
from langchain_core.caches import InMemoryCache
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable
from langchain_huggingface import ChatHuggingFace
from support.patience import scaled
from transformers import LogitsProcessor, LogitsProcessorList

from attribot_rag import LanguageModel
from langchain_attribot import AttributionCallbackHandler

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


class Held(LogitsProcessor):
    """Holds a generation until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.waits = True

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.reached.set()
        opened = self.opened.wait(scaled(60))
        self.waits = False
        assert opened
        return scores


class Unreachable(ChatHuggingFace):
    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        raise ConnectionError("the machine is busy")


@pytest.fixture
def other(tiny: LanguageModel) -> Iterator[Held]:
    """A generation of the same model that does not end before the test does."""
    held = Held()
    chat = chat_of(tiny, max_new_tokens=4).bind(
        pipeline_kwargs={"logits_processor": LogitsProcessorList([held])}
    )
    thread = threading.Thread(target=rag(ByName(), chat).invoke, args=("other",))
    thread.start()
    assert held.reached.wait(scaled(60))
    yield held
    held.opened.set()
    thread.join()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a generation waits until it has ended."""
    monkeypatch.setattr("attribot_rag.runtime.service.MATCH_TIMEOUT", 3600.0)


def from_a_cache(tiny: LanguageModel) -> Runnable[Any, Any]:
    chat = chat_of(tiny, max_new_tokens=4)
    chat.cache = InMemoryCache()
    chain = rag(ByName(), chat)
    chain.invoke("one")
    return chain


def from_a_fallback(tiny: LanguageModel) -> Runnable[Any, Any]:
    chat = chat_of(tiny)
    unreachable = Unreachable(llm=chat.llm, tokenizer=chat.tokenizer)
    return rag(ByName(), unreachable.with_fallbacks([FakeListChatModel(responses=["In 1900."])]))


@pytest.mark.parametrize("mode", ["inline", "background"])
@pytest.mark.parametrize("chain_of", [from_a_cache, from_a_fallback])
def test_nobody_waits_for_what_another_generation_says(
    tiny: LanguageModel,
    request: pytest.FixtureRequest,
    chain_of: Callable[[LanguageModel], Runnable[Any, Any]],
    mode: Any,
) -> None:
    chain = chain_of(tiny)
    other: Held = request.getfixturevalue("other")
    handler = AttributionCallbackHandler(chat_of(tiny), mode=mode, **EXACT)
    run_id = uuid4()
    message = chain.invoke("one", config={"callbacks": [handler], "run_id": run_id})
    run = handler.result(run_id, timeout=scaled(60))
    assert run.text == message.content
    assert type(run.error).__name__ == "NotRecorded"
    assert other.waits
    handler.close()
