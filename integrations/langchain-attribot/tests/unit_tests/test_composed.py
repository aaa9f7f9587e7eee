"""Answers made of earlier answers: chains of calls, their citations, and where they break off."""

import logging
import operator
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from chains import Given, joined
from conftest import DOCUMENTS, Chain, Handler, Making, summary_of
from langchain_classic.chains.summarize import load_summarize_chain
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, StateGraph
from langgraph.types import Send
from scripted import says_to
from support.island import FERRY, LIGHTHOUSE, OTHERS
from support.patience import scaled
from support.summaries import EXACT, attribution_of, checked

from attribot_rag import LanguageModel
from attribot_rag.errors import DocumentsNotLocated
from langchain_attribot import attribute, retrieved, with_attribution

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
def combining(tiny: LanguageModel) -> Any:
    """Summarizes each document, and says both when it combines."""
    return says_to(tiny, ANSWERS)


def calls_of(summary: Mapping[str, Any]) -> list[list[str]]:
    """The ids of the documents of each earlier answer."""
    return [[document["id"] for document in call["documents"]] for call in summary["calls"]]


def test_citations_lead_through_a_map_to_its_documents(
    smollm2: LanguageModel, making: Making
) -> None:
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


def test_a_refined_answer_comes_from_all_documents_before_it(
    smollm2: LanguageModel, making: Making
) -> None:
    museum = Document(OTHERS["museum"], id="museum")
    of_museum = "The museum was founded in 1974."
    chat = says_to(
        smollm2,
        {"museum": f"{OF_FERRY} {of_museum}", "lamp": f"{OF_FERRY}", "Kittiwake": OF_FERRY},
    )

    def refine(documents: list[Document]) -> Any:
        draft = ""
        for document in documents:
            answer = chat.invoke(f"The draft: {draft}\nRefine it by: {document.page_content}")
            draft = answer.text
        return answer

    handler = making(chat)
    answer = RunnableLambda(refine).invoke([*DOCUMENTS, museum], {"callbacks": [handler]})
    summary = summary_of(answer, "composite")
    assert ids_in(summary) == {"ferry", "lighthouse", "museum"}
    assert cited(summary) == [["ferry"], ["museum"]]
    assert len(summary["calls"]) == 2
    assert [call["calls"] for call in summary["calls"]] == [[], []]  # each is listed once


