import asyncio
import copy
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
from support.island import FERRY, LIGHTHOUSE
from support.island import QUESTION as QUESTION
from support.marks import mark
from support.session_models import smollm2 as smollm2
from support.session_models import tiny as tiny
from support.summaries import EXACT, checked
from transformers import pipeline

from attribot_rag import LocalModel
from langchain_attribot import AttributionCallbackHandler

DOCUMENTS = (
    Document(
        FERRY, id="ferry", metadata={"source": "ferry.md", "url": "https://example.org/ferry"}
    ),
    Document(LIGHTHOUSE, id="lighthouse", metadata={"source": "lighthouse.md", "page": 3}),
)

Chain = Runnable[Any, Any]
Chat = ChatHuggingFace
Handler = AttributionCallbackHandler
Making = Callable[..., Handler]


def llm_of(language_model: LocalModel, **options: Any) -> HuggingFacePipeline:
    """A LangChain model on a local pipeline, greedy and without the prompt in its answers."""
    settings = {"max_new_tokens": 16, "do_sample": False, "return_full_text": False, **options}
    model, tokenizer = language_model.model, language_model.tokenizer
    made = pipeline("text-generation", model=model, tokenizer=tokenizer, **settings)
    return HuggingFacePipeline(pipeline=made, batch_size=4)


def chat_of(
    language_model: LocalModel, kind: type[ChatHuggingFace] = ChatHuggingFace, **options: Any
) -> Chat:
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark(items)


@pytest.fixture(scope="session")
def chat(smollm2: LocalModel) -> Chat:
    return chat_of(smollm2)


@pytest.fixture(scope="session")
def tiny_chat(tiny: LocalModel) -> Chat:
    return chat_of(tiny, max_new_tokens=6)


@pytest.fixture(scope="session")
def chats(tiny: LocalModel) -> list[Chat]:
    """Two models, each of which answers with a number of tokens of its own."""
    other = LocalModel(copy.deepcopy(tiny.model), tiny.tokenizer)
    return [chat_of(tiny, max_new_tokens=5), chat_of(other, max_new_tokens=6)]


@pytest.fixture
def chain(tiny_chat: Chat) -> Chain:
    """Answers from both documents."""
    return rag(Given(documents=DOCUMENTS), tiny_chat)


@pytest.fixture
def making(tiny_chat: Chat) -> Iterator[Making]:
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
