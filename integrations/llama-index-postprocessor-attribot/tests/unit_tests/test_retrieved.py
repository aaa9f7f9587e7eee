"""Searches without an engine: a store or a function that is called directly, and the model too."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from conftest import EXACT, QUESTION, index_of, llm_of, scored
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import Document, TextNode
from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreQuery
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributionPostprocessor
from scripted import says

from attribot_rag import LanguageModel
from attribot_rag.errors import InvalidInput

TEXTS = ("The mill grinds at noon.", "Gulls nest in the quarry.")


def from_a_store() -> list[Any]:
    store, embedding = SimpleVectorStore(stores_text=True), MockEmbedding(4)
    made = {text: TextNode(text=text, id_=text.split()[1]) for text in TEXTS}
    for text, node in made.items():
        node.embedding = embedding.get_text_embedding(text)
    store.add(list(made.values()))
    query = VectorStoreQuery(embedding.get_query_embedding("?"), similarity_top_k=2)
    ids = store.query(query).ids or []
    return [node for node in made.values() if node.node_id in ids]


def from_an_api() -> list[Any]:
    return [
        {"snippet": text, "id": text.split()[1], "score": rank / 7, "lang": "en"}
        for rank, text in enumerate(TEXTS)
    ]


def from_a_file() -> list[Any]:
    return [Document(text=TEXTS[0], id_="mill"), (TEXTS[1], 0.25)]


def prompt() -> str:
    return "\n\n".join([*TEXTS, QUESTION])


@pytest.mark.parametrize("search", [from_a_store, from_an_api, from_a_file])
def test_what_was_found_is_said(tiny_llm: HuggingFaceLLM, search: Callable[[], list[Any]]) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    for ask in (
        lambda: tiny_llm.complete(prompt()).text,
        lambda: tiny_llm.chat([ChatMessage(prompt())]).message.content,
        lambda: [piece.text for piece in tiny_llm.stream_complete(prompt())][-1],
    ):
        with postprocessor.retrieved(search(), QUESTION) as response:
            answer = response.response = ask()
        summary = response.metadata["attribution"]
        assert (summary["status"], summary["query"]) == ("complete", QUESTION), summary
        assert len(summary["documents"]) == 2
        assert all(document["located"] for document in summary["documents"])
        assert "mill" in {document["id"] for document in summary["documents"]}
        run = postprocessor.result(response)
        assert run.attribution is not None
        assert run.attribution.response.strip() == answer.strip()
        assert not run.attribution.provenance.retokenized


def test_the_answer_needs_not_be_told(tiny_llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    with postprocessor.retrieved(TEXTS) as response:
        answer = tiny_llm.complete(prompt()).text
    assert response.response == answer
    assert postprocessor.result(response).attribution is not None
    with pytest.raises(ZeroDivisionError), postprocessor.retrieved(TEXTS):
        tiny_llm.complete(f"{prompt()} {1 / 0}")


def test_a_step_of_a_workflow(tiny_llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)

    class Answers(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            with postprocessor.retrieved(from_an_api(), QUESTION) as response:
                tiny_llm.complete(prompt())
            assert response.metadata["attribution"]["status"] == "pending"
            await postprocessor.aresult(response)
            return StopEvent(result=response)

    async def ask() -> Any:
        return await Answers(timeout=600).run()

    assert len(asyncio.run(ask()).metadata["attribution"]["documents"]) == 2


def test_two_searches_keep_their_own_documents(tiny_llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    with postprocessor.retrieved([TEXTS[0]]) as first:
        tiny_llm.complete(f"{TEXTS[0]} When?")
    with postprocessor.retrieved([TEXTS[1]]) as second:
        tiny_llm.complete(f"{TEXTS[1]} Where?")
    for response, text in ((first, TEXTS[0]), (second, TEXTS[1])):
        attribution = postprocessor.result(response).attribution
        assert attribution is not None
        assert [document.text for document in attribution.documents] == [text]


def test_no_model_and_no_text_are_told(caplog: pytest.LogCaptureFixture) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    with caplog.at_level(logging.WARNING), postprocessor.retrieved(TEXTS) as response:
        response.response = "It grinds at noon."
    assert response.metadata["attribution"]["status"] == "unsupported"
    assert "no call of a model of LlamaIndex was seen" in caplog.text
    for documents in ([{"score": 1.0}], [None], [7]):
        with pytest.raises(InvalidInput), postprocessor.retrieved(documents):
            pass


@pytest.mark.parametrize("streaming", [False, True])
def test_an_empty_answer_has_the_usual_keys(tiny: LanguageModel, streaming: bool) -> None:
    for text in ("", " ", "\n"):
        postprocessor = AttributionPostprocessor(**EXACT)
        engine = index_of().as_query_engine(
            llm=says(tiny, text), node_postprocessors=[postprocessor], streaming=streaming
        )
        response = engine.query(QUESTION)
        if streaming:
            assert not "".join(response.response_gen).strip()
        summary = response.metadata["attribution"]
        assert (summary["status"], summary["error"]) == ("complete", None)
        assert summary["sentences"] == []
        assert "empty" in summary["notes"][0]
        assert postprocessor.result(response).attribution is None


def test_the_prompt_is_changed_only_if_asked_and_that_is_told(tiny: LanguageModel) -> None:
    llm = llm_of(tiny, max_new_tokens=3)
    for texts in (
        ("The mill grinds at noon.", "The mill grinds at noon!"),
        ("Gulls nest here.", "Gulls nest here. They eat fish from the harbour."),
        (
            "It opens at ten o'clock in the morning. It is old.",
            "It is old. It is red. It closes at noon.",
        ),
    ):
        retrieved = scored([TextNode(text=text, id_=str(i)) for i, text in enumerate(texts)])
        assert AttributionPostprocessor().postprocess_nodes(retrieved) == retrieved
        merging = AttributionPostprocessor(deduplicate=True, min_overlap=5, **EXACT)
        left = merging.postprocess_nodes(retrieved)
        assert [node.text for node in left] != list(texts)
        with merging.retrieved(left) as response:
            llm.complete("\n\n".join([*(node.text for node in left), QUESTION]))
        notes = response.metadata["attribution"]["notes"]
        assert any("prompt was changed" in note for note in notes)
