"""Attributions in the state, the streams and the checkpoints of LangGraph's graphs."""

import copy
import operator
from typing import Annotated, Any, TypedDict

import pytest
from chains import Given, joined, rag
from conftest import DOCUMENTS, QUESTION, chat_of
from langchain_core.documents import Document
from langchain_core.messages import AnyMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_huggingface import ChatHuggingFace
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.graph.state import CompiledStateGraph

from attribot_rag import LanguageModel
from langchain_attribot import AttributionCallbackHandler, with_attribution
from langchain_attribot.models import language_model_of

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


class State(TypedDict):
    question: str
    documents: list[Document]
    grades: Annotated[list[str], operator.add]
    messages: Annotated[list[AnyMessage], add_messages]


@pytest.fixture(scope="module")
def chats(tiny: LanguageModel) -> list[ChatHuggingFace]:
    """The model that answers, and another one, which grades."""
    other = LanguageModel(copy.deepcopy(tiny.model), tiny.tokenizer)
    return [chat_of(tiny, max_new_tokens=5), chat_of(other, max_new_tokens=2)]


@pytest.fixture
def handler(chats: list[ChatHuggingFace]) -> Any:
    made = AttributionCallbackHandler(chats, only="answer", **EXACT)
    yield made
    made.close()


def graph_of(
    chats: list[ChatHuggingFace], checkpointer: InMemorySaver | None = None
) -> CompiledStateGraph[State, None, State, State]:
    """Retrieves, grades each document, and answers."""
    answering, grading = chats

    def retrieve(state: State) -> dict[str, Any]:
        return {"documents": Given(documents=DOCUMENTS).invoke(state["question"])}

    def grade(state: State) -> dict[str, Any]:
        asked = (f"Is this relevant? {document.page_content}" for document in state["documents"])
        return {"grades": [str(grading.invoke(prompt).content) for prompt in asked]}

    def answer(state: State) -> dict[str, Any]:
        asked = f"{joined(state['documents'])}\n\nQuestion: {state['question']}"
        message = answering.invoke(asked)
        get_stream_writer()({"attribution": message.response_metadata.get("attribution")})
        return {"messages": [message]}

    graph = StateGraph(State)
    for node in (retrieve, grade, answer):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "grade")
    graph.add_edge("grade", "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=checkpointer)


def check(summary: Any) -> None:
    assert summary["status"] == "complete", summary
    assert {document["id"] for document in summary["documents"]} == {"ferry", "lighthouse"}
    assert "The answer was cut at 5 tokens (max_new_tokens)." in summary["notes"]


def test_the_state_s_message_carries_it(
    chats: list[ChatHuggingFace], handler: AttributionCallbackHandler
) -> None:
    state = graph_of(chats).invoke({"question": QUESTION}, {"callbacks": [handler]})
    check(state["messages"][-1].response_metadata["attribution"])
    assert len(state["grades"]) == 2
    assert len(handler.results) == 1
    assert handler.num_open == 0


def test_the_models_are_found_in_what_the_graph_s_nodes_call(
    chats: list[ChatHuggingFace],
) -> None:
    graph = graph_of(chats)
    handler = AttributionCallbackHandler(graph, only="answer", **EXACT)
    found = {service.attributor.language_model.backend for service in handler._services}
    assert found == {language_model_of(chat).backend for chat in chats}
    state = graph.invoke({"question": QUESTION}, {"callbacks": [handler]})
    check(state["messages"][-1].response_metadata["attribution"])
    handler.close()
    attributed = with_attribution(graph, only="answer", **EXACT)
    check(attributed.invoke({"question": QUESTION})["attribution"])  # type: ignore[arg-type]
    attributed.handler.close()


def test_grades_are_attributed_too_unless_they_are_left_out(chats: list[ChatHuggingFace]) -> None:
    handler = AttributionCallbackHandler(chats, **EXACT)
    graph_of(chats).invoke({"question": QUESTION}, {"callbacks": [handler]})
    runs = {run.run_id: run for run in handler.results.values()}
    assert len(runs) == 3  # the answer, and the grade of each document
    handler.close()


def test_streams_of_updates_messages_and_custom_data_carry_it(
    chats: list[ChatHuggingFace], handler: AttributionCallbackHandler
) -> None:
    streamed: dict[str, list[Any]] = {"updates": [], "messages": [], "custom": []}
    for mode, piece in graph_of(chats).stream(
        {"question": QUESTION}, {"callbacks": [handler]}, stream_mode=list(streamed)
    ):
        streamed[str(mode)].append(piece)
    (update,) = [update["answer"] for update in streamed["updates"] if "answer" in update]
    check(update["messages"][-1].response_metadata["attribution"])
    chunks = [run for run, told in streamed["messages"] if told["langgraph_node"] == "answer"]
    carrying = [chunk for chunk in chunks if "attribution" in chunk.response_metadata]
    assert len(chunks) > 1
    check(carrying[-1].response_metadata["attribution"])
    grades = [run for run, told in streamed["messages"] if told["langgraph_node"] == "grade"]
    assert grades and all("attribution" not in grade.response_metadata for grade in grades)
    check(streamed["custom"][-1]["attribution"])


def test_checkpoints_keep_it_and_the_next_turn_has_its_own(
    chats: list[ChatHuggingFace], handler: AttributionCallbackHandler
) -> None:
    graph = graph_of(chats, InMemorySaver())
    config: Any = {"callbacks": [handler], "configurable": {"thread_id": "one"}}
    first = graph.invoke({"question": QUESTION}, config)["messages"][-1]
    kept = graph.get_state(config).values["messages"][-1]
    assert kept.response_metadata["attribution"] == first.response_metadata["attribution"]
    graph.invoke({"question": "And the ferry?"}, config)
    one, two = graph.get_state(config).values["messages"]
    check(two.response_metadata["attribution"])
    assert one.response_metadata["attribution"] == first.response_metadata["attribution"]
    assert (
        one.response_metadata["attribution"]["run_id"]
        != two.response_metadata["attribution"]["run_id"]
    )
    serializer = JsonPlusSerializer()
    again = serializer.loads_typed(serializer.dumps_typed(two))
    assert again.response_metadata == two.response_metadata


def test_a_node_that_is_an_attributed_chain_updates_the_state(
    chats: list[ChatHuggingFace],
) -> None:
    class Answered(TypedDict):
        question: str
        answer: str
        documents: list[Document]
        attribution: dict[str, Any] | None

    chain = with_attribution(
        (lambda state: state["question"])
        | rag(Given(documents=DOCUMENTS), chats[0])
        | StrOutputParser(),
        **EXACT,
    )
    graph = StateGraph(Answered)
    graph.add_node("answer", chain)
    graph.add_edge(START, "answer")
    state = graph.compile(checkpointer=InMemorySaver()).invoke(
        {"question": QUESTION}, {"configurable": {"thread_id": "one"}}
    )
    assert isinstance(state["answer"], str)
    assert [document.id for document in state["documents"]] == ["ferry", "lighthouse"]
    check(state["attribution"])
