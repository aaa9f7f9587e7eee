import asyncio
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from engines import engine_of, llm_of
from llama_index.core import Settings
from llama_index.core.llms import MockLLM
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributionPostprocessor
from llama_index.postprocessor.attribot.query_tracker import installed
from support.deprecations import no_deprecations as no_deprecations
from support.island import QUESTION as QUESTION
from support.marks import mark
from support.session_models import smollm2 as smollm2
from support.session_models import tiny as tiny
from support.summaries import EXACT, checked

from attribot_rag import LocalModel

LocalLLM = HuggingFaceLLM
Postprocessor = AttributionPostprocessor
Engines = Callable[..., Any]


def summary_of(response: Any, status: str = "complete") -> dict[str, Any]:
    return checked(response.metadata["attribution"], status)


def ids_of(response: Any) -> set[str]:
    """The ids of the documents of an attribution."""
    return {document["id"] for document in summary_of(response)["documents"]}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark(items)


@pytest.fixture(scope="session")
def llm(smollm2: LocalModel) -> LocalLLM:
    return llm_of(smollm2)


@pytest.fixture(scope="session")
def tiny_llm(tiny: LocalModel) -> LocalLLM:
    return llm_of(tiny, max_new_tokens=4)


@pytest.fixture
def postprocessor() -> Postprocessor:
    return AttributionPostprocessor(**EXACT)


@pytest.fixture
def engine_with(tiny_llm: LocalLLM, postprocessor: Postprocessor) -> Engines:
    """Engines that the postprocessor attributes, with options of their own."""
    return partial(engine_of, tiny_llm, postprocessor)


@pytest.fixture
def engine(engine_with: Engines) -> Any:
    return engine_with()


@pytest.fixture(autouse=True, scope="session")
def no_remote_model() -> None:
    """LlamaIndex asks for a model of OpenAI's where it is given none, even if it needs none."""
    Settings.llm = MockLLM()


@pytest.fixture(autouse=True)
def event_loop() -> Iterator[None]:
    """A chat engine's memory takes the thread's event loop; without any it opens one for good."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()
    asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No test may leave an entry of a span, or a callback where all engines look for theirs."""
    yield
    assert not installed()._spans and not len(installed().steps)
    assert not Settings.callback_manager.handlers
