"""The summary that the handler attaches, and its place."""

import asyncio
import json
import logging
import warnings
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from chains import ByName, Given, joined, rag
from conftest import (
    DOCUMENTS,
    QUESTION,
    Chain,
    Chat,
    Handler,
    Making,
    chat_of,
    llm_of,
    summary_of,
)
from langchain_core.caches import InMemoryCache
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.output_parsers import BaseOutputParser, StrOutputParser
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from support.stubborn_methods import Broken
from support.summaries import EXACT, attribution_of, checked, located_ids

from attribot_rag import Attributor, LocalModel
from attribot_rag.errors import InvalidInput
from langchain_attribot import citations_of, with_attribution


def test_the_message_of_a_chain_carries_the_core_s_scores(
    tiny: LocalModel, chain: Chain, handler: Handler
) -> None:
    chain = chain.with_config(callbacks=[handler])
    attributor = Attributor(tiny, progress=False, **EXACT)
    run_id = uuid4()
    with attributor.recorder:
        message = chain.invoke(QUESTION, {"run_id": run_id})
    summary = summary_of(message)
    assert sorted(located_ids(summary)) == ["ferry", "lighthouse"]
    assert not summary["retokenized"]
    assert len(summary["sources"]) == 4
    assert (summary["start"], summary["end"]) == (0, len(message.content))
    assert any("limit of 6 tokens" in note for note in summary["notes"])
    run = handler.results[run_id]
    assert run is handler.last
    assert run.summary == summary
    assert attribution_of(run).response == message.content
    (generation,) = attributor.recorder.generations
    truth = attributor.attribute_generation(generation, DOCUMENTS)
    np.testing.assert_allclose(attribution_of(run).matrix, truth.matrix, atol=1e-4)
    assert truth.response == message.content.strip()
    message.model_dump_json()
    assert json.dumps(dumpd(message))
    json.dumps(dumpd(chain), default=str)


@pytest.mark.parametrize("parsed", [False, True])
def test_each_branch_has_its_attribution(
    tiny_chat: Chat, handler: Handler, *, parsed: bool
) -> None:
    texts = {"left": DOCUMENTS[0], "right": DOCUMENTS[1]}
    parser: Any = StrOutputParser() if parsed else RunnablePassthrough()
    branches = {
        name: rag(Given(documents=[text]), tiny_chat) | parser for name, text in texts.items()
    }
    both = RunnableParallel(branches).with_config(callbacks=[handler])
    for outputs in both.batch([QUESTION, "What costs 18 crowns?"]):
        assert list(outputs["attribution"]) == ["left", "right"]
        for name, summary in outputs["attribution"].items():
            assert located_ids(checked(summary)) == [texts[name].id]
            if not parsed:
                assert summary_of(outputs[name]) == summary
    attributed = with_attribution(RunnableParallel(branches), tiny_chat, **EXACT)
    result = attributed.invoke(QUESTION)
    assert list(result["attribution"]) == ["left", "right"]
    assert [document.id for document in result["documents"]] == ["ferry", "lighthouse"]
    attributed.handler.close()


def test_outputs_are_left_alone_if_that_is_asked_for(chain: Chain, making: Making) -> None:
    handler, run_id = making(attach=False), uuid4()
    config: Any = {"callbacks": [handler], "run_id": run_id}
    message = chain.invoke(QUESTION, config)
    assert "attribution" not in message.response_metadata
    assert attribution_of(handler.results[run_id]).response == message.content
    (run,) = handler.results.of_root(run_id)
    assert run is handler.last
    outputs = RunnableParallel(answer=chain).invoke(QUESTION, {"callbacks": [handler]})
    assert list(outputs) == ["answer"]
    pieces = list(chain.stream(QUESTION, {"callbacks": [handler]}))
    assert not any("attribution" in piece.response_metadata for piece in pieces)


@pytest.mark.parametrize("streamed", [False, True])
def test_the_same_handler_attached_twice_counts_once_and_says_so(
    chain: Chain, handler: Handler, caplog: pytest.LogCaptureFixture, *, streamed: bool
) -> None:
    config: Any = {"callbacks": [handler, handler]}
    message: Any = sum(chain.stream(QUESTION, config), AIMessageChunk("")) if streamed else None
    summary = summary_of(message or chain.invoke(QUESTION, config))
    assert sorted(located_ids(summary)) == ["ferry", "lighthouse"]
    (line,) = [line for line in caplog.messages if "attached twice" in line]
    assert "Pass it in one place" in line
    assert len(handler.results) == 1 and handler.num_open == 0


def test_the_sum_of_streamed_chunks_carries_it(chain: Chain, handler: Handler) -> None:
    pieces = list(chain.stream(QUESTION, {"callbacks": [handler]}))
    with_it = [piece for piece in pieces if "attribution" in piece.response_metadata]
    assert with_it == [pieces[-1]]
    total = sum(pieces[1:], pieces[0])
    assert not summary_of(total)["retokenized"]
    assert attribution_of(handler.last).response == total.content
    assert len(handler.results) == 1


def test_an_event_carries_it(tiny_chat: Chat, handler: Handler) -> None:
    ask = RunnableLambda(lambda prompt, config: tiny_chat.invoke(prompt, config))
    chain = rag(Given(documents=DOCUMENTS), ask).with_config(callbacks=[handler])

    async def events() -> list[Any]:
        return [event async for event in chain.astream_events(QUESTION, version="v2")]

    (event,) = [event for event in asyncio.run(events()) if event["event"] == "on_custom_event"]
    assert event["name"] == "attribution"
    checked(event["data"])


