"""Attributions in the state, the streams and the checkpoints of LangGraph's graphs."""

import asyncio
import copy
import functools
import operator
from collections.abc import Iterable
from typing import Annotated, Any, TypedDict

import pytest
from chains import PROMPT, Given, joined
from conftest import (
    DOCUMENTS,
    QUESTION,
    AsynchronousChat,
    Chain,
    Chat,
    Handler,
    Making,
    summary_of,
)
from langchain_core.documents import Document
from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnablePassthrough
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph, add_messages
from support.summaries import EXACT, checked, located_ids

from langchain_attribot import with_attribution


class State(TypedDict):
    question: str
    documents: list[Document]
    grades: Annotated[list[str], operator.add]
    messages: Annotated[list[AnyMessage], add_messages]


@pytest.fixture
def handler(making: Making, chats: list[Chat]) -> Handler:
    return making(chats, only="answer")


@pytest.fixture
def graph(chats: list[Chat]) -> Any:
    """Retrieves, grades each document, and answers; keeps checkpoints."""
    answering, grading = chats

    def retrieve(state: State) -> dict[str, Any]:
        return {"documents": Given(documents=DOCUMENTS).invoke(state["question"])}

    def grade(state: State) -> dict[str, Any]:
        prompts = (f"Is this relevant? {document.page_content}" for document in state["documents"])
        return {"grades": [str(grading.invoke(prompt).content) for prompt in prompts]}

    def answer(state: State) -> dict[str, Any]:
        prompt = f"{joined(state['documents'])}\n\nQuestion: {state['question']}"
        message = answering.invoke(prompt)
        get_stream_writer()({"attribution": message.response_metadata.get("attribution")})
        return {"messages": [message]}

    made = StateGraph(State).add_sequence([retrieve, grade, answer]).add_edge(START, "retrieve")
    return made.compile(checkpointer=InMemorySaver())


INPUT: Any = {"question": QUESTION}


def config(*handlers: Handler) -> Any:
    return {"callbacks": list(handlers), "configurable": {"thread_id": "one"}}


def check(summary: Any) -> None:
    assert set(located_ids(checked(summary))) == {"ferry", "lighthouse"}
    assert any("limit of 5 tokens" in note for note in summary["notes"])


def check_message(message: BaseMessage) -> None:
    check(message.response_metadata["attribution"])


def test_the_state_s_message_carries_it(graph: Any, handler: Handler) -> None:
    state = graph.invoke(INPUT, config(handler))
    check_message(state["messages"][-1])
    assert len(state["grades"]) == 2
    assert len(handler.results) == 1
    assert handler.num_open == 0


def test_the_models_are_found_in_the_graph_s_nodes(
    graph: Any, chats: list[Chat], making: Making
) -> None:
    handler = making(graph, only="answer")
    check_message(graph.invoke(INPUT, config(handler))["messages"][-1])
    attributed = with_attribution(graph, only="answer", **EXACT)
    check(attributed.invoke(INPUT, config())["attribution"])
    attributed.handler.close()


