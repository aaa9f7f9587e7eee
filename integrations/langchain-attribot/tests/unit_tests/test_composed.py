"""Answers made of earlier answers: chains of calls, their citations, and where they break off."""

import operator
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from chains import joined
from conftest import DOCUMENTS, Chain, Making, summary_of
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, StateGraph
from langgraph.types import Send
from scripted import says_to
from support.patience import scaled
from support.summaries import checked

from attribot_rag import LocalModel
from attribot_rag.errors import DocumentsNotLocated
from langchain_attribot import retrieved

OF_FERRY, OF_LIGHTHOUSE = (
    "The ferry carries up to 84 passengers.",
    "The lighthouse is 38 metres high.",
)
BOTH = f"{OF_LIGHTHOUSE} {OF_FERRY}"
ANSWERS = {"Combine": BOTH, "Kittiwake": OF_FERRY, "lamp": OF_LIGHTHOUSE}
MAP = ChatPromptTemplate.from_template("Summarize: {text}")
REDUCE = ChatPromptTemplate.from_template("Combine these summaries: {text}")


def map_reduce(chat: Any) -> Chain:
    each = MAP | chat | StrOutputParser()
    texts = RunnableLambda(lambda found: [{"text": part.page_content} for part in found])
    return texts | each.map() | (lambda parts: {"text": "\n\n".join(parts)}) | REDUCE | chat


def cited(summary: Mapping[str, Any]) -> list[list[str]]:
    """The ids of the documents that each sentence cites."""
    ids = {document["index"]: document["id"] for document in summary["documents"]}
    return [[ids[index] for index in sentence["documents"]] for sentence in summary["sentences"]]


def ids_in(summary: Mapping[str, Any]) -> set[str]:
    return {document["id"] for document in summary["documents"]}


@pytest.fixture(scope="module")
def combining(tiny: LocalModel) -> Any:
    """Summarizes each document, and says both when it combines."""
    return says_to(tiny, ANSWERS)


def calls_of(summary: Mapping[str, Any]) -> list[list[str]]:
    """The ids of the documents of each earlier answer."""
    return [[document["id"] for document in call["documents"]] for call in summary["calls"]]


def test_citations_lead_through_a_map_to_its_documents(smollm2: LocalModel, making: Making) -> None:
    chat = says_to(smollm2, ANSWERS)
    handler = making(chat)
    config: Any = {"callbacks": [handler]}
    summary = summary_of(map_reduce(chat).invoke(list(DOCUMENTS), config), "composite")
    assert cited(summary) == [["lighthouse"], ["ferry"]]
    assert all(document["located"] for document in summary["documents"])
    answers = {call["answer"] for call in summary["calls"]}  # a map asks at once, in any order
    assert answers == {OF_FERRY, OF_LIGHTHOUSE}
    assert handler.last is not None
    assert handler.last.to_cited_text() == f"{OF_LIGHTHOUSE} [1] {OF_FERRY} [2]"
    assert handler.num_open == 0


class Summaries(TypedDict):
    contents: list[str]
    summaries: Annotated[list[str], operator.add]
    collapsed: list[Document]
    final: Any


def graph_of(chat: Any) -> Any:
    """LangGraph's way: a node for each content by Send, documents of summaries, a last node."""

    def each(state: Any) -> Any:
        (content,) = retrieved([state["content"]])
        return {"summaries": [chat.invoke(f"Summarize: {content['text']}").text]}

    def collapse(state: Summaries) -> Any:
        return {"collapsed": [Document(summary) for summary in state["summaries"]]}

    def last(state: Summaries) -> Any:
        return {"final": chat.invoke(f"Combine: {joined(state['collapsed'])}")}

    def sends(state: Summaries) -> Any:
        return [Send("each", {"content": content}) for content in state["contents"]]

    graph = StateGraph(Summaries)
    for node in (each, collapse, last):
        graph.add_node(node.__name__, node)
    graph.add_conditional_edges(START, sends, ["each"])
    graph.add_edge("each", "collapse")
    graph.add_edge("collapse", "last")
    return graph.compile()


def test_a_map_by_send(combining: Any, making: Making) -> None:
    contents = [{"text": part.page_content, "id": part.id} for part in DOCUMENTS]
    handler = making(combining)
    config: Any = {"callbacks": [handler], "max_concurrency": 1}
    state = graph_of(combining).invoke({"contents": contents}, config)
    summary = summary_of(state["final"], "composite")
    assert ids_in(summary) == {"ferry", "lighthouse"}
    assert calls_of(summary) == [["ferry"], ["lighthouse"]]
    assert handler.num_open == 0


def test_in_the_background_and_streamed(combining: Any, making: Making) -> None:
    handler, run_id = making(combining, mode="background"), uuid4()
    config: Any = {"callbacks": [handler], "run_id": run_id, "max_concurrency": 1}
    text = "".join(piece.text for piece in map_reduce(combining).stream(list(DOCUMENTS), config))
    assert text == BOTH
    run = handler.result(run_id, timeout=scaled(120))
    assert ids_in(checked(run.summary, "composite")) == {"ferry", "lighthouse"}
    assert all(not part.is_pending for part in run.earlier)


def test_answers_that_a_step_changes_are_told_of(
    combining: Any, making: Making, caplog: pytest.LogCaptureFixture
) -> None:
    def ask(documents: list[Document]) -> Any:
        given = [combining.invoke(document.page_content).text for document in documents]
        return combining.invoke(f"Combine: {sum(map(len, given))} characters, of what was read")

    handler = making(combining)
    message = RunnableLambda(ask).invoke(list(DOCUMENTS), {"callbacks": [handler]})
    summary = summary_of(message, "error")
    assert summary["error"]["type"] == DocumentsNotLocated.__name__
    assert "2 answers that models gave before" in summary["error"]["message"]
    assert "2 answers that models gave before" in caplog.text
