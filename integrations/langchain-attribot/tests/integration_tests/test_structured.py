"""Answers that a hosted model gives as the arguments of a tool call; a local one reads them."""

import asyncio
import json
from collections.abc import Iterator
from operator import itemgetter
from typing import Any
from uuid import uuid4

import pytest
from chains import Given, joined, rag
from conftest import DOCUMENTS, QUESTION, Making
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage
from langchain_core.output_parsers.openai_tools import PydanticToolsParser
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, SecretStr
from support.chat_server import Body, ToolCall, chat_server
from support.island import HIGH
from support.summaries import EXACT, attribution_of, checked
from support.tiny_models import byte_level

from attribot_rag.errors import UnknownRun
from langchain_attribot import (
    AttributionCallbackHandler,
    AttributionMiddleware,
    with_attribution,
)

pytestmark = pytest.mark.enable_socket


class CitedAnswer(BaseModel):
    """The answer, and the numbers of its passages."""

    answer: str
    citations: list[int]


ANSWER = CitedAnswer(answer=HIGH, citations=[2])
TEXT = json.dumps(ANSWER.model_dump())


def called(body: Body) -> ToolCall | None:
    """The search first, then the tool that takes the answer."""
    names = [known.get("function", known)["name"] for known in body.get("tools") or ()]
    if "search" in names and body["messages"][-1]["role"] == "user":
        return "search", {"query": QUESTION}
    return ("CitedAnswer", ANSWER.model_dump()) if "CitedAnswer" in names else None


@pytest.fixture
def served() -> Iterator[tuple[ChatOpenAI, list[Body]]]:
    with chat_server(TEXT, calls=called) as (url, asked):
        yield ChatOpenAI(model="gpt-4o", base_url=f"{url}/v1", api_key=SecretStr("none")), asked


def ways(chat: ChatOpenAI) -> dict[str, Any]:
    """Runnables that have the model call a tool, and give what it was called with."""
    bound = chat.bind_tools([CitedAnswer])
    return {
        "function_calling": chat.with_structured_output(CitedAnswer, method="function_calling"),
        "json_schema": chat.with_structured_output(CitedAnswer, method="json_schema"),
        "parser": bound | PydanticToolsParser(tools=[CitedAnswer], first_tool_only=True),
        "function": bound | (lambda message: message.tool_calls[0]["args"]),
    }


@pytest.mark.filterwarnings("ignore:Pydantic serializer")  # of langchain-openai
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("way", ["function_calling", "json_schema", "parser", "function"])
def test_the_arguments_are_the_answer(
    served: Any, making: Making, way: str, *, streamed: bool
) -> None:
    chat, asked = served
    handler = making(chat, reader=byte_level(), verdicts=None)
    chain, run_id = rag(Given(documents=DOCUMENTS), ways(chat)[way]), uuid4()
    config: Any = {"callbacks": [handler], "run_id": run_id}
    given = list(chain.stream(QUESTION, config))[-1] if streamed else chain.invoke(QUESTION, config)
    assert given in (ANSWER, ANSWER.model_dump())
    run = handler.results[run_id]
    assert run is handler.last and handler.results.of_root(run_id) == (run,)
    assert json.loads(attribution_of(run).response) == ANSWER.model_dump()
    checked(run.summary)
    assert json.loads(handler.answer_without(run_id, 1).response) == ANSWER.model_dump()
    assert len(asked) == 2 and asked[0].get("tools") == asked[1].get("tools")


def test_the_raw_message_and_a_dict_of_it_carry_the_attribution(served: Any) -> None:
    chat, _ = served
    model = chat.with_structured_output(CitedAnswer, method="function_calling", include_raw=True)
    attributed = with_attribution(rag(Given(documents=DOCUMENTS), model), reader=byte_level())
    result = attributed.invoke(QUESTION)
    summary = checked(result["attribution"])
    raw = result["answer"]["raw"]
    assert raw.response_metadata["attribution"]["run_id"] == summary["run_id"]
    assert [document.id for document in result["documents"]] == ["ferry", "lighthouse"]
    told = [text for sentence in summary["sentences"] for text in [sentence["text"]]]
    assert f'"{HIGH}"' in told  # each value is a sentence
    attributed.handler.close()


@tool(response_format="content_and_artifact")
def search(query: str) -> Any:
    """Search the island's guide."""
    return joined(DOCUMENTS), list(DOCUMENTS)


@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])
@pytest.mark.parametrize("how", ["handler", "middleware"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_agents_structured_response_is_an_answer(
    served: Any, strategy: Any, how: str, *, asynchronous: bool
) -> None:
    chat, asked = served
    config: Any = {"configurable": {"thread_id": "one"}}
    attributing: Any = AttributionMiddleware(reader=byte_level(), **EXACT)
    if how == "handler":
        attributing = AttributionCallbackHandler(chat, reader=byte_level(), **EXACT)
        config["callbacks"] = [attributing]
    agent = create_agent(
        chat,
        [search],
        response_format=strategy(CitedAnswer),
        middleware=[] if how == "handler" else [attributing],
        checkpointer=InMemorySaver(),
    )
    given: Any = {"messages": [("user", QUESTION)]}
    state = (
        asyncio.run(agent.ainvoke(given, config)) if asynchronous else agent.invoke(given, config)
    )
    assert state["structured_response"] == ANSWER
    for kept in (state, agent.get_state(config).values):
        (message,) = [
            message for message in kept["messages"] if "attribution" in message.response_metadata
        ]
        summary = checked(message.response_metadata["attribution"])
        assert (summary["basis"], summary["answered_by"]) == ("reader", "gpt-4o")
    assert isinstance(message, AIMessage) and len(attributing.results) == 1
    second = attributing.answer_without(summary["run_id"], 1)
    assert json.loads(second.response) == ANSWER.model_dump()
    assert asked[-1].get("tools") == asked[-2].get("tools")
    attributing.close()


def test_calls_that_give_no_answer_are_left_alone(served: Any, making: Making) -> None:
    chat, _ = served
    handler = making(chat, reader=byte_level())
    bound = chat.bind_tools([search])
    chains = [
        rag(Given(documents=DOCUMENTS), bound),  # the caller runs the tool
        RunnablePassthrough.assign(
            message=itemgetter("question") | rag(Given(documents=DOCUMENTS), bound)
        ),
        rag(Given(documents=DOCUMENTS), bound)
        | RunnableLambda(
            lambda message: (
                search.invoke(message.tool_calls[0]["args"]) and message.tool_calls[0]["args"]
            )
        ),
    ]
    for chain in chains:
        run_id = uuid4()
        given: Any = {"question": QUESTION} if chain is chains[1] else QUESTION
        chain.invoke(given, {"callbacks": [handler], "run_id": run_id})
        with pytest.raises(UnknownRun, match="called tools"):
            handler.result(run_id)
    assert not handler.results and handler.num_open == 0
