"""Nodes whose text in the prompt is not their own, and postprocessors before and after ours."""

from typing import Any

import pytest
from conftest import EXACT, QUESTION, index_of, nodes
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    SentenceSplitter,
    SentenceWindowNodeParser,
    get_leaf_nodes,
)
from llama_index.core.postprocessor import (
    LongContextReorder,
    MetadataReplacementPostProcessor,
    PrevNextNodePostprocessor,
)
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributionPostprocessor

SENTENCES = (
    "The lighthouse is 38 metres high. ",
    "Its lamp was lit in 1844. ",
    "The keeper was Alaric Penhow. ",
    "The ferry carries 84 passengers. ",
    "A ticket costs 18 crowns.",
)
GUIDE = Document(text="".join(SENTENCES), doc_id="guide", metadata={"file_name": "guide.md"})


def sources_of(response: Any) -> set[str]:
    summary = response.metadata["attribution"]
    assert summary["status"] == "complete", summary
    return {source["text"].strip() for source in summary["sources"]}


@pytest.mark.parametrize("ours_first", [False, True])
def test_a_window_around_the_retrieved_sentence(tiny_llm: HuggingFaceLLM, ours_first: bool) -> None:
    parser = SentenceWindowNodeParser.from_defaults(window_size=1)
    index = VectorStoreIndex(parser.get_nodes_from_documents([GUIDE]), embed_model=MockEmbedding(8))
    window = MetadataReplacementPostProcessor(target_metadata_key="window")
    ours = AttributionPostprocessor(**EXACT)
    engine = index.as_query_engine(
        llm=tiny_llm,
        similarity_top_k=1,
        node_postprocessors=[ours, window] if ours_first else [window, ours],
    )
    response = engine.query(QUESTION)
    (node,) = response.source_nodes
    shown = node.node.get_content(MetadataMode.NONE)
    assert len(shown) > len(node.node.metadata["original_text"])
    assert sources_of(response) == {
        sentence.strip() for sentence in SENTENCES if sentence.strip() in shown
    }


def test_a_parent_that_stands_for_its_children(tiny_llm: HuggingFaceLLM) -> None:
    parser = HierarchicalNodeParser.from_defaults(
        node_parser_ids=["whole", "parts"],
        node_parser_map={
            "whole": SentenceSplitter(chunk_size=512, chunk_overlap=0),
            "parts": SentenceSplitter(chunk_size=20, chunk_overlap=0, include_metadata=False),
        },
    )
    parts = parser.get_nodes_from_documents([GUIDE])
    store = SimpleDocumentStore()
    store.add_documents(parts)
    storage = StorageContext.from_defaults(docstore=store)
    leaves = get_leaf_nodes(parts)
    assert len(leaves) > 2
    index = VectorStoreIndex(leaves, storage_context=storage, embed_model=MockEmbedding(8))
    retriever = AutoMergingRetriever(index.as_retriever(similarity_top_k=len(leaves)), storage)
    engine = RetrieverQueryEngine.from_args(
        retriever, llm=tiny_llm, node_postprocessors=[AttributionPostprocessor(**EXACT)]
    )
    response = engine.query(QUESTION)
    (parent,) = response.source_nodes
    assert parent.node_id not in {leave.node_id for leave in leaves}
    assert sources_of(response) == {sentence.strip() for sentence in SENTENCES}
    (document,) = response.metadata["attribution"]["documents"]
    assert document["id"] == parent.node_id


def test_neighbours_that_a_postprocessor_adds(tiny_llm: HuggingFaceLLM) -> None:
    nodes = SentenceSplitter(chunk_size=30, chunk_overlap=0).get_nodes_from_documents([GUIDE])
    store = SimpleDocumentStore()
    store.add_documents(nodes)
    relations = {node.node_id: dict(node.relationships) for node in nodes}
    neighbours = PrevNextNodePostprocessor(docstore=store, num_nodes=1, mode="both")
    engine = VectorStoreIndex(nodes, embed_model=MockEmbedding(8)).as_query_engine(
        llm=tiny_llm,
        similarity_top_k=1,
        node_postprocessors=[neighbours, LongContextReorder(), AttributionPostprocessor(**EXACT)],
    )
    response = engine.query(QUESTION)
    assert len(response.source_nodes) > 1
    found = {document["id"] for document in response.metadata["attribution"]["documents"]}
    assert found == {node.node_id for node in response.source_nodes}
    for one in response.source_nodes:
        assert one.node.relationships == relations[one.node_id]


def test_sources_that_an_engine_numbers_in_the_prompt(tiny_llm: HuggingFaceLLM) -> None:
    engine = CitationQueryEngine.from_args(
        index_of(),
        llm=tiny_llm,
        citation_chunk_size=256,
        node_postprocessors=[AttributionPostprocessor(**EXACT)],
    )
    response = engine.query(QUESTION)
    assert [node.node.get_content()[:9] for node in response.source_nodes] == [
        "Source 1:",
        "Source 2:",
    ]
    assert sources_of(response) == {
        sentence for node in nodes() for sentence in node.text.replace(". ", ".\n").split("\n")
    }


def test_a_retriever_that_gives_its_own_nodes_again(tiny_llm: HuggingFaceLLM) -> None:
    class Cached(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return kept

    kept = index_of().as_retriever().retrieve(QUESTION)
    kept += [node.model_copy(deep=True) for node in kept]  # duplicates, which are taken out
    before = [node.model_dump_json() for node in kept]
    engine = RetrieverQueryEngine.from_args(
        Cached(), llm=tiny_llm, node_postprocessors=[AttributionPostprocessor(**EXACT)]
    )
    for _ in range(2):
        assert len(sources_of(engine.query(QUESTION))) == 4
        assert [node.model_dump_json() for node in kept] == before
