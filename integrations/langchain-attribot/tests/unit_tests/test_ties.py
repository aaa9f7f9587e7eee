"""The generation, the documents and the answer that belong together, where it is not obvious."""

import contextvars
from collections.abc import Callable
from operator import itemgetter
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
from support.summaries import EXACT, attribution_of, located_ids
from support.tiny_models import endless

from attribot_rag import LanguageModel
from langchain_attribot import attribute


def test_a_question_asked_again_has_its_own_prompt(tiny: LanguageModel, making: Making) -> None:
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


def test_documents_of_an_outer_step_count_in_the_prompt(tiny_chat: Chat, handler: Handler) -> None:
    shot = Document(page_content="Question: how old is it? Answer: old.", id="shot")
    prompt = RunnableLambda(lambda texts: "{examples}\n\n{context}\n\n{question}".format(**texts))
    chain = {
        "context": Given(documents=[DOCUMENTS[1]]) | joined,
        "question": RunnablePassthrough(),
    } | RunnablePassthrough.assign(
        answer={
            "examples": itemgetter("question") | Given(documents=[shot]) | joined,
            "context": itemgetter("context"),
            "question": itemgetter("question"),
        }
        | prompt
        | tiny_chat
    )
    result = chain.invoke(QUESTION, {"callbacks": [handler]})
    assert set(located_ids(summary_of(result["answer"]))) == {"shot", "lighthouse"}


@pytest.mark.parametrize("which", [0, 1])
def test_a_root_stands_for_the_answer_that_it_gave(
    tiny: LanguageModel, tiny_chat: Chat, handler: Handler, which: int
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


def test_a_block_within_a_generator_may_end_elsewhere(tiny: LanguageModel) -> None:
    own = endless(tiny.tokenizer)  # which no handler of another test still records
    chat = chat_of(own, max_new_tokens=4)

    def streamed() -> Any:
        with attribute(chat, **EXACT) as run:
            yield from rag(Given(documents=DOCUMENTS), chat).stream(QUESTION)
            assert run.last is not None

    stream = streamed()
    while contextvars.copy_context().run(next, stream, None) is not None:
        pass
    assert "generate" not in vars(own.model)


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


@pytest.mark.parametrize(
    "form", [str, lambda text: {"page_content": text, "id": "a"}], ids=["text", "dict"]
)
def test_metadata_names_documents_of_a_formatted_prompt(
    tiny_chat: Chat, handler: Handler, form: Callable[[str], Any]
) -> None:
    metadata = {"attribot_documents": [form(DOCUMENTS[0].page_content), DOCUMENTS[1]]}
    config: Any = {"callbacks": [handler], "metadata": metadata}
    message = tiny_chat.invoke(f"{joined(DOCUMENTS)}\n\n{QUESTION}", config)
    assert len(located_ids(summary_of(message))) == 2


def test_a_retriever_within_a_retriever_counts_once(tiny_chat: Chat, handler: Handler) -> None:
    class Reranked(Given):
        inner: Given

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            config: Any = {"callbacks": run_manager.get_child()}
            *_, best = self.inner.invoke(query, config)
            return [best.model_copy(update={"metadata": {**best.metadata, "rank": 0}})]

    retriever = Reranked(documents=[], inner=Given(documents=DOCUMENTS))
    message = rag(retriever, tiny_chat).invoke(QUESTION, {"callbacks": [handler]})
    (document,) = summary_of(message)["documents"]
    assert document["id"] == "lighthouse"
    assert document["metadata"]["rank"] == 0


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


def test_a_step_that_changes_documents_is_followed(tiny_chat: Chat, handler: Handler) -> None:
    def shortened(documents: list[Document]) -> list[Document]:
        return [
            document.model_copy(update={"page_content": document.page_content.split(".")[0] + "!"})
            for document in documents
        ]

    chain = rag(Given(documents=DOCUMENTS) | shortened, tiny_chat)
    summary = summary_of(chain.invoke(QUESTION, {"callbacks": [handler]}))
    texts = {source["text"] for source in summary["sources"]}
    assert "The lighthouse is 38 metres high!" in texts
    assert sorted(located_ids(summary)) == ["ferry", "lighthouse"]
