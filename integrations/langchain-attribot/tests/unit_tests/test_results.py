"""Results that chains make of answers: positions are those of the text that the caller got."""

from collections.abc import Callable
from operator import itemgetter
from typing import Any
from uuid import uuid4

import pytest
from chains import ByName, Given, rag
from conftest import DOCUMENTS, QUESTION, Chain, Chat, Handler, Making
from langchain_classic.chains import RetrievalQA, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from support.patience import scaled
from support.summaries import EXACT, attribution_of, checked, located_ids

from langchain_attribot import citations_of, with_attribution


def check(summary: dict[str, Any], shown: str) -> None:
    """Its positions are those of this text."""
    assert checked(summary)["offsets"] == "shown"
    assert summary["sentences"]
    assert summary["end"] > summary["start"]
    for sentence in summary["sentences"]:
        assert shown[sentence["start"] : sentence["end"]] == sentence["text"]


CHANGES: list[Callable[[str], str]] = [
    str,
    str.upper,
    lambda text: f"\n\n{text}\n\nSources: ferry.md",
    lambda text: text[len(text) // 3 :],
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_parser_s_text(chain: Chain, making: Making, change: Any) -> None:
    handler = making(mode="background")
    run_id = uuid4()
    changed = chain | StrOutputParser() | RunnableLambda(change)
    shown = changed.invoke(QUESTION, {"run_id": run_id, "callbacks": [handler]})
    run = handler.result(run_id, timeout=scaled(60))
    check(run.summary, shown)
    assert run is handler.last is handler.results[run_id]
    assert attribution_of(run).response == run.text  # the model's own


def test_a_changed_message(chain: Chain, making: Making) -> None:
    originals: list[AIMessage] = []

    def changed(message: AIMessage) -> AIMessage:
        originals.append(message)
        return message.model_copy(update={"content": f"Well: {message.text}"})

    message = (chain | changed).invoke(QUESTION, {"callbacks": [making(citations=True)]})
    check(message.response_metadata["attribution"], message.text)
    check(originals[0].response_metadata["attribution"], originals[0].text)
    assert message.response_metadata["attribution"]["start"] == len("Well: ")


@pytest.mark.parametrize("change", [len, lambda _: "Ask somebody else, dear friend."])
def test_another_result_has_the_positions_of_the_model_s_answer(chain: Chain, change: Any) -> None:
    changed = chain | StrOutputParser() | RunnableLambda(change)
    summary = checked(with_attribution(changed, **EXACT).invoke(QUESTION)["attribution"])
    assert summary["offsets"] == "answer"
    assert "characters of the model's own answer" in summary["notes"][0]
    assert citations_of(AIMessage("?", response_metadata={"attribution": summary})) == []


def test_a_key_of_the_chain_s_own_stays(chain: Chain, handler: Handler) -> None:
    licensed = chain | (lambda message: {"text": message.content, "attribution": "CC-BY"})
    assert licensed.invoke(QUESTION, {"callbacks": [handler]})["attribution"] == "CC-BY"


def test_a_dict_that_is_kept_has_no_old_attribution(tiny_chat: Chat, handler: Handler) -> None:
    kept: dict[str, Any] = {}

    def ask(name: str) -> dict[str, Any]:
        kept["answer"] = rag(ByName(), tiny_chat).invoke(name).content
        return kept

    chain = RunnableLambda(ask).with_config(callbacks=[handler])
    for name in ("first", "second"):
        assert located_ids(chain.invoke(name)["attribution"]) == [f"document {name}"]
    assert "attribution" not in chain.invoke("nothing")


RETRIEVER = Given(documents=DOCUMENTS)


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")
def test_a_result_that_is_a_copy(tiny_chat: Chat, handler: Handler) -> None:
    chain = RetrievalQA.from_chain_type(tiny_chat, retriever=RETRIEVER)
    attributed = with_attribution(chain, **EXACT).invoke({"query": QUESTION})
    answer, summary = attributed["answer"], attributed["attribution"]
    assert answer["query"] == QUESTION
    check(summary, answer["result"])
    assert answer["result"][summary["start"] : summary["end"]] == summary["answer"]
    assert [document.id for document in attributed["documents"]] == ["ferry", "lighthouse"]
    # The handler knows its run; only outputs that are no copy carry it.
    result = chain.invoke({"query": QUESTION}, {"callbacks": [handler]})
    assert set(result) == {"query", "result"}
    assert handler.last is not None and handler.last.text == result["result"]
    config: Any = {"callbacks": [handler]}
    outputs = chain.invoke({"query": QUESTION}, config, return_only_outputs=True)
    assert outputs["attribution"] == handler.last.summary


PROMPT = ChatPromptTemplate.from_template("{context}\n\nAnswer: {input}")
STEPS: dict[str, Any] = {"context": RETRIEVER, "input": RunnablePassthrough()}


def of_documents(chat: Chat) -> Any:
    combine = create_stuff_documents_chain(chat, PROMPT)
    return (lambda question: {"input": question}) | create_retrieval_chain(RETRIEVER, combine)


STREAMED: dict[str, Callable[[Chat], Any]] = {
    "a retrieval chain": of_documents,
    "an assigned answer": lambda chat: STEPS | RunnablePassthrough.assign(answer=PROMPT | chat),
    "a text among others": lambda chat: (
        STEPS
        | RunnableParallel(answer=PROMPT | chat | StrOutputParser(), asked=itemgetter("input"))
    ),
    "an answer alone": lambda chat: STEPS | RunnableParallel(answer=PROMPT | chat),
}


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")
@pytest.mark.parametrize("kind", STREAMED)
def test_a_streamed_dict_gets_it_with_the_last_piece_of_an_attributed_chain(
    tiny_chat: Chat, handler: Handler, kind: str
) -> None:
    chain = STREAMED[kind](tiny_chat)
    pieces = list(chain.stream(QUESTION, {"callbacks": [handler]}))
    assert not any("attribution" in piece for piece in pieces)
    parts = [piece["answer"] for piece in pieces if "answer" in piece]
    answer = "".join(getattr(piece, "text", piece) for piece in parts)
    assert handler.last is not None and answer[handler.last.summary["start"] :].strip()
    *_, last = with_attribution(chain, tiny_chat, **EXACT).stream(QUESTION)
    checked(last["attribution"])
    assert [document.id for document in last["documents"]] == ["ferry", "lighthouse"]
