"""The generation, the documents and the answer that belong together, where it is not obvious."""

import contextvars
from operator import itemgetter
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from chains import ByName, Given, joined, rag
from conftest import DOCUMENTS, QUESTION, Chain, Handler, Making, chat_of, summary_of
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_huggingface import ChatHuggingFace
from support.patience import scaled
from support.stubborn_methods import Held
from support.summaries import EXACT, attribution_of, located_ids
from support.tiny_models import endless

from attribot_rag import LanguageModel
from langchain_attribot import attribute


def test_a_question_that_is_asked_again_has_its_own_prompt_scored(
    tiny: LanguageModel, making: Making
) -> None:
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
    gate = Held()
    handler = making(chat, mode="background", method=gate)
    ids = [uuid4(), uuid4()]
    for messages, run_id in zip(prompts, ids, strict=True):
        chat.invoke(messages, {**config, "callbacks": [handler], "run_id": run_id})
    gate.allowed.set()
    for run_id, expected in zip(ids, truth, strict=True):
        attribution = attribution_of(handler.result(run_id, timeout=scaled(60)))
        assert attribution.provenance.prompt_tokens == expected.provenance.prompt_tokens
        np.testing.assert_allclose(attribution.matrix, expected.matrix, atol=1e-4)


def test_documents_of_an_outer_step_count_if_they_are_in_the_prompt(
    tiny_chat: ChatHuggingFace, handler: Handler
) -> None:
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
    tiny: LanguageModel, tiny_chat: ChatHuggingFace, handler: Handler, which: int
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


def test_a_key_of_the_chain_s_own_stays(chain: Chain, handler: Handler) -> None:
    licensed = chain | (lambda message: {"text": message.content, "attribution": "CC-BY"})
    assert licensed.invoke(QUESTION, {"callbacks": [handler]})["attribution"] == "CC-BY"


def test_a_dict_that_the_chain_keeps_carries_no_old_attribution(
    tiny_chat: ChatHuggingFace, handler: Handler
) -> None:
    kept: dict[str, Any] = {}

    def ask(name: str) -> dict[str, Any]:
        kept["answer"] = rag(ByName(), tiny_chat).invoke(name).content
        return kept

    chain = RunnableLambda(ask).with_config(callbacks=[handler])
    for name in ("first", "second"):
        assert located_ids(chain.invoke(name)["attribution"]) == [f"document {name}"]
    assert "attribution" not in chain.invoke("nothing")


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


def test_an_answer_that_another_model_repeats_needs_the_same_documents(
    tiny_chat: ChatHuggingFace, handler: Handler
) -> None:
    def ask(_: str) -> list[Any]:
        first = rag(ByName(), tiny_chat).invoke("first")
        parrot = FakeListChatModel(responses=[str(first.content)])
        return [first, rag(ByName(), parrot).invoke("second")]

    first, second = RunnableLambda(ask).invoke("both", {"callbacks": [handler]})
    summary_of(first)
    assert summary_of(second, "error")["error"]["type"] == "NotRecorded"
