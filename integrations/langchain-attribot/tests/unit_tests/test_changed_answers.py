"""Positions are those of the text that the caller got, or they say whose they are."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from conftest import QUESTION, Chain, Handler, Making
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from support.patience import scaled
from support.summaries import EXACT, attribution_of, checked

from langchain_attribot import citations_of, with_attribution


def check(summary: dict[str, Any], shown: str) -> None:
    """Its positions are those of this text."""
    assert checked(summary)["offsets"] == "shown"
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
def test_a_parser_s_text(chain: Chain, making: Making, change: Any, mode: Any) -> None:
    handler = making(mode=mode)
    run_id = uuid4()
    changed = chain | StrOutputParser() | RunnableLambda(change)
    shown = changed.invoke(QUESTION, {"run_id": run_id, "callbacks": [handler]})
    run = handler.result(run_id, timeout=scaled(60))
    check(run.summary, shown)
    assert run is handler.last is handler.results[run_id]
    assert attribution_of(run).response == run.text  # the model's own


def test_a_text_in_a_dict(chain: Chain, handler: Handler) -> None:
    answering = (lambda state: state["question"]) | chain | StrOutputParser() | str.upper
    assigning = RunnablePassthrough.assign(
        context=lambda _: "The ferry Kittiwake carries up to 84 passengers.", answer=answering
    )
    result = assigning.invoke({"question": QUESTION}, {"callbacks": [handler]})
    check(result["attribution"], result["answer"])


def test_a_changed_message(chain: Chain, making: Making) -> None:
    given: list[AIMessage] = []

    def changed(message: AIMessage) -> AIMessage:
        given.append(message)
        return message.model_copy(update={"content": f"Well: {message.text}"})

    message = (chain | changed).invoke(QUESTION, {"callbacks": [making(citations=True)]})
    check(message.response_metadata["attribution"], message.text)
    check(given[0].response_metadata["attribution"], given[0].text)
    assert message.response_metadata["attribution"]["start"] == len("Well: ")


@pytest.mark.parametrize("change", [len, lambda _: "Ask somebody else, dear friend."])
def test_what_is_no_text_of_the_answer(chain: Chain, change: Any) -> None:
    changed = chain | StrOutputParser() | RunnableLambda(change)
    summary = checked(with_attribution(changed, **EXACT).invoke(QUESTION)["attribution"])
    assert summary["offsets"] == "answer"
    assert "characters of the model's own answer" in summary["notes"][0]
    assert citations_of(AIMessage("?", response_metadata={"attribution": summary})) == []
