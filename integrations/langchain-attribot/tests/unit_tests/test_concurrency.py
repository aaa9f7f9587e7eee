"""Many runs at once: no document, no score and no memory of one in another."""

import asyncio
import gc
from uuid import UUID, uuid4

import numpy as np
import psutil
import pytest
from chains import ByName, rag
from conftest import chat_of, llm_of
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_huggingface import ChatHuggingFace

from attribot_rag import LanguageModel
from langchain_attribot import AttributionCallbackHandler

EXACT = {"method": "leave_one_out", "verdicts": None}


class InThread(ChatHuggingFace):
    """ChatHuggingFace generates asynchronously with endpoints only: here in a thread."""

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> ChatResult:
        return await asyncio.to_thread(self._generate, messages, stop)


def documents_of(summary: dict[str, object]) -> list[object]:
    assert summary["status"] == "complete", summary
    return [document["id"] for document in summary["documents"]]  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("same_answer", [False, True])
def test_a_batch_of_fifty_mixes_nothing(tiny: LanguageModel, same_answer: bool) -> None:
    settings = {"max_new_tokens": 4}
    if same_answer:  # nothing else has a chance
        settings["suppress_tokens"] = [i for i in range(tiny.vocabulary_size) if i != 1000]
    chat = chat_of(tiny, **settings)
    handler = AttributionCallbackHandler(chat, **EXACT)
    chain = rag(ByName(), chat).with_config(callbacks=[handler])
    questions = [f"number {index}" for index in range(50)]
    messages = chain.batch(questions, config={"max_concurrency": 8})
    if same_answer:
        assert len({message.content for message in messages}) == 1
    for question, message in zip(questions, messages, strict=True):
        summary = message.response_metadata["attribution"]
        assert documents_of(summary) == [f"document {question}"]
        texts = " ".join(source["text"] for source in summary["sources"])
        assert f"harbour {question} was" in texts
        run = handler.results[summary["run_id"]]
        assert run.attribution is not None
        assert run.attribution.response == message.content
    assert not handler._calls
    assert handler.num_open == 0


def test_a_batch_through_one_padded_generate_scores_what_single_calls_do(
    tiny: LanguageModel,
) -> None:
    llm = llm_of(tiny, max_new_tokens=4, batch_size=4)
    handler = AttributionCallbackHandler(llm, **EXACT)
    chain = rag(ByName(), llm).with_config(callbacks=[handler])
    questions = ["one", "number two", "the third of them", "four", "five"]
    ids = [uuid4() for _ in questions]
    together = chain.batch(questions, config=[{"run_id": run_id} for run_id in ids])
    alone = [uuid4() for _ in questions]
    for question, run_id, answer in zip(questions, alone, together, strict=True):
        assert chain.invoke(question, config={"run_id": run_id}) == answer
    for batched, single in zip(ids, alone, strict=True):
        first, second = handler.results[batched].attribution, handler.results[single].attribution
        assert first is not None and second is not None
        assert not first.provenance.retokenized
        np.testing.assert_allclose(first.matrix, second.matrix, atol=1e-3)
        assert first.documents == second.documents


def test_concurrent_asynchronous_runs_mix_nothing(tiny: LanguageModel) -> None:
    chat = InThread(llm=llm_of(tiny, max_new_tokens=4), tokenizer=tiny.tokenizer)
    handler = AttributionCallbackHandler(chat, **EXACT)
    chain = rag(ByName(), chat).with_config(callbacks=[handler])
    questions = [f"number {index}" for index in range(12)]

    async def ask() -> list[BaseMessage]:
        return await chain.abatch(questions)

    for question, message in zip(questions, asyncio.run(ask()), strict=True):
        summary = message.response_metadata["attribution"]
        assert documents_of(summary) == [f"document {question}"]


def test_a_runnable_that_asks_twice_keeps_its_documents_apart(tiny: LanguageModel) -> None:
    chat = chat_of(tiny, max_new_tokens=4)
    handler = AttributionCallbackHandler(chat, **EXACT)
    chain = rag(ByName(), chat)
    both = RunnableLambda(lambda _: [chain.invoke("first"), chain.invoke("second")])
    for name, message in zip(
        ("first", "second"), both.invoke("both", config={"callbacks": [handler]}), strict=True
    ):
        assert documents_of(message.response_metadata["attribution"]) == [f"document {name}"]


def test_a_flat_runnable_that_asks_twice_keeps_its_documents_apart(tiny: LanguageModel) -> None:
    chat = chat_of(tiny, max_new_tokens=4)
    handler = AttributionCallbackHandler(chat, **EXACT)
    retriever = ByName()

    def ask(_: str) -> list[BaseMessage]:
        answers = []
        for name in ("first", "second"):
            text = retriever.invoke(name)[0].page_content
            answers.append(chat.invoke(f"{text}\n\nWhat of {name}?"))
        return answers

    answers = RunnableLambda(ask).invoke("both", config={"callbacks": [handler]})
    for name, message in zip(("first", "second"), answers, strict=True):
        assert documents_of(message.response_metadata["attribution"]) == [f"document {name}"]


def test_two_interleaved_streams_have_their_own_documents(tiny: LanguageModel) -> None:
    chat = chat_of(tiny, max_new_tokens=4)
    handler = AttributionCallbackHandler(chat, **EXACT)
    chain = rag(ByName(), chat).with_config(callbacks=[handler])
    streams = {name: chain.stream(name) for name in ("first", "second")}
    totals: dict[str, BaseMessage] = {}
    while streams:
        for name, stream in tuple(streams.items()):
            piece = next(stream, None)
            if piece is None:
                del streams[name]
            else:
                totals[name] = totals[name] + piece if name in totals else piece
    for name, message in totals.items():
        assert documents_of(message.response_metadata["attribution"]) == [f"document {name}"]


def runs(handler: AttributionCallbackHandler, chat: ChatHuggingFace, count: int) -> int:
    """As many runs, a third of which fail or find nothing; how many were attributed."""
    chain = rag(ByName(), chat).with_config(callbacks=[handler])
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
def test_two_hundred_runs_leave_nothing_behind(tiny: LanguageModel) -> None:
    chat = chat_of(tiny, max_new_tokens=4)
    handler = AttributionCallbackHandler(chat, max_results=16, **EXACT)
    assert runs(handler, chat, 102) == 68
    gc.collect()
    before = psutil.Process().memory_info().rss
    runs(handler, chat, 102)
    gc.collect()
    after = psutil.Process().memory_info().rss
    assert after / before < 1.02
    assert handler.num_open == 0
    assert not handler._calls
    assert handler.results.num_pending == 0
    assert len(handler.results) <= 16
    left = handler._services[0].recorder.generations
    assert len(left) == 34  # the answers without any documents, bounded elsewhere


def test_a_root_that_never_ends_is_forgotten(tiny: LanguageModel) -> None:
    handler = AttributionCallbackHandler(chat_of(tiny), **EXACT)
    for index in range(3000):
        handler.on_chain_start({}, {}, run_id=UUID(int=index))
    assert handler.num_open <= 3 * 1024
