"""Agents: the handler and the middleware, over several turns."""

import asyncio
from collections.abc import Sequence
from typing import Any

import jsonschema
import pytest
from agents import SearchesFirst
from chains import ByName, joined
from conftest import chat_of
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import create_retriever_tool, tool
from langchain_huggingface import ChatHuggingFace
from langgraph.checkpoint.memory import InMemorySaver

from attribot_rag import LanguageModel
from attribot_rag.attribution.schema import summary_schema
from langchain_attribot import AttributionCallbackHandler, AttributionMiddleware

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


def agent_of(
    chat: ChatHuggingFace, middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (), **options: Any
) -> Runnable[Any, Any]:
    search = create_retriever_tool(
        ByName(), "search", "Finds harbours.", response_format="content_and_artifact"
    )
    return create_agent(SearchesFirst(llm=chat), [search], middleware=middleware, **options)


def ask(agent: Runnable[Any, Any], question: str, **config: Any) -> list[BaseMessage]:
    state = {"messages": [("human", question)]}
    messages: list[BaseMessage] = agent.invoke(state, config=config)["messages"]
    return messages


def check(message: BaseMessage, *names: str) -> dict[str, Any]:
    summary: dict[str, Any] = message.response_metadata["attribution"]
    assert summary["status"] == "complete", summary
    assert {document["id"] for document in summary["documents"]} == {
        f"document {name}" for name in names
    }
    assert all(document["located"] for document in summary["documents"])
    return summary


@pytest.mark.slow
def test_the_middleware_attributes_the_answer_and_no_tool_call(
    tiny_chat: ChatHuggingFace,
) -> None:
    middleware = AttributionMiddleware(tiny_chat, **EXACT)
    messages = ask(agent_of(tiny_chat, [middleware]), "one")
    summary = check(messages[-1], "one")
    assert not any("attribution" in message.response_metadata for message in messages[:-1])
    (run,) = middleware.results.values()
    assert str(run.run_id) == summary["run_id"]
    assert summary["run_id"] in str(messages[-1].id)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_retriever_tool_that_gives_text_alone(
    tiny_chat: ChatHuggingFace, asynchronous: bool
) -> None:
    search = create_retriever_tool(ByName(), "search", "Finds harbours.")
    middleware = AttributionMiddleware(tiny_chat, **EXACT)
    agent = create_agent(
        SearchesFirst(llm=tiny_chat),
        [search],
        middleware=[middleware],
        checkpointer=InMemorySaver(),
    )
    for names in (["one"], ["one", "two"]):
        state: Any = {"messages": [("human", names[-1])]}
        config: Any = {"configurable": {"thread_id": "one"}}
        invoked = asyncio.run(agent.ainvoke(state, config)) if asynchronous else None
        messages = (invoked or agent.invoke(state, config))["messages"]
        check(messages[-1], *names)
        assert [document.id for document in messages[-2].artifact] == [f"document {names[-1]}"]


