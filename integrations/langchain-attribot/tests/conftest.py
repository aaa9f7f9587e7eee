import asyncio
import inspect
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chains import Given, rag
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable
from langchain_huggingface import ChatHuggingFace, HuggingFacePipeline
from support.deprecations import no_deprecations as no_deprecations
from support.marks import mark
from support.summaries import EXACT, checked
from support.tiny_models import endless, smollm2_tokenizer
from transformers import pipeline

from attribot_rag import LanguageModel, load_model
from langchain_attribot import AttributionCallbackHandler

DOCUMENTS = (
    Document(
        page_content="The ferry Kittiwake carries up to 84 passengers. "
        "A single ticket costs 18 crowns.",
        metadata={"source": "ferry.md", "url": "https://example.org/ferry"},
        id="ferry",
    ),
    Document(
        page_content="The lighthouse is 38 metres high. "
        "Its lamp was lit for the first time in 1844.",
        metadata={"source": "lighthouse.md", "page": 3},
        id="lighthouse",
    ),
)
QUESTION = "How high is the lighthouse?"

Chain = Runnable[Any, Any]
Handler = AttributionCallbackHandler
Making = Callable[..., Handler]


def llm_of(language_model: LanguageModel, **options: Any) -> HuggingFacePipeline:
    """A LangChain model on a local pipeline, greedy and without the prompt in its answers."""
    settings = {"max_new_tokens": 16, "do_sample": False, "return_full_text": False, **options}
    batch_size = settings.pop("batch_size", 4)
    made = pipeline(
        "text-generation",
        model=language_model.model,
        tokenizer=language_model.tokenizer,
        **settings,
    )
    return HuggingFacePipeline(pipeline=made, batch_size=batch_size)


def chat_of(
    language_model: LanguageModel, kind: type[ChatHuggingFace] = ChatHuggingFace, **options: Any
) -> ChatHuggingFace:
    return kind(llm=llm_of(language_model, **options), tokenizer=language_model.tokenizer)


class AsynchronousChat(ChatHuggingFace):
    """Upstream generates and streams asynchronously from endpoints only."""

    async def _agenerate(self, messages: Any, stop: Any = None, *_: Any, **__: Any) -> ChatResult:
        return await asyncio.to_thread(self._generate, messages, stop)

    async def _astream(self, messages: Any, stop: Any = None, *_: Any, **__: Any) -> Any:
        for chunk in self._stream(messages, stop):
            yield chunk


def summary_of(message: BaseMessage, status: str = "complete") -> dict[str, Any]:
    return checked(message.response_metadata["attribution"], status)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine, which some of LangChain's standard tests are."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in arguments}))
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark(items)


@pytest.fixture(scope="session")
def smollm2() -> LanguageModel:
    """The embedded model: real weights, offline."""
    return load_model()


@pytest.fixture(scope="session")
def tiny() -> LanguageModel:
    """Random weights, and the tokenizer and the chat template of the embedded model."""
    return endless(smollm2_tokenizer())


@pytest.fixture(scope="session")
def chat(smollm2: LanguageModel) -> ChatHuggingFace:
    return chat_of(smollm2)


@pytest.fixture(scope="session")
def tiny_chat(tiny: LanguageModel) -> ChatHuggingFace:
    return chat_of(tiny, max_new_tokens=6)


@pytest.fixture
def chain(tiny_chat: ChatHuggingFace) -> Chain:
    """Answers from both documents."""
    return rag(Given(documents=DOCUMENTS), tiny_chat)


@pytest.fixture
def making(tiny_chat: ChatHuggingFace) -> Iterator[Making]:
    """Handlers with options of their own, exact ones; all are closed at the end."""
    handlers: list[Handler] = []

    def make(llm: Any = tiny_chat, **options: Any) -> Handler:
        handlers.append(AttributionCallbackHandler(llm, **{**EXACT, **options}))
        return handlers[-1]

    yield make
    for handler in handlers:
        handler.close()


@pytest.fixture
def handler(making: Making) -> Handler:
    return making()
