"""Positions are those of the text that the caller got, or they say whose they are."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import jsonschema
import pytest
from chains import Given, rag
from conftest import DOCUMENTS, QUESTION
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_huggingface import ChatHuggingFace
from support.patience import scaled

from attribot_rag.attribution.schema import summary_schema
from langchain_attribot import AttributionCallbackHandler, citations_of, with_attribution

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}
SCHEMA = summary_schema()


def texts_of(chat: ChatHuggingFace) -> Runnable[Any, Any]:
    return rag(Given(documents=DOCUMENTS), chat) | StrOutputParser()


def check(summary: dict[str, Any], shown: str) -> None:
    """Its positions are those of this text."""
    jsonschema.validate(summary, SCHEMA)
    assert summary["offsets"] == "shown"
    assert summary["sentences"]
    assert summary["end"] > summary["start"]
    for sentence in summary["sentences"]:
        assert shown[sentence["start"] : sentence["end"]] == sentence["text"]


CHANGES: list[Callable[[str], str]] = [
    str,
    str.upper,
    lambda text: f"\n\n{text}\n\nSources: ferry.md",
    lambda text: text[len(text) // 3 :],
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mode", ["inline", "background"])
def test_a_parser_s_text(tiny_chat: ChatHuggingFace, change: Any, mode: Any) -> None:
    handler = AttributionCallbackHandler(tiny_chat, mode=mode, **EXACT)
    run_id = uuid4()
    shown = (texts_of(tiny_chat) | RunnableLambda(change)).invoke(
        QUESTION, {"run_id": run_id, "callbacks": [handler]}
    )
    run = handler.result(run_id, timeout=scaled(60))
    check(run.summary, shown)
    assert run is handler.last is handler.results[run_id]
    assert run.attribution is not None
    assert run.attribution.response == run.text  # the model's own


def test_a_text_in_a_dict(tiny_chat: ChatHuggingFace) -> None:
    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    chain = RunnablePassthrough.assign(
        context=lambda _: "The ferry Kittiwake carries up to 84 passengers.",
        answer=(lambda given: given["question"]) | texts_of(tiny_chat) | str.upper,
    )
    result = chain.invoke({"question": QUESTION}, {"callbacks": [handler]})
    check(result["attribution"], result["answer"])


def test_a_changed_message(tiny_chat: ChatHuggingFace) -> None:
    handler = AttributionCallbackHandler(tiny_chat, citations=True, **EXACT)
    given: list[AIMessage] = []

    def changed(message: AIMessage) -> AIMessage:
        given.append(message)
        return message.model_copy(update={"content": f"Well: {message.text}"})

    chain = rag(Given(documents=DOCUMENTS), tiny_chat) | changed
    message = chain.invoke(QUESTION, {"callbacks": [handler]})
    check(message.response_metadata["attribution"], message.text)
    check(given[0].response_metadata["attribution"], given[0].text)
    assert message.response_metadata["attribution"]["start"] == len("Well: ")


@pytest.mark.parametrize("change", [len, lambda _: "Ask somebody else, dear friend."])
def test_what_is_no_text_of_the_answer(tiny_chat: ChatHuggingFace, change: Any) -> None:
    chain = with_attribution(texts_of(tiny_chat) | RunnableLambda(change), **EXACT)
    summary = chain.invoke(QUESTION)["attribution"]
    jsonschema.validate(summary, SCHEMA)
    assert (summary["status"], summary["offsets"]) == ("complete", "answer")
    assert "characters of the model's own answer" in summary["notes"][0]
    assert citations_of(AIMessage("?", response_metadata={"attribution": summary})) == []