def test_tools_without_documents_are_named_once(
    tiny_chat: ChatHuggingFace, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def search(query: str) -> str:
        """Finds harbours."""
        ByName().invoke("another")  # which the tool does not tell the model
        return f"The harbour {query} was built in 1900."

    middleware = AttributionMiddleware(tiny_chat, **EXACT)
    agent = create_agent(SearchesFirst(llm=tiny_chat), [search], middleware=[middleware])
    for name in ("one", "two"):
        messages = ask(agent, name)
        assert "attribution" not in messages[-1].response_metadata
        assert messages[-2].artifact is None  # type: ignore[attr-defined]
    (line,) = [
        record.message for record in caplog.records if record.name.startswith("langchain_attribot")
    ]
    assert "import retrieved" in line


def test_the_model_is_recorded_while_the_agent_asks_it(tiny: LanguageModel) -> None:
    chat = chat_of(tiny, max_new_tokens=6)
    for mode in ("inline", "background"):
        middleware = AttributionMiddleware(chat, mode=mode, **EXACT)
        chat.invoke("Something else.")
        answer = ask(agent_of(chat, [middleware]), "one")[-1]
        run = middleware.results.wait(answer.response_metadata["attribution"]["run_id"], 60)
        assert run.attribution is not None
        assert middleware._service(chat).recorder.generations == ()  # type: ignore[union-attr]
        middleware.close()


def test_earlier_turns_retrieved_what_a_later_answer_may_use(tiny_chat: ChatHuggingFace) -> None:
    middleware = AttributionMiddleware(tiny_chat, **EXACT)
    agent = agent_of(tiny_chat, [middleware], checkpointer=InMemorySaver())
    thread = {"thread_id": "one"}
    check(ask(agent, "one", configurable=thread)[-1], "one")
    check(ask(agent, "two", configurable=thread)[-1], "one", "two")
    summary = check(ask(agent, "one", configurable=thread)[-1], "one", "two")
    assert len(summary["documents"]) == 2  # found twice, and one document still
    check(ask(agent, "three", configurable={"thread_id": "other"})[-1], "three")


def test_the_middleware_works_asynchronously(tiny_chat: ChatHuggingFace) -> None:
    agent = agent_of(tiny_chat, [AttributionMiddleware(tiny_chat, **EXACT)])

    async def both() -> list[Any]:
        asked = ({"messages": [("human", name)]} for name in ("one", "two"))
        return await asyncio.gather(*(agent.ainvoke(prompt) for prompt in asked))

    for name, found in zip(("one", "two"), asyncio.run(both()), strict=True):
        check(found["messages"][-1], name)


def test_updates_of_a_streamed_agent_carry_it(tiny_chat: ChatHuggingFace) -> None:
    agent = agent_of(tiny_chat, [AttributionMiddleware(tiny_chat, **EXACT)])
    updates = list(agent.stream({"messages": [("human", "one")]}, stream_mode="updates"))
    check(updates[-1]["model"]["messages"][-1], "one")


def test_a_model_that_is_not_local_is_said_to_be_and_the_log_says_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Searching(FakeListChatModel):
        def bind_tools(self, tools, **_):  # type: ignore[no-untyped-def]
            return self

        def _generate(self, messages, *_, **__):  # type: ignore[no-untyped-def]
            return SearchesFirst(llm=self.__class__(responses=["a"])._plain())._generate(messages)

        def _plain(self) -> FakeListChatModel:
            return FakeListChatModel(responses=["It is old."])

    search = create_retriever_tool(
        ByName(), "search", "Finds harbours.", response_format="content_and_artifact"
    )
    agent = create_agent(
        Searching(responses=["a"]), [search], middleware=[AttributionMiddleware(**EXACT)]
    )
    for _ in range(2):
        summary = ask(agent, "one")[-1].response_metadata["attribution"]
        jsonschema.validate(summary, summary_schema())
        assert (summary["status"], summary["sentences"]) == ("unsupported", [])
        assert summary["error"]["type"] == "UnsupportedModel"
        assert "AttributionMiddleware(llm)" in summary["error"]["message"]
    (record,) = [record for record in caplog.records if "no attribution" in record.message]
    assert "AttributionMiddleware(language_model=...)" in record.message


def test_the_model_is_found_in_the_agent_s_own(tiny_chat: ChatHuggingFace) -> None:
    middleware = AttributionMiddleware(**EXACT)  # SearchesFirst holds it as its llm
    check(ask(agent_of(tiny_chat, [middleware]), "one")[-1], "one")


def test_citations_are_as_with_the_handler(tiny_chat: ChatHuggingFace) -> None:
    middleware = AttributionMiddleware(tiny_chat, citations=True, **EXACT)
    message = ask(agent_of(tiny_chat, [middleware]), "one")[-1]
    assert isinstance(message, AIMessage)
    assert message.response_metadata["model_provider"] == "langchain-attribot"


def test_the_handler_sees_through_an_agent_too(tiny_chat: ChatHuggingFace) -> None:
    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    messages = ask(agent_of(tiny_chat), "one", callbacks=[handler])
    check(messages[-1], "one")
    assert not any("attribution" in message.response_metadata for message in messages[:-1])
    assert handler.last is not None
    assert handler.last.summary["offsets"] == "shown"  # in the state's messages
    assert handler.num_open == 0


def test_a_model_that_passes_another_s_answer_on_has_its_attribution(
    tiny_chat: ChatHuggingFace,
) -> None:
    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    documents = [Document(page_content="The harbour was built in 1900. It is deep.", id="x")]

    class PassesOn(FakeListChatModel):
        def _generate(self, messages, *_, **__):  # type: ignore[no-untyped-def]
            result = tiny_chat.invoke(messages)  # a run of its own, which is attributed
            return SearchesFirst(llm=FakeListChatModel(responses=[result.content]))._generate(
                [*messages, result]
            )

    chain = RunnableLambda(lambda _: joined(documents)) | PassesOn(responses=["a"])
    config: Any = {"callbacks": [handler], "metadata": {"attribot_documents": documents}}
    summary = chain.invoke("?", config=config).response_metadata["attribution"]
    assert summary["status"] == "complete"
    assert len(handler.results) == 2  # both models' runs
