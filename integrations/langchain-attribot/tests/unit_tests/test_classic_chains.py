"""Chains of langchain-classic: results that are copies, and dicts that are streamed."""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest
from chains import Given
from conftest import DOCUMENTS, QUESTION
from langchain_classic.chains import RetrievalQA, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableParallel, RunnablePassthrough
from langchain_huggingface import ChatHuggingFace

from langchain_attribot import AttributionCallbackHandler, with_attribution

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


@pytest.fixture
def chain(tiny_chat: ChatHuggingFace) -> RetrievalQA:
    return RetrievalQA.from_chain_type(tiny_chat, retriever=Given(documents=DOCUMENTS))


def test_an_attributed_one_gives_its_result_with_the_attribution(chain: RetrievalQA) -> None:
    result = with_attribution(chain, **EXACT).invoke({"query": QUESTION})
    assert result["answer"]["query"] == QUESTION
    summary = result["attribution"]
    assert summary is not None and summary["status"] == "complete"
    assert summary["offsets"] == "shown"
    assert result["answer"]["result"][summary["start"] : summary["end"]] == summary["answer"]
    assert [document.id for document in result["documents"]] == ["ferry", "lighthouse"]


def test_the_handler_knows_its_run_and_its_outputs_alone_carry_it(
    chain: RetrievalQA, tiny_chat: ChatHuggingFace
) -> None:
    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    config: Any = {"callbacks": [handler]}
    result = chain.invoke({"query": QUESTION}, config)
    assert set(result) == {"query", "result"}
    assert handler.last is not None and handler.last.text == result["result"]
    outputs = chain.invoke({"query": QUESTION}, config, return_only_outputs=True)
    assert outputs["attribution"] == handler.last.summary
    handler.close()


PROMPT = ChatPromptTemplate.from_template("{context}\n\nAnswer: {input}")
STEPS: dict[str, Any] = {"context": Given(documents=DOCUMENTS), "input": RunnablePassthrough()}


def of_documents(chat: ChatHuggingFace) -> Any:
    combine = create_stuff_documents_chain(chat, PROMPT)
    return (lambda question: {"input": question}) | create_retrieval_chain(
        Given(documents=DOCUMENTS), combine
    )


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
    tiny_chat: ChatHuggingFace, kind: str
) -> None:
    chain = STREAMED[kind](tiny_chat)
    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    pieces = list(chain.stream(QUESTION, {"callbacks": [handler]}))
    assert not any("attribution" in piece for piece in pieces)
    told = [piece["answer"] for piece in pieces if "answer" in piece]
    answer = "".join(getattr(piece, "text", piece) for piece in told)
    assert handler.last is not None and answer[handler.last.summary["start"] :].strip()
    handler.close()
    *_, last = with_attribution(chain, tiny_chat, **EXACT).stream(QUESTION)
    assert last["attribution"]["status"] == "complete"
    assert [document.id for document in last["documents"]] == ["ferry", "lighthouse"]
