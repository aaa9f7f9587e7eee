"""RetrievalQA, whose result is a copy of what its callbacks are told."""

from typing import Any

import pytest
from chains import Given
from conftest import DOCUMENTS, QUESTION
from langchain_classic.chains import RetrievalQA
from langchain_huggingface import ChatHuggingFace

from langchain_attribot import AttributionCallbackHandler, with_attribution

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


@pytest.fixture
def chain(tiny_chat: ChatHuggingFace) -> RetrievalQA:
    return RetrievalQA.from_chain_type(tiny_chat, retriever=Given(documents=DOCUMENTS))


def test_an_attributed_one_gives_its_result_with_the_attribution(chain: RetrievalQA) -> None:
    found = with_attribution(chain, **EXACT).invoke({"query": QUESTION})
    assert found["answer"]["query"] == QUESTION
    summary = found["attribution"]
    assert summary is not None and summary["status"] == "complete"
    assert summary["offsets"] == "shown"
    assert found["answer"]["result"][summary["start"] : summary["end"]] == summary["answer"]
    assert [one.id for one in found["documents"]] == ["ferry", "lighthouse"]


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
