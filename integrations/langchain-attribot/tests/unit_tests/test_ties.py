"""The generation, the documents and the answer that belong together, where it is not obvious."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from chains import PROMPT, ByName, Given, joined, rag
from conftest import DOCUMENTS, QUESTION, Chat, Handler, Making, chat_of, summary_of
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from support.patience import scaled
from support.stubborn_methods import WaitingMethod
from support.summaries import attribution_of, located_ids

from attribot_rag import LocalModel


def test_a_question_asked_again_has_its_own_prompt(tiny: LocalModel, making: Making) -> None:
    suppressed = [token for token in range(tiny.vocabulary_size) if token != 1000]
    chat = chat_of(tiny, max_new_tokens=4, suppress_tokens=suppressed)  # always the same words
    first = [HumanMessage(f"{joined(DOCUMENTS)}\n\n{QUESTION}")]
    prompts = [first, [*first, AIMessage("It is high."), *first]]
    config: Any = {"metadata": {"attribot_documents": list(DOCUMENTS)}}
    truth = []
    for messages in prompts:
        alone = making(chat)
        chat.invoke(messages, {**config, "callbacks": [alone]})
        truth.append(attribution_of(alone.last))
    assert abs(truth[0].matrix - truth[1].matrix).max() > 1e-4
    gate = WaitingMethod()
    handler = making(chat, mode="background", method=gate)
    ids = [uuid4(), uuid4()]
    for messages, run_id in zip(prompts, ids, strict=True):
        chat.invoke(messages, {**config, "callbacks": [handler], "run_id": run_id})
    gate.allowed.set()
    for run_id, expected in zip(ids, truth, strict=True):
        attribution = attribution_of(handler.result(run_id, timeout=scaled(60)))
        assert attribution.provenance.prompt_tokens == expected.provenance.prompt_tokens
        np.testing.assert_allclose(attribution.matrix, expected.matrix, atol=1e-4)


@pytest.mark.parametrize("which", [0, 1])
def test_a_root_stands_for_the_answer_that_it_gave(
    tiny: LocalModel, tiny_chat: Chat, handler: Handler, which: int
) -> None:
    improving = chat_of(tiny, max_new_tokens=9)
    spaced = [document.model_copy(deep=True) for document in DOCUMENTS]
    for document in spaced:
        document.page_content = document.page_content.replace(". ", ".\n\n")

    def ask(question: str) -> str:
        documents = Given(documents=spaced).invoke(question)
        context = " ".join(joined(documents).split())
        draft = tiny_chat.invoke(f"{context}\n\n{question}")
        better = improving.invoke(f"{context}\n\nImprove this: {draft.content}\n\n{question}")
        answers = (draft, better)
        assert all("attribution" in answer.response_metadata for answer in answers)
        assert draft.content != better.content
        return str(answers[which].content)

    run_id = uuid4()
    answer = RunnableLambda(ask).invoke(QUESTION, {"callbacks": [handler], "run_id": run_id})
    assert attribution_of(handler.results[run_id]).response == answer


def test_a_repeated_answer_needs_the_same_documents(tiny_chat: Chat, handler: Handler) -> None:
    def ask(_: str) -> list[Any]:
        first = rag(ByName(), tiny_chat).invoke("first")
        parrot = FakeListChatModel(responses=[str(first.content)])
        return [first, rag(ByName(), parrot).invoke("second")]

    first, second = RunnableLambda(ask).invoke("both", {"callbacks": [handler]})
    summary_of(first)
    assert summary_of(second, "error")["error"]["type"] == "NotRecorded"


def test_documents_may_be_passed_in(tiny_chat: Chat, handler: Handler) -> None:
    chain = RunnablePassthrough.assign(context=lambda state: joined(state["context"])) | (
        PROMPT | tiny_chat
    )
    odd = DOCUMENTS[0].model_copy(update={"metadata": {1: "one", "two": 2, None: {3, 4}}})
    state = {"context": [odd, DOCUMENTS[1]], "question": QUESTION}
    summary = summary_of(chain.invoke(state, {"callbacks": [handler]}))
    assert len(summary["documents"]) == 2


def test_metadata_names_documents_of_a_formatted_prompt(tiny_chat: Chat, handler: Handler) -> None:
    first = {"page_content": DOCUMENTS[0].page_content, "id": "a"}
    metadata = {"attribot_documents": [first, DOCUMENTS[1]]}
    config: Any = {"callbacks": [handler], "metadata": metadata}
    message = tiny_chat.invoke(f"{joined(DOCUMENTS)}\n\n{QUESTION}", config)
    assert len(located_ids(summary_of(message))) == 2


CHANGES: dict[str, Callable[[str], str]] = {
    "cut": lambda text: text[:55] + "...",
    "Markdown stripped": lambda text: text.replace("**", "").replace("# ", ""),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_documents_that_the_chain_changes_are_located(
    tiny_chat: Chat, handler: Handler, change: Callable[[str], str]
) -> None:
    texts = [document.page_content.replace("The", "**The**") for document in DOCUMENTS]
    retriever = Given(
        documents=[
            document.model_copy(update={"page_content": text})
            for document, text in zip(DOCUMENTS, texts, strict=True)
        ]
    )

    def formatted(documents: list[Document]) -> str:
        return "\n\n".join(change(document.page_content) for document in documents)

    steps = {"context": retriever | formatted, "question": RunnablePassthrough()}
    message = (steps | PROMPT | tiny_chat).invoke(QUESTION, {"callbacks": [handler]})
    summary = summary_of(message)
    assert sorted(located_ids(summary)) == ["ferry", "lighthouse"]
    shown = " ".join(change(text) for text in texts)
    assert all(source["text"] in shown for source in summary["sources"])
    assert sorted(source["documents"] for source in summary["sources"]) == [[0], [0], [1], [1]]
