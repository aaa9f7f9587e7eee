"""A chain that gives its answer, its documents and its attribution."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from chains import ByName, Given, rag
from conftest import QUESTION, AsynchronousChat, Chain, chat_of
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda
from langchain_core.tracers.context import collect_runs
from support.summaries import EXACT, checked, located_ids

from attribot_rag import LocalModel
from attribot_rag.errors import InvalidInput
from langchain_attribot import with_attribution

KEYS = ["answer", "documents", "attribution"]


@pytest.fixture
def chain(tiny: LocalModel) -> Chain:
    return rag(ByName(), chat_of(tiny, AsynchronousChat, max_new_tokens=6)) | StrOutputParser()


@pytest.fixture
def attributed(chain: Chain) -> Any:
    return with_attribution(chain, **EXACT)


def check(result: Any, name: str) -> None:
    assert list(result) == KEYS
    assert isinstance(result["answer"], str)
    assert [document.id for document in result["documents"]] == [f"document {name}"]
    assert located_ids(checked(result["attribution"])) == [f"document {name}"]


def test_all_ways_to_call_it_give_the_three(attributed: Any) -> None:
    async def ask() -> list[Any]:
        return [await attributed.ainvoke("D"), *(await attributed.abatch(["E", "F"]))]

    results = [attributed.invoke("A"), *attributed.batch(["B", "C"]), *asyncio.run(ask())]
    for name, result in zip("ABCDEF", results, strict=True):
        check(result, name)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_streamed_the_answer_comes_first(attributed: Any, asynchronous: bool) -> None:
    async def ask() -> list[Any]:
        return [piece async for piece in attributed.astream("A")]

    first, *pieces = asyncio.run(ask()) if asynchronous else attributed.stream("A")
    assert all(list(piece) == ["answer"] for piece in (first, *pieces[:-1]))
    check(dict(sum(pieces, first)), "A")


def test_it_keeps_the_chain_s_input_schema_and_graph(chain: Chain, attributed: Any) -> None:
    assert attributed.get_input_jsonschema() == chain.get_input_jsonschema()
    assert attributed.get_graph().draw_mermaid() == chain.get_graph().draw_mermaid()
    assert attributed.get_prompts() == chain.get_prompts()
    properties = attributed.get_output_jsonschema()["properties"]
    assert list(properties) == KEYS
    assert properties["answer"]["type"] == "string"


def test_its_run_is_around_the_chain_s_and_has_its_outputs(attributed: Any) -> None:
    run_id = uuid4()
    with collect_runs() as collected:
        result = attributed.invoke("A", {"run_id": run_id, "run_name": "my chain"})
        *_, last = attributed.stream("B")
    invoked, streamed = collected.traced_runs
    assert (invoked.id, invoked.name) == (run_id, "my chain")
    assert invoked.outputs == result
    (inner,) = invoked.child_runs
    assert inner.outputs == {"output": result["answer"]}
    assert streamed.name == "AttributedChain"
    assert list(streamed.outputs or {}) == KEYS
    assert streamed.outputs["attribution"] == last["attribution"]
    assert attributed.handler.results[run_id].summary == result["attribution"]
    assert attributed.handler.num_open == 0


def test_only_names_the_wrapped_chain_s_run(chain: Chain) -> None:
    attributed = with_attribution(chain, only="mine", **EXACT)
    assert attributed.invoke("A", {"run_name": "mine"})["attribution"] is not None
    assert attributed.invoke("A", {"run_name": "other"})["attribution"] is None


def test_without_retrieved_documents_there_is_no_attribution(tiny_chat: Any) -> None:
    result = with_attribution(rag(Given(documents=[]), tiny_chat), **EXACT).invoke(QUESTION)
    assert (result["documents"], result["attribution"]) == ([], None)


def test_the_model_is_found_or_asked_for(tiny_chat: Any) -> None:
    elsewhere = rag(ByName(), FakeListChatModel(responses=["a"]))
    with pytest.raises(InvalidInput, match="shows no local model; pass those that answer"):
        with_attribution(elsewhere)
    hidden = RunnableLambda(lambda name: rag(ByName(), tiny_chat).invoke(name).content)
    check(with_attribution(hidden, tiny_chat, **EXACT).invoke("A"), "A")
