"""The generation, the documents and the answer that belong together, where it is not obvious."""

from typing import Any
from uuid import uuid4

import pytest
from chains import PROMPT, ByName, Given, joined, rag
from conftest import DOCUMENTS, QUESTION, Chat, Handler, chat_of, summary_of
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from support.summaries import attribution_of, located_ids

from attribot_rag import LocalModel


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
