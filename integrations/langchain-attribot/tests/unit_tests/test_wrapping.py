"""A chain that gives its answer, its documents and its attribution."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from chains import ByName, Given, rag
from conftest import DOCUMENTS, QUESTION
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tracers.context import collect_runs
from langchain_huggingface import ChatHuggingFace

from attribot_rag.errors import InvalidInput
from langchain_attribot import with_attribution

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


def check(found: dict[str, Any], name: str) -> None:
    assert list(found) == ["answer", "documents", "attribution"]
    assert isinstance(found["answer"], str)
    assert [document.id for document in found["documents"]] == [f"document {name}"]
    assert found["attribution"]["status"] == "complete"
    assert found["attribution"]["documents"][0]["id"] == f"document {name}"


def test_all_ways_to_call_it_give_the_three(tiny_chat: ChatHuggingFace) -> None:
    chain = with_attribution(rag(ByName(), tiny_chat) | StrOutputParser(), **EXACT)
    check(chain.invoke("A"), "A")
    for name, found in zip(("B", "C"), chain.batch(["B", "C"]), strict=True):
        check(found, name)

    async def ask() -> list[dict[str, Any]]:
        # the model itself generates in no event loop
        chain.chain = RunnableLambda(chain.chain.invoke)
        return [await chain.ainvoke("D"), *(await chain.abatch(["E", "F"]))]

    for name, found in zip("DEF", asyncio.run(ask()), strict=True):
        check(found, name)


def test_streamed_the_answer_comes_first(tiny_chat: ChatHuggingFace) -> None:
    chain = with_attribution(rag(ByName(), tiny_chat) | StrOutputParser(), **EXACT)
    pieces = list(chain.stream("A"))
    assert all(list(piece) == ["answer"] for piece in pieces[:-1])
    total = pieces[0]
    for piece in pieces[1:]:
        total = total + piece
    check(dict(total), "A")

    async def ask() -> list[Any]:
        return [piece async for piece in chain.astream("A")]

    with pytest.raises(Exception, match=r"no attribute|NotImplemented"):
        asyncio.run(ask())  # upstream streams asynchronously from endpoints only


def test_it_is_a_runnable_among_others(tiny_chat: ChatHuggingFace) -> None:
    chain = with_attribution(rag(ByName(), tiny_chat) | StrOutputParser(), **EXACT)
    longer = RunnableLambda(str.upper) | chain | RunnableLambda(lambda found: found["documents"])
    assert [document.id for document in longer.invoke("a")] == ["document A"]


def test_it_keeps_the_chain_s_input_schema_and_graph(tiny_chat: ChatHuggingFace) -> None:
    chain = rag(ByName(), tiny_chat) | StrOutputParser()
    attributed = with_attribution(chain, **EXACT)
    assert attributed.get_input_jsonschema() == chain.get_input_jsonschema()
    assert attributed.get_graph().draw_mermaid() == chain.get_graph().draw_mermaid()
    assert attributed.get_prompts() == chain.get_prompts()
    properties = attributed.get_output_jsonschema()["properties"]
    assert list(properties) == ["answer", "documents", "attribution"]
    assert properties["answer"]["type"] == "string"


def test_its_run_is_around_the_chain_s_and_gives_what_it_gives(tiny_chat: ChatHuggingFace) -> None:
    attributed = with_attribution(rag(ByName(), tiny_chat) | StrOutputParser(), **EXACT)
    run_id = uuid4()
    with collect_runs() as collected:
        config: Any = {"run_id": run_id, "run_name": "my chain"}
        result = attributed.invoke("A", config)
        pieces = list(attributed.stream("B"))
    invoked, streamed = collected.traced_runs
    assert (invoked.id, invoked.name) == (run_id, "my chain")
    assert invoked.outputs == result
    (inner,) = invoked.child_runs
    assert inner.outputs == {"output": result["answer"]}
    assert streamed.name == "AttributedChain"
    assert streamed.outputs is not None
    assert list(streamed.outputs) == ["answer", "documents", "attribution"]
    assert streamed.outputs["attribution"] == pieces[-1]["attribution"]
    assert attributed.handler.results[run_id].summary == result["attribution"]
    assert attributed.handler.num_open == 0


def test_a_dict_and_a_message_are_answers_too(tiny_chat: ChatHuggingFace) -> None:
    chain = rag(ByName(), tiny_chat)
    for given in (chain, RunnableParallel(text=chain | StrOutputParser())):
        result = with_attribution(given, **EXACT).invoke("A")
        assert result["attribution"] is not None
        assert result["attribution"]["offsets"] == "shown"
        assert result["attribution"]["status"] == "complete"


def test_only_names_the_wrapped_chain_s_run(tiny_chat: ChatHuggingFace) -> None:
    attributed = with_attribution(rag(ByName(), tiny_chat), only="mine", **EXACT)
    assert attributed.invoke("A", {"run_name": "mine"})["attribution"] is not None
    assert attributed.invoke("A", {"run_name": "other"})["attribution"] is None


def test_without_retrieved_documents_there_is_no_attribution(tiny_chat: ChatHuggingFace) -> None:
    result = with_attribution(rag(Given(documents=[]), tiny_chat), **EXACT).invoke(QUESTION)
    assert result["documents"] == []
    assert result["attribution"] is None


def test_the_model_is_found_or_asked_for(tiny_chat: ChatHuggingFace) -> None:
    elsewhere = rag(Given(documents=DOCUMENTS), FakeListChatModel(responses=["a"]))
    with pytest.raises(InvalidInput, match="shows no local model; pass those that answer"):
        with_attribution(elsewhere)
    hidden = RunnableLambda(lambda given: rag(ByName(), tiny_chat).invoke(given).content)
    check(with_attribution(hidden, tiny_chat, **EXACT).invoke("A"), "A")
