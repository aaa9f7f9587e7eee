"""Answers at once, attributions later."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from chains import Given, rag
from conftest import DOCUMENTS, QUESTION, Chain, Making, chat_of, summary_of
from support.patience import scaled
from support.stubborn_methods import WaitingMethod
from support.summaries import attribution_of
from support.tiny_models import endless

from attribot_rag import LocalModel


@pytest.mark.slow
def test_the_answer_comes_before_its_attribution(chain: Chain, making: Making) -> None:
    gate = WaitingMethod()
    handler = making(mode="background", method=gate)
    run_id = uuid4()
    message = chain.invoke(QUESTION, {"callbacks": [handler], "run_id": run_id})
    pending = summary_of(message, "pending")
    gate.allowed.set()
    run = asyncio.run(handler.aresult(run_id, timeout=scaled(60)))
    assert attribution_of(run).response == message.content
    assert run is handler.results[pending["run_id"]] is handler.last is handler.result(run_id)


def test_a_stopped_answer_is_attributed_as_far_as_it_was_shown(
    tiny: LocalModel, making: Making
) -> None:
    chat = chat_of(tiny, max_new_tokens=200)
    handler = making(chat, mode="background")
    run_id = uuid4()
    shown = ""
    config: Any = {"callbacks": [handler], "run_id": run_id}
    stream = rag(Given(documents=DOCUMENTS), chat).stream(QUESTION, config)
    for piece in stream:
        shown += piece.content
        if len(shown.split()) > 3:
            break
    stream.close()
    attribution = attribution_of(handler.result(run_id, timeout=scaled(120)))
    assert attribution.response == shown
    assert len(attribution.token_spans) < 100
    assert handler.num_open == 0


def test_the_model_answers_again_without_a_document(tiny: LocalModel, making: Making) -> None:
    other = chat_of(endless(tiny.tokenizer, seed=1), max_new_tokens=4)
    chat = chat_of(tiny, max_new_tokens=4)
    handler = making([other, chat], mode="background")
    run_id = uuid4()
    config: Any = {"callbacks": [handler], "run_id": run_id}
    rag(Given(documents=DOCUMENTS), chat).invoke(QUESTION, config)
    without = handler.answer_without(run_id, 1)
    expected = rag(Given(documents=DOCUMENTS[:1]), chat).invoke(QUESTION)
    assert without.response == str(expected.content).strip()
    assert without.documents == (1,)
    assert without.exact