class Parsed(BaseOutputParser[dict[str, str]]):
    def parse(self, text: str) -> dict[str, str]:
        return {"text": text}


def test_a_result_without_message_is_found_by_its_run(tiny: LocalModel, making: Making) -> None:
    llm = llm_of(tiny, max_new_tokens=6)
    handler = making(llm)
    chains = [rag(ByName(), llm), rag(ByName(), chat_of(tiny)) | StrOutputParser()]
    for chain in (*chains, chains[0] | Parsed()):
        run_id = uuid4()
        result = chain.invoke("A", {"run_id": run_id, "callbacks": [handler]})
        answer = attribution_of(handler.results[run_id]).response
        assert result in (answer, {"text": answer})  # what was parsed stays as it is
        assert handler.result(str(run_id)) is handler.results[run_id]


def test_only_the_call_with_documents_is_attributed(tiny_chat: Chat, handler: Handler) -> None:
    def ask(question: str) -> list[BaseMessage]:
        condensed = tiny_chat.invoke("Condense this question, please.")
        documents = Given(documents=DOCUMENTS).invoke(question)
        rewritten = tiny_chat.invoke("Rewrite this question, please.")
        answer = tiny_chat.invoke(f"{joined(documents)}\n\n{question}")
        after = tiny_chat.invoke("Translate that into Danish.")
        return [condensed, rewritten, answer, after]

    run_id = uuid4()
    config: Any = {"callbacks": [handler], "run_id": run_id}
    condensed, rewritten, answer, after = RunnableLambda(ask).invoke(QUESTION, config)
    assert "attribution" not in condensed.response_metadata
    for other in (rewritten, after):
        assert summary_of(other, "error")["error"]["type"] == "DocumentsNotLocated"
    run = handler.results[run_id]
    assert run is handler.last
    assert attribution_of(run).response == answer.content
    assert str(run.run_id) == summary_of(answer)["run_id"]
    assert run.run_id in answer.id


def test_empty_retrieval_attaches_nothing(
    tiny_chat: Chat, handler: Handler, caplog: pytest.LogCaptureFixture
) -> None:
    message = rag(Given(documents=[]), tiny_chat).invoke(QUESTION, {"callbacks": [handler]})
    assert "attribution" not in message.response_metadata
    assert not handler.results
    records = [record for record in caplog.records if not record.name.startswith("transformers")]
    assert not records  # nothing was found, which is an answer too
    with pytest.raises(InvalidInput, match="retrieved nothing"):
        handler.result(uuid4())


def test_a_failure_of_attribution_leaves_the_answer_intact(
    chain: Chain, making: Making, caplog: pytest.LogCaptureFixture
) -> None:
    handler = making(method=Broken())
    plain = chain.invoke(QUESTION)
    with caplog.at_level(logging.WARNING):
        message = chain.invoke(QUESTION, {"callbacks": [handler]})
    assert message.content == plain.content
    assert summary_of(message, "error")["error"]["message"] == "the scorer broke"
    assert "the scorer broke" in caplog.text
    loud = making(method=Broken(), raise_error=True)
    with pytest.raises(ZeroDivisionError, match="the scorer broke"):
        chain.invoke(QUESTION, {"callbacks": [loud]})


def test_a_cached_answer_carries_no_old_attribution(tiny: LocalModel, making: Making) -> None:
    chat = chat_of(tiny, max_new_tokens=6)
    chat.cache = InMemoryCache()
    handler = making(chat)
    chain = rag(Given(documents=DOCUMENTS), chat)
    first = chain.invoke(QUESTION, {"callbacks": [handler]})
    before = first.response_metadata["attribution"]
    cached = chain.invoke(QUESTION)
    assert cached.content == first.content
    summary = summary_of(chain.invoke(QUESTION, {"callbacks": [handler]}), "error")
    assert summary["error"]["type"] == "NotRecorded"
    assert summary["run_id"] != summary_of(first)["run_id"]
    assert first.response_metadata["attribution"] is before


def test_a_handler_on_the_model_warns(tiny: LocalModel, making: Making) -> None:
    chat = chat_of(tiny, max_new_tokens=4)
    handler = making(chat)
    chat.callbacks = [handler]
    chain = rag(Given(documents=DOCUMENTS), chat)
    with pytest.warns(UserWarning, match=r"attach it to the chain.*with_config"):
        message = chain.invoke(QUESTION)
    assert "attribution" not in message.response_metadata
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chat.callbacks = None
        chain.invoke(QUESTION, {"callbacks": [handler]})


def test_citations_are_standard_annotations_and_history_keeps_working(
    tiny_chat: Chat, chain: Chain, making: Making
) -> None:
    message = chain.invoke(QUESTION, {"callbacks": [making(citations=True)]})
    assert isinstance(message.content, str)
    summary = message.response_metadata["attribution"]
    summary["sentences"] = [{"start": 0, "end": 5, "source_ids": [0], "documents": [0]}]
    (block,) = message.content_blocks
    assert (block["type"], block["text"]) == ("text", message.content)
    (citation,) = block["annotations"]
    assert citation["type"] == "citation"
    assert (citation["start_index"], citation["end_index"]) == (0, 5)
    assert citation["url"] == "https://example.org/ferry"
    assert citation["title"] == "ferry.md"
    assert citation["cited_text"].startswith("The ferry Kittiwake")
    assert citation["extras"]["document_id"] == "ferry"
    assert [citation["start_index"] for citation in citations_of(message)] == [0]
    restored = AIMessage.model_validate_json(message.model_dump_json())
    assert restored.content_blocks[0]["annotations"][0]["title"] == "ferry.md"
    tiny_chat.invoke([HumanMessage("one"), message, HumanMessage("two")])
