"""The generation, the documents and the answer that belong together, where it is not obvious."""

import contextvars
from operator import itemgetter
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from chains import ByName, Given, joined, rag
from conftest import DOCUMENTS, QUESTION, chat_of
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_huggingface import ChatHuggingFace
from support.patience import scaled
from support.tiny_models import endless
from unit_tests.test_background import Held

from attribot_rag import LanguageModel
from langchain_attribot import AttributionCallbackHandler, attribute

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


@pytest.fixture(scope="module")
def constant(tiny: LanguageModel) -> ChatHuggingFace:
    """Answers everything with the same words."""
    suppressed = [i for i in range(tiny.vocabulary_size) if i != 1000]
    return chat_of(tiny, max_new_tokens=4, suppress_tokens=suppressed)


def test_a_question_that_is_asked_again_has_its_own_prompt_scored(
    constant: ChatHuggingFace,
) -> None:
    first = [HumanMessage(f"{joined(DOCUMENTS)}\n\n{QUESTION}")]
    second = [*first, AIMessage("It is high."), *first]
    config: Any = {"metadata": {"attribot_documents": list(DOCUMENTS)}}
    truth = []
    for messages in (first, second):
        alone = AttributionCallbackHandler(constant, **EXACT)
        constant.invoke(messages, config={**config, "callbacks": [alone]})
        assert alone.last is not None and alone.last.attribution is not None
        truth.append(alone.last.attribution)
    assert abs(truth[0].matrix - truth[1].matrix).max() > 1e-4
    gate = Held()
    handler = AttributionCallbackHandler(constant, mode="background", verdicts=None, method=gate)
    ids = [uuid4(), uuid4()]
    for messages, run_id in zip((first, second), ids, strict=True):
        constant.invoke(messages, config={**config, "callbacks": [handler], "run_id": run_id})
    gate.go.set()
    for run_id, expected in zip(ids, truth, strict=True):
        attribution = handler.result(run_id, timeout=scaled(60)).attribution
        assert attribution is not None
        assert attribution.provenance.prompt_tokens == expected.provenance.prompt_tokens
        np.testing.assert_allclose(attribution.matrix, expected.matrix, atol=1e-4)


def test_documents_of_an_outer_step_count_if_they_are_in_the_prompt(
    tiny_chat: ChatHuggingFace,
) -> None:
    shot = Document(page_content="Question: how old is it? Answer: old.", id="shot")
    template = "{examples}\n\n{context}\n\n{question}"

    def ask(texts: dict[str, str]) -> str:
        return template.format(**texts)

    chain = {
        "context": Given(documents=[DOCUMENTS[1]]) | joined,
        "question": RunnablePassthrough(),
    } | RunnablePassthrough.assign(
        answer={
            "examples": itemgetter("question") | Given(documents=[shot]) | joined,
            "context": itemgetter("context"),
            "question": itemgetter("question"),
        }
        | RunnableLambda(ask)
        | tiny_chat
    )
    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    result = chain.invoke(QUESTION, config={"callbacks": [handler]})
    summary = result["answer"].response_metadata["attribution"]
    assert {document["id"] for document in summary["documents"]} == {"shot", "lighthouse"}
    assert all(document["located"] for document in summary["documents"])


def squashed(documents: list[Document]) -> str:
    return " ".join(" ".join(document.page_content.split()) for document in documents)


def test_a_second_answer_from_the_same_documents_is_attributed_too(
    tiny_chat: ChatHuggingFace,
) -> None:
    spaced = [document.model_copy(deep=True) for document in DOCUMENTS]
    for document in spaced:
        document.page_content = document.page_content.replace(". ", ".\n\n")
    retriever = Given(documents=spaced)

    def ask(question: str) -> str:
        context = squashed(retriever.invoke(question))
        draft = tiny_chat.invoke(f"{context}\n\n{question}")
        better = tiny_chat.invoke(f"{context}\n\nImprove this: {draft.content}\n\n{question}")
        assert "attribution" in draft.response_metadata
        assert "attribution" in better.response_metadata
        return str(better.content)

    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    run_id = uuid4()
    answer = RunnableLambda(ask).invoke(QUESTION, config={"callbacks": [handler], "run_id": run_id})
    attribution = handler.results[run_id].attribution
    assert attribution is not None
    assert attribution.response == answer


