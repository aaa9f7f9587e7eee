"""Agents: the handler and the middleware, over several turns."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from agents import SearchesFirst
from chains import ByName
from conftest import Chain, Chat, Handler, chat_of, summary_of
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import BaseMessage
from langchain_core.tools import create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from support.summaries import EXACT, located_ids

from attribot_rag import LocalModel
from langchain_attribot import AttributionMiddleware

SEARCH = create_retriever_tool(
    ByName(), "search", "Finds harbours.", response_format="content_and_artifact"
)
TEXT_SEARCH = create_retriever_tool(ByName(), "search", "Finds harbours.")


@pytest.fixture
def middleware(tiny_chat: Chat) -> Iterator[AttributionMiddleware]:
    middleware = AttributionMiddleware(tiny_chat, **EXACT)
    yield middleware
    middleware.close()


@pytest.fixture
def agent(tiny_chat: Chat, middleware: AttributionMiddleware) -> Chain:
    return agent_of(tiny_chat, middleware)


def agent_of(
    chat: BaseChatModel, *middleware: AttributionMiddleware, search: Any = SEARCH, **options: Any
) -> Chain:
    return create_agent(SearchesFirst(llm=chat), [search], middleware=middleware, **options)


def input_of(question: str) -> Any:
    return {"messages": [("human", question)]}


def ask(agent: Chain, question: str, **config: Any) -> list[BaseMessage]:
    messages: list[BaseMessage] = agent.invoke(input_of(question), config)["messages"]
    return messages


def check(message: BaseMessage, *names: str) -> dict[str, Any]:
    summary = summary_of(message)
    assert sorted(located_ids(summary)) == sorted(f"document {name}" for name in names)
    return summary


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_retriever_tool_that_gives_text_alone(
    tiny_chat: Chat, middleware: AttributionMiddleware, asynchronous: bool
) -> None:
    agent = agent_of(tiny_chat, middleware, search=TEXT_SEARCH, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "one"}}
    for names in (["one"], ["one", "two"]):
        state = input_of(names[-1])
        invoked = asyncio.run(agent.ainvoke(state, config)) if asynchronous else None
        *_, result, answer = (invoked or agent.invoke(state, config))["messages"]
        check(answer, *names)
        assert [document.id for document in result.artifact] == [f"document {names[-1]}"]


def test_tools_without_documents_are_named_once(
    tiny_chat: Chat, middleware: AttributionMiddleware, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def search(query: str) -> str:
        """Finds harbours."""
        ByName().invoke("another")  # which the tool does not tell the model
        return f"The harbour {query} was built in 1900."

    agent = agent_of(tiny_chat, middleware, search=search)
    for name in ("one", "two"):
        *_, result, answer = ask(agent, name)
        assert "attribution" not in answer.response_metadata
        assert result.artifact is None  # type: ignore[attr-defined]
    (line,) = [
        record.message for record in caplog.records if record.name.startswith("langchain_attribot")
    ]
    assert "import retrieved" in line


def test_the_model_is_recorded_while_the_agent_asks_it(tiny: LocalModel) -> None:
    chat = chat_of(tiny, max_new_tokens=6)
    middleware = AttributionMiddleware(chat, mode="background", **EXACT)
    chat.invoke("Something else.")
    answer = ask(agent_of(chat, middleware), "one")[-1]
    run = middleware.results.wait(answer.response_metadata["attribution"]["run_id"], 60)
    assert run.attribution is not None
    middleware.close()


def test_a_later_answer_may_use_documents_of_earlier_turns(
    tiny_chat: Chat, middleware: AttributionMiddleware
) -> None:
    agent = agent_of(tiny_chat, middleware, checkpointer=InMemorySaver())
    thread = {"thread_id": "one"}
    check(ask(agent, "one", configurable=thread)[-1], "one")
    check(ask(agent, "two", configurable=thread)[-1], "one", "two")
    check(ask(agent, "one", configurable=thread)[-1], "one", "two")  # found twice, and one still
    check(ask(agent, "three", configurable={"thread_id": "other"})[-1], "three")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_streamed_messages_of_an_agent_end_with_it(agent: Chain, *, asynchronous: bool) -> None:
    async def streamed() -> list[Any]:
        pieces = agent.astream(input_of("one"), stream_mode="messages")
        return [piece async for piece, _ in pieces]

    pieces = [piece for piece, _ in agent.stream(input_of("one"), stream_mode="messages")]
    if asynchronous:
        pieces = asyncio.run(streamed())
    *earlier, last = pieces
    check(last, "one")
    assert last.id == earlier[-1].id and not last.text
    assert not any("attribution" in piece.response_metadata for piece in earlier)


def test_a_model_elsewhere_is_unsupported_and_the_log_names_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    remote = FakeListChatModel(responses=["It is old."])
    agent = agent_of(remote, AttributionMiddleware(**EXACT))
    for _ in range(2):
        summary = summary_of(ask(agent, "one")[-1], "not_attributable")
        assert summary["sentences"] == []
        assert summary["error"]["type"] == "UnsupportedModel"
        assert "AttributionMiddleware(llm)" in summary["error"]["message"]
    (record,) = [record for record in caplog.records if "no attribution" in record.message]
    assert "AttributionMiddleware(language_model=...)" in record.message


def test_the_model_is_found_in_the_agent_s_own_and_citations_are_shown(tiny_chat: Chat) -> None:
    middleware = AttributionMiddleware(citations=True, **EXACT)  # SearchesFirst holds its llm
    message = ask(agent_of(tiny_chat, middleware), "one")[-1]
    check(message, "one")
    assert message.response_metadata["model_provider"] == "langchain-attribot"


def test_the_handler_sees_through_an_agent_too(tiny_chat: Chat, handler: Handler) -> None:
    *earlier, answer = ask(agent_of(tiny_chat), "one", callbacks=[handler])
    check(answer, "one")
    assert not any("attribution" in message.response_metadata for message in earlier)
    assert handler.last is not None
    assert handler.last.summary["offsets"] == "shown"  # in the state's messages
    assert handler.num_open == 0