def test_streams_of_updates_messages_and_custom_data_carry_it(graph: Any, handler: Handler) -> None:
    streamed: dict[str, list[Any]] = {"updates": [], "messages": [], "custom": []}
    for mode, piece in graph.stream(INPUT, config(handler), stream_mode=list(streamed)):
        streamed[str(mode)].append(piece)
    (update,) = [update["answer"] for update in streamed["updates"] if "answer" in update]
    check_message(update["messages"][-1])
    chunks: dict[str, list[BaseMessage]] = {"answer": [], "grade": []}
    for chunk, metadata in streamed["messages"]:
        chunks[metadata["langgraph_node"]].append(chunk)
    assert len(chunks["answer"]) > 1
    carrying = [chunk for chunk in chunks["answer"] if "attribution" in chunk.response_metadata]
    check_message(carrying[-1])
    assert chunks["grade"]
    assert all("attribution" not in grade.response_metadata for grade in chunks["grade"])
    check(streamed["custom"][-1]["attribution"])


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("asks", ["invoke", "stream"])
@pytest.mark.parametrize("attached_to", ["graph", "chain"])
def test_streamed_messages_add_up_to_an_answer_with_it(
    tiny_chat: Chat, handler: Handler, attached_to: str, asks: str, asynchronous: bool
) -> None:
    told: Any = {"callbacks": [handler]} if attached_to == "graph" else {}
    within: Any = {"callbacks": [handler]} if attached_to == "chain" else {}
    chat = AsynchronousChat(llm=tiny_chat.llm, tokenizer=tiny_chat.tokenizer)
    chain = RunnablePassthrough.assign(context=Given(documents=DOCUMENTS) | joined) | PROMPT | chat

    def answer(state: State) -> dict[str, Any]:
        given: Any = {"question": state["question"]}
        if asks == "invoke":
            return {"messages": [chain.invoke(given, within)]}
        return {"messages": [added(chain.stream(given, within))]}

    async def answer_asynchronously(state: State) -> dict[str, Any]:
        given: Any = {"question": state["question"]}
        if asks == "invoke":
            return {"messages": [await chain.ainvoke(given, within)]}
        return {"messages": [added([piece async for piece in chain.astream(given, within)])]}

    node = answer_asynchronously if asynchronous else answer
    graph = StateGraph(State).add_node("answer", node).add_edge(START, "answer").compile()
    modes: Any = ["messages", "values"]

    async def streamed() -> list[Any]:
        pieces = graph.astream(INPUT, told, stream_mode=modes)
        return [copy.deepcopy(piece) async for piece in pieces]  # as it is when it arrives

    pieces = graph.stream(INPUT, told, stream_mode=modes)
    arrived = asyncio.run(streamed()) if asynchronous else [*map(copy.deepcopy, pieces)]
    *_, state = (piece for mode, piece in arrived if mode == "values")
    chunks = added(piece[0] for mode, piece in arrived if mode == "messages")
    summary_of(state["messages"][-1])
    assert chunks.text == state["messages"][-1].text
    if (attached_to, asks) != ("chain", "stream"):  # of which the node alone has the last chunk
        assert set(located_ids(summary_of(chunks))) == {"ferry", "lighthouse"}


def added(chunks: Iterable[Any]) -> Any:
    """The sum of a stream's chunks."""
    return functools.reduce(operator.add, chunks)


def test_checkpoints_keep_it_and_the_next_turn_has_its_own(graph: Any, handler: Handler) -> None:
    first = graph.invoke(INPUT, config(handler))["messages"][-1]
    before = first.response_metadata["attribution"]
    (kept,) = graph.get_state(config()).values["messages"]
    assert kept.response_metadata["attribution"] == before
    graph.invoke({"question": "And the ferry?"}, config(handler))
    earlier, later = graph.get_state(config()).values["messages"]
    check_message(later)
    assert earlier.response_metadata["attribution"] == before
    assert later.response_metadata["attribution"]["run_id"] != before["run_id"]
    serializer = JsonPlusSerializer()
    again = serializer.loads_typed(serializer.dumps_typed(later))
    assert again.response_metadata == later.response_metadata


class Answered(TypedDict):
    question: str
    answer: str
    documents: list[Document]
    attribution: dict[str, Any] | None


def test_a_node_that_is_an_attributed_chain_updates_the_state(chain: Chain) -> None:
    asking = (lambda state: state["question"]) | chain | StrOutputParser()
    graph = StateGraph(Answered)
    graph.add_node("answer", with_attribution(asking, **EXACT))
    graph.add_edge(START, "answer")
    state = graph.compile(checkpointer=InMemorySaver()).invoke(INPUT, config())
    assert isinstance(state["answer"], str)
    assert [document.id for document in state["documents"]] == ["ferry", "lighthouse"]
    assert set(located_ids(checked(state["attribution"]))) == {"ferry", "lighthouse"}