def test_a_root_stands_for_the_answer_that_it_gave(
    tiny: LanguageModel, tiny_chat: ChatHuggingFace
) -> None:
    checking = chat_of(tiny, max_new_tokens=9)
    retriever = Given(documents=DOCUMENTS)

    def ask(question: str) -> str:
        documents = joined(retriever.invoke(question))
        answer = tiny_chat.invoke(f"{documents}\n\n{question}")
        check = checking.invoke(f"{documents}\n\nIs this right? {answer.content}")
        assert "attribution" in check.response_metadata
        assert answer.content != check.content
        return str(answer.content)

    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    run_id = uuid4()
    config: Any = {"callbacks": [handler], "run_id": run_id}
    answer = RunnableLambda(ask).invoke(QUESTION, config=config)
    attribution = handler.results[run_id].attribution
    assert attribution is not None
    assert attribution.response == answer


def test_a_key_of_the_chain_s_own_stays(tiny_chat: ChatHuggingFace) -> None:
    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    chain = rag(Given(documents=DOCUMENTS), tiny_chat) | (
        lambda message: {"text": message.content, "attribution": "CC-BY"}
    )
    assert chain.invoke(QUESTION, {"callbacks": [handler]})["attribution"] == "CC-BY"


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


@pytest.mark.parametrize("mode", ["inline", "background"])
def test_as_many_runs_are_kept_as_were_asked_for(tiny_chat: ChatHuggingFace, mode: Any) -> None:
    handler = AttributionCallbackHandler(tiny_chat, mode=mode, max_results=2, **EXACT)
    chain = rag(Given(documents=DOCUMENTS), tiny_chat).with_config(callbacks=[handler])
    ids = [uuid4() for _ in range(4)]
    for run_id in ids:
        message = chain.invoke(QUESTION, config={"run_id": run_id})
        assert "run_id" in message.response_metadata["attribution"]
        handler.result(run_id, timeout=scaled(60))
    assert len(handler.results) == 2
    assert [run_id in handler.results for run_id in map(str, ids)] == [False, False, True, True]


def test_a_dict_that_the_chain_keeps_carries_no_old_attribution(
    tiny_chat: ChatHuggingFace,
) -> None:
    kept: dict[str, Any] = {}

    def ask(name: str) -> dict[str, Any]:
        kept["answer"] = (rag(ByName(), tiny_chat)).invoke(name).content
        return kept

    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    for name in ("first", "second"):
        result = RunnableLambda(ask).invoke(name, config={"callbacks": [handler]})
        assert [document["id"] for document in result["attribution"]["documents"]] == [
            f"document {name}"
        ]
    nothing = RunnableLambda(ask).invoke("nothing", config={"callbacks": [handler]})
    assert "attribution" not in nothing


def test_an_answer_that_another_model_repeats_needs_the_same_documents(
    tiny_chat: ChatHuggingFace,
) -> None:
    def ask(_: str) -> list[Any]:
        first = rag(ByName(), tiny_chat).invoke("first")
        parrot = FakeListChatModel(responses=[str(first.content)])
        return [first, rag(ByName(), parrot).invoke("second")]

    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    first, second = RunnableLambda(ask).invoke("both", config={"callbacks": [handler]})
    assert first.response_metadata["attribution"]["status"] == "complete"
    assert second.response_metadata["attribution"]["error"]["type"] == "NotRecorded"


def test_metadata_with_keys_of_every_kind(tiny_chat: ChatHuggingFace) -> None:
    odd = DOCUMENTS[0].model_copy(update={"metadata": {1: "one", "two": 2, None: {3, 4}}})
    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    message = rag(Given(documents=[odd]), tiny_chat).invoke(QUESTION, {"callbacks": [handler]})
    assert message.response_metadata["attribution"]["status"] == "complete"
