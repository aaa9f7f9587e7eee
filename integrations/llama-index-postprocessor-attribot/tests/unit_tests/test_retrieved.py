"""Searches without an engine: a store or a function that is called directly, and steps."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from conftest import QUESTION, LocalLLM, Postprocessor, summary_of
from engines import index_of, nodes, scored
from llama_index.core import get_response_synthesizer
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import Document, NodeWithScore, TextNode
from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreQuery
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from llama_index.postprocessor.attribot.query_tracker import installed
from support.summaries import attribution_of, located_ids

TEXTS = ("The mill grinds at noon.", "Gulls nest in the quarry.")
PROMPT = "\n\n".join([*TEXTS, QUESTION])


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


@pytest.mark.parametrize("search", [from_a_store, from_an_api, from_a_file])
def test_searched_documents_are_attributed(
    tiny_llm: LocalLLM, postprocessor: Postprocessor, search: Callable[[], list[Any]]
) -> None:
    for ask in (
        lambda: tiny_llm.complete(PROMPT).text,
        lambda: tiny_llm.chat([ChatMessage(PROMPT)]).message.content,
        lambda: [piece.text for piece in tiny_llm.stream_complete(PROMPT)][-1],
    ):
        with postprocessor.retrieved(search(), QUESTION) as response:
            answer = response.response = ask()
        summary = summary_of(response)
        assert summary["question"] == QUESTION
        assert len(located_ids(summary)) == 2
        assert "mill" in located_ids(summary)
        attribution = attribution_of(postprocessor.result(response))
        assert attribution.response.strip() == answer.strip()
        assert not attribution.provenance.retokenized


def test_the_answer_is_found_without_being_passed(
    tiny_llm: LocalLLM, postprocessor: Postprocessor
) -> None:
    with postprocessor.retrieved(TEXTS) as response:
        answer = tiny_llm.complete(PROMPT).text
    assert response.response == answer
    attribution_of(postprocessor.result(response))
    with postprocessor.retrieved(TEXTS[0]) as response:
        tiny_llm.complete(PROMPT)
    assert [node.text for node in response.source_nodes] == [TEXTS[0]]
    with pytest.raises(ZeroDivisionError), postprocessor.retrieved(TEXTS):
        tiny_llm.complete(f"{PROMPT} {1 / 0}")


def test_a_workflow_of_two_steps(tiny_llm: LocalLLM, postprocessor: Postprocessor) -> None:
    retriever = index_of().as_retriever()
    synthesizer = get_response_synthesizer(llm=tiny_llm)

    class Retrieved(Event):
        nodes: list[NodeWithScore]

    class Rag(Workflow):
        @step
        async def retrieve(self, event: StartEvent) -> Retrieved:
            nodes = await retriever.aretrieve(event.question)
            return Retrieved(nodes=postprocessor.postprocess_nodes(nodes))

        @step
        async def synthesize(self, event: Retrieved) -> StopEvent:
            return StopEvent(result=await synthesizer.asynthesize(QUESTION, event.nodes))

    async def ask() -> Any:
        response = await Rag().run(question=QUESTION)
        await postprocessor.aresult(response)
        return response

    summary_of(asyncio.run(ask()))


def test_retrieval_and_synthesis_of_an_engine(engine: Any, postprocessor: Postprocessor) -> None:
    passed = postprocessor.postprocess_nodes(scored(nodes()), query_str=QUESTION)
    again: list[NodeWithScore] = scored(nodes())  # the same nodes as other objects
    for retrieved in (passed, engine.retrieve(QUESTION), again):
        summary_of(engine.synthesize(QUESTION, retrieved))
    other = scored([TextNode(text="Another text.", id_="ferry")])
    assert "attribution" not in engine.synthesize(QUESTION, other).metadata
    assert not installed()._spans and not len(installed().steps)
