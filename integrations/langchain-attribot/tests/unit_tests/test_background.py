"""Answers at once, attributions later."""

import asyncio
import threading
from typing import Any
from uuid import uuid4

import jsonschema
import pytest
from chains import Given, rag
from conftest import DOCUMENTS, QUESTION, chat_of
from langchain_huggingface import ChatHuggingFace
from support.patience import scaled
from support.tiny_models import endless

from attribot_rag import LanguageModel, LeaveOneOut
from attribot_rag.attribution.schema import summary_schema
from attribot_rag.errors import InvalidInput, NotRecorded
from langchain_attribot import AttributedRun, AttributionCallbackHandler

EXACT = {"method": "leave_one_out", "verdicts": None}


class Held(LeaveOneOut):
    """Waits until it is let go."""

    def __init__(self) -> None:
        object.__setattr__(self, "go", threading.Event())

    def run(self, scorer):  # type: ignore[no-untyped-def]
        assert self.go.wait(scaled(60))
        return super().run(scorer)


def background(chat: ChatHuggingFace, **options: Any) -> AttributionCallbackHandler:
    return AttributionCallbackHandler(chat, mode="background", **{**EXACT, **options})


@pytest.mark.slow
def test_the_answer_comes_before_its_attribution(tiny_chat: ChatHuggingFace) -> None:
    gate = Held()
    runs: list[AttributedRun] = []
    handler = background(tiny_chat, method=gate, on_result=runs.append)
    chain = rag(Given(documents=DOCUMENTS), tiny_chat).with_config(callbacks=[handler])
    run_id = uuid4()
    message = chain.invoke(QUESTION, config={"run_id": run_id})
    pending = message.response_metadata["attribution"]
    assert pending["status"] == "pending"
    jsonschema.validate(pending, summary_schema())
    assert handler.results[run_id].summary == pending
    assert handler.results[run_id].attribution is None
    with pytest.raises(TimeoutError):
        handler.result(run_id, timeout=0.05)
    gate.go.set()
    run = handler.result(run_id, timeout=scaled(60))
    assert run.attribution is not None
    assert run.attribution.response == message.content
    assert run is handler.results[pending["run_id"]] is handler.last
    assert runs == [run]
    assert handler.results.num_pending == 0


def test_it_can_be_awaited(tiny_chat: ChatHuggingFace) -> None:
    gate = Held()
    handler = background(tiny_chat, method=gate)
    chain = rag(Given(documents=DOCUMENTS), tiny_chat).with_config(callbacks=[handler])

    async def ask() -> AttributedRun:
        run_id = uuid4()
        await asyncio.to_thread(chain.invoke, QUESTION, {"run_id": run_id})
        waiting = asyncio.create_task(handler.aresult(run_id))
        await asyncio.sleep(0)  # the loop goes on meanwhile
        assert not waiting.done()
        with pytest.raises(TimeoutError):
            await handler.aresult(run_id, timeout=0.05)
        gate.go.set()
        found = await waiting
        assert await handler.aresult(run_id) is found
        with pytest.raises(InvalidInput, match="no attribution of the run"):
            await handler.aresult(uuid4())
        return found

    assert asyncio.run(ask()).attribution is not None


def test_a_streamed_answer_is_attributed_after_its_last_chunk(
    tiny_chat: ChatHuggingFace,
) -> None:
    handler = background(tiny_chat)
    run_id = uuid4()
    chain = rag(Given(documents=DOCUMENTS), tiny_chat).with_config(callbacks=[handler])
    pieces = list(chain.stream(QUESTION, config={"run_id": run_id}))
    assert pieces[-1].response_metadata["attribution"]["status"] == "pending"
    attribution = handler.result(run_id, timeout=scaled(60)).attribution
    assert attribution is not None
    assert attribution.response == "".join(piece.content for piece in pieces)
    assert not attribution.provenance.retokenized


def test_a_stopped_answer_is_attributed_as_far_as_it_was_shown(tiny: LanguageModel) -> None:
    chat = chat_of(tiny, max_new_tokens=200)
    handler = background(chat)
    run_id = uuid4()
    chain = rag(Given(documents=DOCUMENTS), chat).with_config(callbacks=[handler])
    shown = ""
    stream = chain.stream(QUESTION, config={"run_id": run_id})
    for piece in stream:
        shown += piece.content
        if len(shown.split()) > 3:
            break
    stream.close()
    attribution = handler.result(run_id, timeout=scaled(120)).attribution
    assert attribution is not None
    assert attribution.response == shown
    assert len(attribution.token_spans) < 100
    assert not handler._calls
    assert handler.num_open == 0


def test_what_goes_wrong_later_is_told_too(
    tiny_chat: ChatHuggingFace, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(run: AttributedRun) -> None:
        raise OSError("the page is gone")

    handler = background(tiny_chat, on_result=broken)
    run_id = uuid4()
    config: Any = {"run_id": run_id, "callbacks": [handler]}
    rag(Given(documents=DOCUMENTS), tiny_chat).invoke(QUESTION, config=config)
    assert handler.result(run_id, timeout=scaled(60)).attribution is not None
    assert "the page is gone" in caplog.text


def test_the_model_answers_again_without_a_document(tiny: LanguageModel) -> None:
    other = chat_of(endless(tiny.tokenizer, seed=1), max_new_tokens=4)
    chat = chat_of(tiny, max_new_tokens=4)
    handler = AttributionCallbackHandler([other, chat], mode="background", **EXACT)
    run_id = uuid4()
    config: Any = {"callbacks": [handler], "run_id": run_id}
    rag(Given(documents=DOCUMENTS), chat).invoke(QUESTION, config=config)
    without = handler.answer_without(run_id, 1)
    expected = rag(Given(documents=DOCUMENTS[:1]), chat).invoke(QUESTION)
    assert without.response == str(expected.content).strip()
    assert without.documents == (1,)
    assert without.exact


def test_an_answer_without_attribution_is_not_given_again(tiny_chat: ChatHuggingFace) -> None:
    class Broken(LeaveOneOut):
        def run(self, scorer):  # type: ignore[no-untyped-def]
            raise ZeroDivisionError("the scorer broke")

    handler = background(tiny_chat, method=Broken())
    run_id = uuid4()
    config: Any = {"callbacks": [handler], "run_id": run_id}
    rag(Given(documents=DOCUMENTS), tiny_chat).invoke(QUESTION, config=config)
    with pytest.raises(NotRecorded, match="has no attribution: the scorer broke"):
        handler.answer_without(run_id, 0)
