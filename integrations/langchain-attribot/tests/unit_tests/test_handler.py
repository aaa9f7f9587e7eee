"""The summary that the handler attaches, and its place."""

import asyncio
import json
import logging
import warnings
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import jsonschema
import numpy as np
import pytest
from chains import PROMPT, ByName, Given, joined, rag
from conftest import DOCUMENTS, QUESTION, chat_of, llm_of
from langchain_core.caches import InMemoryCache
from langchain_core.documents import Document
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import BaseOutputParser, StrOutputParser
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tracers import BaseTracer, Run
from langchain_huggingface import ChatHuggingFace

from attribot_rag import Attributor, LanguageModel, LeaveOneOut
from attribot_rag.attribution.schema import summary_schema
from attribot_rag.errors import InvalidInput
from langchain_attribot import AttributionCallbackHandler, attribute, citations_of

EXACT = {"method": "leave_one_out", "verdicts": None}


def attributed(message: BaseMessage) -> dict[str, Any]:
    summary: dict[str, Any] = message.response_metadata["attribution"]
    assert summary["status"] == "complete", summary
    assert len(json.dumps(summary)) <= 16_384
    return summary


@pytest.fixture
def handler(tiny_chat: ChatHuggingFace) -> AttributionCallbackHandler:
    return AttributionCallbackHandler(tiny_chat, **EXACT)


