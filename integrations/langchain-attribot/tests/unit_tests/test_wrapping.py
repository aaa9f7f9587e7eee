"""A chain that gives its answer, its documents and its attribution."""

import asyncio
from typing import Any

import pytest
from chains import ByName, Given, rag
from conftest import DOCUMENTS, QUESTION
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda
from langchain_huggingface import ChatHuggingFace

from attribot_rag.errors import InvalidInput, UnknownOption
from langchain_attribot import with_attribution

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


def check(found: dict[str, Any], name: str) -> None:
    assert list(found) == ["answer", "documents", "attribution"]
    assert isinstance(found["answer"], str)
    assert [one.id for one in found["documents"]] == [f"document {name}"]
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
    assert [one.id for one in longer.invoke("a")] == ["document A"]


def test_without_retrieved_documents_there_is_no_attribution(tiny_chat: ChatHuggingFace) -> None:
    found = with_attribution(rag(Given(documents=[]), tiny_chat), **EXACT).invoke(QUESTION)
    assert found["documents"] == []
    assert found["attribution"] is None


def test_the_model_is_found_or_asked_for(tiny_chat: ChatHuggingFace) -> None:
    elsewhere = rag(Given(documents=DOCUMENTS), FakeListChatModel(responses=["a"]))
    with pytest.raises(InvalidInput, match="shows no local model; pass those that answer"):
        with_attribution(elsewhere)
    hidden = RunnableLambda(lambda given: rag(ByName(), tiny_chat).invoke(given).content)
    check(with_attribution(hidden, tiny_chat, **EXACT).invoke("A"), "A")


def test_a_misspelt_option_is_told_the_right_one(tiny_chat: ChatHuggingFace) -> None:
    chain = rag(ByName(), tiny_chat)
    with pytest.raises(UnknownOption, match=r"no option 'metod'; did you mean 'method'\?"):
        with_attribution(chain, metod="auto")  # type: ignore[call-arg]
