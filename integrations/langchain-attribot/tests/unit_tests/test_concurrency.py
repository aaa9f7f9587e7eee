"""Many runs at once: no document, no score and no memory of one in another."""

import asyncio
import gc
from itertools import zip_longest
from typing import Any
from uuid import UUID

import psutil
import pytest
from chains import ByName, rag
from conftest import AsynchronousChat, Chain, Chat, Handler, Making, chat_of, summary_of
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda
from support.summaries import attribution_of, located_ids

from attribot_rag import LocalModel


@pytest.fixture(scope="module")
def chat(tiny: LocalModel) -> Chat:
    return chat_of(tiny, AsynchronousChat, max_new_tokens=4)


@pytest.fixture
def handler(chat: Chat, making: Making) -> Handler:
    return making(chat)


@pytest.fixture
def chain(chat: Chat) -> Chain:
    return rag(ByName(), chat)


def check(message: BaseMessage, name: str) -> None:
    assert located_ids(summary_of(message)) == [f"document {name}"]


@pytest.mark.slow
def test_a_batch_of_fifty_mixes_nothing(tiny: LocalModel, making: Making) -> None:
    # Always the same words: the answer alone tells no run from another.
    suppressed = [token for token in range(tiny.vocabulary_size) if token != 1000]
    chat = chat_of(tiny, max_new_tokens=4, suppress_tokens=suppressed)
    handler = making(chat)
    questions = [f"number {index}" for index in range(50)]
    config: Any = {"callbacks": [handler], "max_concurrency": 8}
    messages = rag(ByName(), chat).batch(questions, config)
    assert len({message.content for message in messages}) == 1
    for question, message in zip(questions, messages, strict=True):
        check(message, question)
        summary = message.response_metadata["attribution"]
        texts = " ".join(source["text"] for source in summary["sources"])
        assert f"harbour {question} was" in texts
        assert attribution_of(handler.results[summary["run_id"]]).response == message.content
    assert handler.num_open == 0


def test_concurrent_asynchronous_runs_mix_nothing(chain: Chain, handler: Handler) -> None:
    questions = [f"number {index}" for index in range(12)]

    async def ask() -> list[BaseMessage]:
        return await chain.abatch(questions, {"callbacks": [handler]})

    for question, message in zip(questions, asyncio.run(ask()), strict=True):
        check(message, question)


@pytest.mark.parametrize("flat", [False, True])
def test_a_runnable_that_asks_twice_keeps_its_documents_apart(
    chat: Chat, chain: Chain, handler: Handler, flat: bool
) -> None:
    def ask(name: str) -> BaseMessage:
        if not flat:
            return chain.invoke(name)
        text = ByName().invoke(name)[0].page_content
        return chat.invoke(f"{text}\n\nWhat of {name}?")

    both = RunnableLambda(lambda names: [ask(name) for name in names])
    names = ("first", "second")
    for name, message in zip(names, both.invoke(names, {"callbacks": [handler]}), strict=True):
        check(message, name)


def test_two_interleaved_streams_have_their_own_documents(chain: Chain, handler: Handler) -> None:
    names = ("first", "second")
    streams = [chain.stream(name, {"callbacks": [handler]}) for name in names]
    rounds = list(zip_longest(*streams))  # a piece of each in turn
    for index, name in enumerate(names):
        first, *later = [pieces[index] for pieces in rounds if pieces[index] is not None]
        check(sum(later, first), name)


def runs(chain: Chain, count: int) -> int:
    """As many runs, a third of which fail or find nothing; how many were attributed."""
    attributed = 0
    for index in range(count):
        kind = ("broken", "good", "good", "nothing", "good", "good")[index % 6]
        try:
            message = chain.invoke(f"{kind} {index}")
        except ConnectionError:
            continue
        attributed += "attribution" in message.response_metadata
    return attributed


@pytest.mark.slow
def test_two_hundred_runs_leave_nothing_behind(chat: Chat, chain: Chain, making: Making) -> None:
    handler = making(chat, max_results=16)
    observed = chain.with_config(callbacks=[handler])
    assert runs(observed, 102) == 68
    gc.collect()
    before = psutil.Process().memory_info().rss
    runs(observed, 102)
    gc.collect()
    after = psutil.Process().memory_info().rss
    assert after / before < 1.02
    assert handler.num_open == 0
    assert handler.results.num_pending == 0
    assert len(handler.results) <= 16


def test_a_root_that_never_ends_is_forgotten(handler: Handler) -> None:
    for index in range(3000):
        handler.on_chain_start({}, {}, run_id=UUID(int=index))
    assert handler.num_open <= 3 * 1024
