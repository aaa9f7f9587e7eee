import asyncio
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributionPostprocessor
from llama_index.postprocessor.attribot.query_tracker import installed
from support.deprecations import no_deprecations as no_deprecations
from support.marks import mark
from support.summaries import EXACT, checked
from support.tiny_models import endless, smollm2_tokenizer

from attribot_rag import LanguageModel, load_model

QUESTION = "How high is the lighthouse?"


def nodes() -> list[TextNode]:
    return [
        TextNode(
            text="The ferry Kittiwake carries up to 84 passengers. "
            "A single ticket costs 18 crowns.",
            id_="ferry",
            metadata={"file_name": "ferry.md"},
        ),
        TextNode(
            text="The lighthouse is 38 metres high. Its lamp was lit for the first time in 1844.",
            id_="lighthouse",
            metadata={"file_name": "lighthouse.md"},
        ),
    ]


def scored(texts: list[TextNode]) -> list[NodeWithScore]:
    return [NodeWithScore(node=node, score=1.0) for node in texts]


def llm_of(language_model: LanguageModel, **options: Any) -> HuggingFaceLLM:
    """A LlamaIndex model that is greedy and answers briefly."""
    settings: dict[str, Any] = {"max_new_tokens": 12, "is_chat_model": True, **options}
    generate = {"do_sample": False, **settings.pop("generate_kwargs", {})}
    return HuggingFaceLLM(
        model=language_model.model,
        tokenizer=language_model.tokenizer,
        context_window=2048,
        generate_kwargs=generate,
        **settings,
    )


def index_of(texts: list[TextNode] | None = None) -> VectorStoreIndex:
    return VectorStoreIndex(nodes() if texts is None else texts, embed_model=MockEmbedding(8))


def engine_of(
    llm: Any, *postprocessors: Any, texts: list[TextNode] | None = None, **options: Any
) -> Any:
    """A query engine over the nodes, or over others."""
    return index_of(texts).as_query_engine(llm=llm, node_postprocessors=postprocessors, **options)


def summary_of(response: Any, status: str = "complete") -> dict[str, Any]:
    return checked(response.metadata["attribution"], status)


def ids_of(response: Any) -> set[str]:
    """The ids of the documents of an attribution."""
    return {document["id"] for document in summary_of(response)["documents"]}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark(items)


@pytest.fixture(scope="session")
def smollm2() -> LanguageModel:
    """The embedded model: real weights, offline."""
    return load_model()


@pytest.fixture(scope="session")
def tiny() -> LanguageModel:
    """Random weights, and the tokenizer and the chat template of the embedded model."""
    return endless(smollm2_tokenizer())


@pytest.fixture(scope="session")
def llm(smollm2: LanguageModel) -> HuggingFaceLLM:
    return llm_of(smollm2)


@pytest.fixture(scope="session")
def tiny_llm(tiny: LanguageModel) -> HuggingFaceLLM:
    return llm_of(tiny, max_new_tokens=4)


@pytest.fixture
def postprocessor() -> AttributionPostprocessor:
    return AttributionPostprocessor(**EXACT)


@pytest.fixture
def engine(tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor) -> Any:
    return engine_of(tiny_llm, postprocessor)


@pytest.fixture
def streaming(tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor) -> Any:
    return engine_of(tiny_llm, postprocessor, streaming=True)


@pytest.fixture(autouse=True, scope="session")
def no_remote_model() -> None:
    """LlamaIndex asks for a model of OpenAI's where it is given none, even if it needs none."""
    Settings.llm = MockLLM()


@pytest.fixture(autouse=True)
def event_loop() -> Iterator[None]:
    """A chat engine's memory takes the thread's event loop; without any it opens one for good."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()
    asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Whatever a test does, no entry of any span may stay."""
    yield
    assert installed().num_open == 0
