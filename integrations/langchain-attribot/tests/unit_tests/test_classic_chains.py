"""Chains of langchain-classic: results that are copies, and dicts that are streamed."""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest
from chains import Given
from conftest import DOCUMENTS, QUESTION, Handler
from langchain_classic.chains import RetrievalQA, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableParallel, RunnablePassthrough
from langchain_huggingface import ChatHuggingFace
from support.summaries import EXACT, checked

from langchain_attribot import with_attribution

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")

RETRIEVER = Given(documents=DOCUMENTS)


def check(result: Any) -> dict[str, Any]:
    assert [document.id for document in result["documents"]] == ["ferry", "lighthouse"]
    return checked(result["attribution"])


def test_a_result_that_is_a_copy(tiny_chat: ChatHuggingFace, handler: Handler) -> None:
    chain = RetrievalQA.from_chain_type(tiny_chat, retriever=RETRIEVER)
    attributed = with_attribution(chain, **EXACT).invoke({"query": QUESTION})
    answer, summary = attributed["answer"], check(attributed)
    assert answer["query"] == QUESTION
    assert summary["offsets"] == "shown"
    assert answer["result"][summary["start"] : summary["end"]] == summary["answer"]
    # The handler knows its run; only outputs that are no copy carry it.
    result = chain.invoke({"query": QUESTION}, {"callbacks": [handler]})
    assert set(result) == {"query", "result"}
    assert handler.last is not None and handler.last.text == result["result"]
    config: Any = {"callbacks": [handler]}
    outputs = chain.invoke({"query": QUESTION}, config, return_only_outputs=True)
    assert outputs["attribution"] == handler.last.summary


PROMPT = ChatPromptTemplate.from_template("{context}\n\nAnswer: {input}")
STEPS: dict[str, Any] = {"context": RETRIEVER, "input": RunnablePassthrough()}


def of_documents(chat: ChatHuggingFace) -> Any:
    combine = create_stuff_documents_chain(chat, PROMPT)
    return (lambda question: {"input": question}) | create_retrieval_chain(RETRIEVER, combine)


STREAMED: dict[str, Callable[[ChatHuggingFace], Any]] = {
    "a retrieval chain": of_documents,
    "an assigned answer": lambda chat: STEPS | RunnablePassthrough.assign(answer=PROMPT | chat),
    "a text among others": lambda chat: (
        STEPS
        | RunnableParallel(answer=PROMPT | chat | StrOutputParser(), asked=itemgetter("input"))
    ),
    "an answer alone": lambda chat: STEPS | RunnableParallel(answer=PROMPT | chat),
}


@pytest.mark.parametrize("kind", STREAMED)
def test_a_streamed_dict_gets_it_with_the_last_piece_of_an_attributed_chain(
    tiny_chat: ChatHuggingFace, handler: Handler, kind: str
) -> None:
    chain = STREAMED[kind](tiny_chat)
    pieces = list(chain.stream(QUESTION, {"callbacks": [handler]}))
    assert not any("attribution" in piece for piece in pieces)
    told = [piece["answer"] for piece in pieces if "answer" in piece]
    answer = "".join(getattr(piece, "text", piece) for piece in told)
    assert handler.last is not None and answer[handler.last.summary["start"] :].strip()
    *_, last = with_attribution(chain, tiny_chat, **EXACT).stream(QUESTION)
    check(last)
