"""Many runs at once: no document, no score and no memory of one in another."""

import asyncio
from itertools import zip_longest
from typing import Any

import pytest
from chains import ByName, rag
from conftest import AsynchronousChat, Chain, Chat, Handler, Making, chat_of, llm_of, summary_of
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


def test_the_padded_rows_of_a_pipeline_are_told_apart(tiny: LocalModel, making: Making) -> None:
    llm = llm_of(tiny, max_new_tokens=4)
    handler = making(llm)
    names = ("first", "second and longer", "third")
    rag(ByName(), llm).with_config(callbacks=[handler]).batch(names)
    runs = [*handler.results.values()]
    assert {run.documents[0].id for run in runs} == {f"document {name}" for name in names}
    for run in runs:
        attribution = attribution_of(run)
        assert not attribution.not_located and not attribution.provenance.retokenized


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


def test_runs_that_fail_or_find_nothing_leave_nothing_behind(chat: Chat, making: Making) -> None:
    handler = making(chat, max_results=3)
    chain = rag(ByName(), chat).with_config(callbacks=[handler])
    for name in ("good 1", "good 2", "good 3", "good 4"):
        check(chain.invoke(name), name)
        with pytest.raises(ConnectionError):
            chain.invoke("broken")
        assert "attribution" not in chain.invoke("nothing").response_metadata
    assert handler.num_open == 0
    assert handler.results.num_pending == 0
    assert len(handler.results) == 3