def test_the_message_of_a_chain_carries_its_attribution(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    chain = rag(Given(documents=DOCUMENTS), tiny_chat).with_config(callbacks=[handler])
    run_id = uuid4()
    message = chain.invoke(QUESTION, config={"run_id": run_id})
    summary = attributed(message)
    assert {document["id"] for document in summary["documents"]} == {"ferry", "lighthouse"}
    assert not summary["retokenized"]
    assert len(summary["sources"]) == 4
    run = handler.results[run_id]
    assert run is handler.last
    assert run.summary == summary
    assert run.attribution is not None
    assert run.attribution.response == message.content
    assert "The answer was cut at 6 tokens (max_new_tokens)." in summary["notes"]
    message.model_dump_json()


def test_scores_are_those_of_the_core_for_the_same_generation(
    tiny: LanguageModel, tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    chain = rag(Given(documents=DOCUMENTS), tiny_chat).with_config(callbacks=[handler])
    attributor = Attributor(tiny.model, tiny.tokenizer, progress=False, **EXACT)
    with attributor.recorder:
        message = chain.invoke(QUESTION)
    (generation,) = attributor.recorder.generations
    truth = attributor.attribute_generation(generation, DOCUMENTS)
    assert handler.last is not None and handler.last.attribution is not None
    np.testing.assert_allclose(handler.last.attribution.matrix, truth.matrix, atol=1e-4)
    assert handler.last.attribution.response == message.content
    assert truth.response == message.content.strip()


@pytest.mark.parametrize("full_text", [False, True])
def test_the_answer_part_excludes_the_prompt(tiny: LanguageModel, full_text: bool) -> None:
    chat = chat_of(tiny, max_new_tokens=6, return_full_text=full_text)
    handler = AttributionCallbackHandler(chat, **EXACT)
    message = rag(Given(documents=DOCUMENTS), chat).invoke(QUESTION, {"callbacks": [handler]})
    summary = attributed(message)
    assert handler.last is not None and handler.last.attribution is not None
    response = handler.last.attribution.response
    assert message.content[summary["start"] : summary["end"]] == response
    assert (summary["start"] > 0) == full_text
    assert "38 metres" not in response


def test_batch_and_parallel_carry_it_too(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    chain = rag(Given(documents=DOCUMENTS), tiny_chat)
    both = RunnableParallel(left=chain, right=chain).with_config(callbacks=[handler])
    for outputs in both.batch([QUESTION, "What costs 18 crowns?"]):
        for side in ("left", "right"):
            attributed(outputs[side])
        assert outputs["attribution"]["status"] == "complete"


def test_the_sum_of_streamed_chunks_carries_it(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    chain = rag(Given(documents=DOCUMENTS), tiny_chat).with_config(callbacks=[handler])
    pieces = list(chain.stream(QUESTION))
    with_it = [piece for piece in pieces if "attribution" in piece.response_metadata]
    assert with_it == [pieces[-1]]
    total = pieces[0]
    for piece in pieces[1:]:
        total = total + piece
    summary = attributed(total)
    assert handler.last is not None and handler.last.attribution is not None
    assert handler.last.attribution.response == total.content
    assert not summary["retokenized"]
    assert len(handler.results) == 1


def test_an_asynchronous_stream_carries_it(
    tiny: LanguageModel, handler: AttributionCallbackHandler
) -> None:
    class Streaming(ChatHuggingFace):
        """Upstream streams asynchronously from endpoints only."""

        async def _astream(self, messages, stop=None, run_manager=None, **options):  # type: ignore[no-untyped-def]
            for chunk in self._stream(messages, stop=stop):
                yield chunk

    chat = Streaming(llm=llm_of(tiny, max_new_tokens=4), tokenizer=tiny.tokenizer)
    chain = rag(Given(documents=DOCUMENTS), chat).with_config(callbacks=[handler])

    async def ask() -> list[BaseMessage]:
        return [piece async for piece in chain.astream(QUESTION)]

    assert attributed(asyncio.run(ask())[-1])


def test_events_tell_of_it(tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler) -> None:
    ask = RunnableLambda(lambda prompt, config: tiny_chat.invoke(prompt, config))
    chain = rag(Given(documents=DOCUMENTS), ask).with_config(callbacks=[handler])

    async def events() -> list[Any]:
        return [event async for event in chain.astream_events(QUESTION, version="v2")]

    told = [run for run in asyncio.run(events()) if run["event"] == "on_custom_event"]
    assert [run["name"] for run in told] == ["attribution"]
    assert told[0]["data"]["status"] == "complete"


def test_a_text_result_is_found_by_the_id_of_its_run(tiny: LanguageModel) -> None:
    llm = llm_of(tiny, max_new_tokens=6)
    handler = AttributionCallbackHandler(llm, **EXACT)
    run_ids = [uuid4(), uuid4()]
    for chain, run_id in zip(
        (rag(ByName(), llm), rag(ByName(), chat_of(tiny)) | StrOutputParser()), run_ids, strict=True
    ):
        answer = chain.invoke("A", config={"run_id": run_id, "callbacks": [handler]})
        assert isinstance(answer, str)
        attribution = handler.results[run_id].attribution
        assert attribution is not None
        assert answer == attribution.response
        assert handler.result(str(run_id)) is handler.results[run_id]


def test_a_dict_result_has_a_key_of_its_own(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    answer = rag(ByName(), tiny_chat) | StrOutputParser()
    chain = RunnablePassthrough.assign(answer=lambda given: answer.invoke(given["name"]))
    result = chain.invoke({"name": "A"}, config={"callbacks": [handler]})
    assert result["attribution"]["documents"][0]["id"] == "document A"
    assert result["answer"]


def test_documents_may_be_passed_in(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    chain = RunnablePassthrough.assign(context=lambda state: joined(state["context"])) | (
        PROMPT | tiny_chat
    )
    state = {"context": list(DOCUMENTS), "question": QUESTION}
    summary = attributed(chain.invoke(state, config={"callbacks": [handler]}))
    assert len(summary["documents"]) == 2


@pytest.mark.parametrize("kind", ["text", "mapping", "document"])
def test_metadata_names_documents_of_a_formatted_prompt(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler, kind: str
) -> None:
    given: list[Any] = [document.page_content for document in DOCUMENTS]
    if kind == "mapping":
        given = [{"page_content": one, "id": str(i)} for i, one in enumerate(given)]
    elif kind == "document":
        given = list(DOCUMENTS)
    prompt = f"{joined(DOCUMENTS)}\n\n{QUESTION}"
    config: Any = {"callbacks": [handler], "metadata": {"attribot_documents": given}}
    summary = attributed(tiny_chat.invoke(prompt, config=config))
    assert len(summary["documents"]) == 2
    assert all(document["located"] for document in summary["documents"])


def test_only_the_call_with_documents_in_its_prompt_is_attributed(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    condense = PROMPT.partial(context="no documents") | tiny_chat
    condensed: list[BaseMessage] = []

    def ask(question: str) -> BaseMessage:
        condensed.append(condense.invoke({"question": question}))
        return rag(Given(documents=DOCUMENTS), tiny_chat).invoke(question)  # type: ignore[no-any-return]

    run_id = uuid4()
    message = RunnableLambda(ask).invoke(
        QUESTION, config={"callbacks": [handler], "run_id": run_id}
    )
    summary = attributed(message)
    assert "attribution" not in condensed[0].response_metadata
    assert str(handler.results[run_id].run_id) == summary["run_id"]
    assert summary["run_id"] in message.id


def test_a_call_that_rewrites_after_retrieval_does_not_hide_the_answer(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    retriever = Given(documents=DOCUMENTS)

    def ask(question: str) -> list[BaseMessage]:
        documents = retriever.invoke(question)
        rewritten = tiny_chat.invoke("Rewrite this question, please.")
        answer = tiny_chat.invoke(f"{joined(documents)}\n\n{question}")
        after = tiny_chat.invoke("Translate that into Danish.")
        return [rewritten, answer, after]

    run_id = uuid4()
    config: Any = {"callbacks": [handler], "run_id": run_id}
    rewritten, answer, after = RunnableLambda(ask).invoke(QUESTION, config=config)
    attributed(answer)
    assert rewritten.response_metadata["attribution"]["error"]["type"] == "DocumentsNotLocated"
    assert after.response_metadata["attribution"]["error"]["type"] == "DocumentsNotLocated"
    assert handler.results[run_id].attribution is not None
    assert handler.last is handler.results[run_id]


def test_empty_retrieval_attaches_nothing(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    message = rag(Given(documents=[]), tiny_chat).invoke(QUESTION, {"callbacks": [handler]})
    assert "attribution" not in message.response_metadata
    assert not handler.results
    with pytest.raises(InvalidInput, match="retrieved nothing"):
        handler.result(uuid4())


def test_documents_in_another_shape_are_not_located_and_never_zero(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    text = "Line one says <this>.\nLine two says 'that'.\n\n\tLine three."
    document = Document(page_content=text * 4, id="odd")
    chain = {"context": Given(documents=[document]), "question": RunnablePassthrough()} | (
        PROMPT | tiny_chat
    )
    message = chain.invoke(QUESTION, config={"callbacks": [handler]})
    summary = message.response_metadata["attribution"]
    if summary["status"] == "error":
        assert summary["error"]["type"] == "DocumentsNotLocated"
    else:
        assert all(source["score"] != 0 for source in summary["sources"])
        assert summary["notes"]


def test_a_retriever_within_a_retriever_counts_once(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    class Reranked(Given):
        inner: Given

        def _get_relevant_documents(self, query, *, run_manager):  # type: ignore[no-untyped-def]
            result = self.inner.invoke(query, config={"callbacks": run_manager.get_child()})
            return [
                document.model_copy(update={"metadata": {**document.metadata, "rank": rank}})
                for rank, document in enumerate(reversed(result))
            ][:1]

    retriever = Reranked(documents=[], inner=Given(documents=DOCUMENTS))
    summary = attributed(rag(retriever, tiny_chat).invoke(QUESTION, {"callbacks": [handler]}))
    assert [document["id"] for document in summary["documents"]] == ["lighthouse"]
    assert summary["documents"][0]["metadata"]["rank"] == 0


CHANGES: dict[str, Callable[[str], str]] = {
    "cut": lambda text: text[:55] + "...",
    "cut without a mark": lambda text: text[:55],
    "lowercased": str.lower,
    "Markdown stripped": lambda text: text.replace("**", "").replace("# ", ""),
    "wrapped": lambda text: "\n".join(text.split()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_documents_that_the_chain_changes_are_located(
    tiny_chat: ChatHuggingFace,
    handler: AttributionCallbackHandler,
    change: Callable[[str], str],
) -> None:
    texts = [document.page_content.replace("The", "**The**") for document in DOCUMENTS]
    given = [
        document.model_copy(update={"page_content": text})
        for document, text in zip(DOCUMENTS, texts, strict=True)
    ]

    def formatted(documents: list[Document]) -> str:
        return "\n\n".join(change(document.page_content) for document in documents)

    chain = {"context": Given(documents=given) | formatted, "question": RunnablePassthrough()} | (
        PROMPT | tiny_chat
    )
    summary = attributed(chain.invoke(QUESTION, config={"callbacks": [handler]}))
    assert sorted(document["id"] for document in summary["documents"]) == ["ferry", "lighthouse"]
    assert all(document["located"] for document in summary["documents"])
    assert len(summary["sources"]) == 4
    shown = " ".join(change(text) for text in texts)
    assert all(source["text"] in shown for source in summary["sources"])
    assert sorted(source["documents"] for source in summary["sources"]) == [[0], [0], [1], [1]]


def test_a_step_that_changes_documents_is_followed(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    def shortened(documents: list[Document]) -> list[Document]:
        return [
            document.model_copy(update={"page_content": document.page_content.split(".")[0] + "!"})
            for document in documents
        ]

    chain = rag(Given(documents=DOCUMENTS) | shortened, tiny_chat)
    summary = attributed(chain.invoke(QUESTION, config={"callbacks": [handler]}))
    texts = {source["text"] for source in summary["sources"]}
    assert "The lighthouse is 38 metres high!" in texts
    assert sorted(document["id"] for document in summary["documents"]) == ["ferry", "lighthouse"]
    assert all(document["located"] for document in summary["documents"])


def test_a_failure_of_attribution_leaves_the_answer_intact(
    tiny_chat: ChatHuggingFace, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(LeaveOneOut):
        def run(self, scorer):  # type: ignore[no-untyped-def]
            raise ZeroDivisionError("the scorer broke")

    handler = AttributionCallbackHandler(tiny_chat, method=Broken())
    chain = rag(Given(documents=DOCUMENTS), tiny_chat)
    plain = chain.invoke(QUESTION)
    with caplog.at_level(logging.WARNING):
        message = chain.invoke(QUESTION, config={"callbacks": [handler]})
    assert message.content == plain.content
    summary = message.response_metadata["attribution"]
    jsonschema.validate(summary, summary_schema())
    assert summary["status"] == "error"
    assert summary["error"] == {"type": "ZeroDivisionError", "message": "the scorer broke"}
    assert "the scorer broke" in caplog.text
    assert handler.last is not None
    assert isinstance(handler.last.error, ZeroDivisionError)
    loud = AttributionCallbackHandler(tiny_chat, method=Broken(), raise_error=True)
    with pytest.raises(ZeroDivisionError, match="the scorer broke"):
        chain.invoke(QUESTION, config={"callbacks": [loud]})


def test_a_cached_answer_carries_no_old_attribution(tiny: LanguageModel) -> None:
    chat = chat_of(tiny, max_new_tokens=6)
    chat.cache = InMemoryCache()
    handler = AttributionCallbackHandler(chat, **EXACT)
    chain = rag(Given(documents=DOCUMENTS), chat)
    first = chain.invoke(QUESTION, config={"callbacks": [handler]})
    summary = attributed(first)
    cached = chain.invoke(QUESTION)
    assert cached.content == first.content
    again = chain.invoke(QUESTION, config={"callbacks": [handler]})
    told = again.response_metadata["attribution"]
    assert told["error"]["type"] == "NotRecorded"
    assert told["run_id"] != summary["run_id"]
    assert first.response_metadata["attribution"] is summary


def test_a_handler_on_the_model_warns(tiny: LanguageModel) -> None:
    chat = chat_of(tiny, max_new_tokens=4)
    handler = AttributionCallbackHandler(chat, **EXACT)
    chat.callbacks = [handler]
    chain = rag(Given(documents=DOCUMENTS), chat)
    with pytest.warns(UserWarning, match=r"attach it to the chain.*with_config"):
        message = chain.invoke(QUESTION)
    assert "attribution" not in message.response_metadata
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chat.callbacks = None
        chain.invoke(QUESTION, config={"callbacks": [handler]})


def test_a_block_attributes_what_is_asked_in_it(tiny_chat: ChatHuggingFace) -> None:
    chain = rag(Given(documents=DOCUMENTS), tiny_chat)
    with attribute(tiny_chat, **EXACT) as run:
        message = chain.invoke(QUESTION)
        assert run.last is not None
        assert run.last.summary == attributed(message)
    assert "attribution" not in chain.invoke(QUESTION).response_metadata


def test_citations_are_standard_annotations_and_history_keeps_working(
    tiny_chat: ChatHuggingFace,
) -> None:
    handler = AttributionCallbackHandler(
        tiny_chat, citations=True, method="leave_one_out", verdicts=None
    )
    chain = rag(Given(documents=DOCUMENTS), tiny_chat).with_config(callbacks=[handler])
    message = chain.invoke(QUESTION)
    assert isinstance(message.content, str)
    summary = attributed(message)
    summary["sentences"] = [{"start": 0, "end": 5, "sources": [0], "documents": [0]}]
    (block,) = message.content_blocks
    assert block["type"] == "text"
    assert block["text"] == message.content
    (citation,) = block["annotations"]
    assert citation["type"] == "citation"
    assert (citation["start_index"], citation["end_index"]) == (0, 5)
    assert citation["url"] == "https://example.org/ferry"
    assert citation["title"] == "ferry.md"
    assert citation["cited_text"].startswith("The ferry Kittiwake")
    assert citation["extras"]["document_id"] == "ferry"
    assert [citation["start_index"] for citation in citations_of(message)] == [0]
    restored = AIMessage.model_validate_json(message.model_dump_json())
    assert restored.content_blocks[0]["annotations"][0]["title"] == "ferry.md"
    tiny_chat.invoke([HumanMessage("one"), message, HumanMessage("two")])


def test_chains_with_the_handler_are_serialized_as_ever(
    tiny_chat: ChatHuggingFace, handler: AttributionCallbackHandler
) -> None:
    chain = rag(Given(documents=DOCUMENTS), tiny_chat)
    json.dumps(dumpd(chain.with_config(callbacks=[handler])), default=str)
    message = chain.invoke(QUESTION, config={"callbacks": [handler]})
    assert json.dumps(dumpd(message))


def test_other_tracers_see_the_same_runs(
    tiny_chat: ChatHuggingFace,
    handler: AttributionCallbackHandler,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Tracer(BaseTracer):
        def __init__(self) -> None:
            super().__init__()
            self.roots: list[Run] = []

        def _persist_run(self, run: Run) -> None:
            self.roots.append(run)

    def shape(run: Run) -> Any:
        # Parallel branches start in threads, in no order of their own.
        children = [shape(child) for child in run.child_runs]
        parallel = run.name.startswith("RunnableParallel")
        return run.name, run.run_type, sorted(children) if parallel else children

    chain = rag(Given(documents=DOCUMENTS), tiny_chat)
    alone, beside = Tracer(), Tracer()
    chain.invoke(QUESTION, config={"callbacks": [alone]})
    chain.invoke(QUESTION, config={"callbacks": [handler, beside]})
    assert [shape(root) for root in alone.roots] == [shape(root) for root in beside.roots]
    assert capsys.readouterr() == ("", "")


def test_a_structured_answer_stays_as_it_was_parsed(tiny: LanguageModel) -> None:
    llm = llm_of(tiny, max_new_tokens=6)
    handler = AttributionCallbackHandler(llm, **EXACT)

    class Parsed(BaseOutputParser[dict[str, Any]]):
        def parse(self, text: str) -> dict[str, Any]:
            return {"text": text}

    run_id = uuid4()
    chain = rag(ByName(), llm) | Parsed()
    result = chain.invoke("A", config={"callbacks": [handler], "run_id": run_id})
    assert list(result) == ["text"]
    run = handler.results[run_id].attribution
    assert run is not None
    assert run.response == result["text"]


def test_an_answer_without_documents_in_sight_is_told_of_once(
    tiny_chat: ChatHuggingFace,
    handler: AttributionCallbackHandler,
    caplog: pytest.LogCaptureFixture,
) -> None:
    blind = RunnableLambda(lambda question: f"Some text. {question}") | tiny_chat

    def ours() -> list[logging.LogRecord]:
        return [record for record in caplog.records if not record.name.startswith("transformers")]

    with caplog.at_level(logging.WARNING):
        rag(Given(documents=[]), tiny_chat).invoke(QUESTION, {"callbacks": [handler]})
        assert not ours()  # nothing was found, which is an answer too
        for _ in range(2):
            message = blind.invoke(QUESTION, config={"callbacks": [handler]})
            assert "attribution" not in message.response_metadata
    (record,) = ours()
    assert "attribot_documents" in record.getMessage()