@pytest.mark.parametrize("kind", ["map_reduce", "refine"])
def test_the_chains_that_summarize(
    tiny: LanguageModel, making: Making, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    combined = f"{OF_FERRY}\n\n{OF_LIGHTHOUSE}" if kind == "map_reduce" else "existing summary"
    chat = says_to(tiny, {combined: BOTH, "Kittiwake": OF_FERRY, "lamp": OF_LIGHTHOUSE})
    chat.custom_get_token_ids = lambda text: list(text.encode())  # it has no tokenizer of its own
    chain = load_summarize_chain(chat, chain_type=kind)
    handler, run_id = making(chat), uuid4()
    asked: Any = {"input_documents": list(DOCUMENTS)}
    result = chain.invoke(asked, {"callbacks": [handler], "run_id": run_id})
    assert result["output_text"] == BOTH
    summary = checked(handler.results[run_id].summary, "composite")
    assert ids_in(summary) == {"ferry", "lighthouse"}
    assert summary["calls"]
    assert "with_attribution(chain)" in caplog.text
    assert asked == {"input_documents": list(DOCUMENTS)}
    attributed = with_attribution(chain, chat, **EXACT)
    whole = attributed.invoke(asked)
    attributed.handler.close()
    assert ids_in(checked(whole["attribution"], "composite")) == {"ferry", "lighthouse"}
    assert {document.id for document in whole["documents"]} == {"ferry", "lighthouse"}


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


def test_a_map_by_send(combining: Any, handler_of: Any) -> None:
    contents = [{"text": part.page_content, "id": part.id} for part in DOCUMENTS]
    handler = handler_of(combining)
    config: Any = {"callbacks": [handler], "max_concurrency": 1}
    state = graph_of(combining).invoke({"contents": contents}, config)
    summary = summary_of(state["final"], "composite")
    assert ids_in(summary) == {"ferry", "lighthouse"}
    assert calls_of(summary) == [["ferry"], ["lighthouse"]]
    assert handler.num_open == 0


def test_questions_with_a_retrieval_of_their_own(combining: Any, handler_of: Any) -> None:
    def ask(_: str) -> Any:
        given = []
        for document in DOCUMENTS:
            found = Given(documents=[document, Document(OTHERS["chapel"], id="chapel")]).invoke("?")
            given.append(combining.invoke(joined(found[:1])).text)
        return combining.invoke(f"Combine: {given[0]}, and: {given[1]}")

    message = RunnableLambda(ask).invoke("both", {"callbacks": [handler_of(combining)]})
    summary = summary_of(message, "composite")
    assert ids_in(summary) == {"ferry", "lighthouse", "chapel"}
    assert len(summary["calls"]) == 2
    chapel = next(document for document in summary["documents"] if document["id"] == "chapel")
    assert not chapel["located"]  # it stood in no prompt


def test_without_a_chain_within_a_block(combining: Any) -> None:
    with attribute(combining, **EXACT) as run:
        texts = [combining.invoke(joined(retrieved([document]))).text for document in DOCUMENTS]
        message = combining.invoke(f"Combine: {' '.join(texts)}")
    summary = summary_of(message, "composite")
    assert calls_of(summary) == [["ferry"], ["lighthouse"]]
    assert ids_in(summary) == {"ferry", "lighthouse"}
    assert run.last is not None


def test_in_the_background_and_streamed(combining: Any, making: Making) -> None:
    handler, run_id = making(combining, mode="background"), uuid4()
    config: Any = {"callbacks": [handler], "run_id": run_id, "max_concurrency": 1}
    text = "".join(piece.text for piece in map_reduce(combining).stream(list(DOCUMENTS), config))
    assert text == BOTH
    run = handler.result(run_id, timeout=scaled(120))
    assert ids_in(checked(run.summary, "composite")) == {"ferry", "lighthouse"}
    assert all(not part.is_pending for part in run.earlier)


def test_runs_at_once_are_not_mixed(tiny: LanguageModel, handler_of: Any) -> None:
    names = ["Anna", "Berta", "Carla", "Dora"]
    of = {name: f"The ship {name} is grey." for name in names}
    combine = {f"Combine these summaries: {of[name]}": of[name] for name in names}
    chat = says_to(tiny, {**combine, **{f"ship {name}": of[name] for name in names}})
    handler = handler_of(chat)
    inputs = [[Document(f"The ship {name} is grey and has a mast.", id=name)] for name in names]
    messages = map_reduce(chat).batch(inputs, {"callbacks": [handler]})
    for name, message in zip(names, messages, strict=True):
        assert ids_in(summary_of(message, "composite")) == {name}
    assert handler.num_open == 0


def test_answers_that_a_step_changes_are_told_of(
    combining: Any, handler_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def ask(documents: list[Document]) -> Any:
        given = [combining.invoke(document.page_content).text for document in documents]
        return combining.invoke(f"Combine: {sum(map(len, given))} characters, of what was read")

    handler = handler_of(combining)
    message = RunnableLambda(ask).invoke(list(DOCUMENTS), {"callbacks": [handler]})
    summary = summary_of(message, "error")
    assert summary["error"]["type"] == DocumentsNotLocated.__name__
    assert "2 answers that models gave before" in summary["error"]["message"]
    assert "2 answers that models gave before" in caplog.text


def test_answers_that_are_left_out_are_told_of(combining: Any, making: Making) -> None:
    def ask(documents: list[Document]) -> Any:
        given = [combining.invoke(document.page_content).text for document in documents]
        config: Any = {"tags": ["last"]}
        return combining.invoke(f"Combine: {' '.join(given)}", config)

    handler = making(combining, only="last")
    message = RunnableLambda(ask).invoke(list(DOCUMENTS), {"callbacks": [handler]})
    summary = summary_of(message, "composite")
    (note,) = [note for note in summary["notes"] if "earlier answers" in note]
    assert note.startswith("2 of the 2 earlier answers")
    assert "only=" in note
    assert {"ferry", "lighthouse"} <= ids_in(summary)


def test_two_questions_in_one_run_stay_apart(combining: Any, handler_of: Any) -> None:
    def ask(_: str) -> list[Any]:
        return [combining.invoke(joined(Given(documents=[part]).invoke("?"))) for part in DOCUMENTS]

    messages = RunnableLambda(ask).invoke("both", {"callbacks": [handler_of(combining)]})
    assert [ids_in(summary_of(message)) for message in messages] == [{"ferry"}, {"lighthouse"}]


def test_a_second_handler_leaves_the_first_one_s_result(
    combining: Any, making: Making, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = making(combining), making(combining, method="masked")
    for _ in range(2):
        config: Any = {"callbacks": [first, second], "metadata": {"attribot_documents": [FERRY]}}
        message = combining.invoke(f"{FERRY} Who?", config)
        summary = summary_of(message)
        assert summary["method"] == attribution_of(first.last).provenance.method
        assert attribution_of(second.last).provenance.method != summary["method"]
    told = [record.getMessage() for record in caplog.records if "two handlers" in record.message]
    (line,) = told
    assert repr(first) in line and repr(second) in line


@pytest.fixture
def handler_of(making: Making) -> Any:
    def make(chat: Any) -> Handler:
        return making(chat)

    return make


def test_the_first_summary_stays_in_a_dict_and_in_a_stream(
    combining: Any, making: Making, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    first, second = making(combining), making(combining, method="masked")
    chain = RunnableLambda(lambda text: {"answer": combining.invoke(text).text})
    config: Any = {"callbacks": [first, second], "metadata": {"attribot_documents": [LIGHTHOUSE]}}
    result = chain.invoke(f"{LIGHTHOUSE} What?", config)
    assert result["attribution"]["method"] == attribution_of(first.last).provenance.method
    pieces = list(combining.stream(f"{LIGHTHOUSE} What?", config))
    whole = sum(pieces[1:], pieces[0])
    assert whole.response_metadata["attribution"]["method"] == result["attribution"]["method"]
