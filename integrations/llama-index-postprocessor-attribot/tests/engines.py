"""Models, nodes, and query engines over them."""

from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.llms.huggingface import HuggingFaceLLM
from support.island import FERRY, LIGHTHOUSE

from attribot_rag import LocalModel


def nodes() -> list[TextNode]:
    return [
        TextNode(text=FERRY, id_="ferry", metadata={"file_name": "ferry.md"}),
        TextNode(text=LIGHTHOUSE, id_="lighthouse", metadata={"file_name": "lighthouse.md"}),
    ]


def scored(texts: list[TextNode]) -> list[NodeWithScore]:
    return [NodeWithScore(node=node, score=1.0) for node in texts]


def llm_of(language_model: LocalModel, **options: Any) -> HuggingFaceLLM:
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


def engine_of(llm: Any, *postprocessors: Any, texts: Any = None, **options: Any) -> Any:
    """A query engine over the nodes, or over others."""
    return index_of(texts).as_query_engine(llm=llm, node_postprocessors=postprocessors, **options)
