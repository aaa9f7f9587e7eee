"""LlamaIndex's CitationQueryEngine: the model answers anew, and writes the numbers of chunks.

What is kept is the prompt and the answer of its own, and each chunk as characters of a document.
"""

from __future__ import annotations

import re
from typing import Any

from llama_index.core import QueryBundle
from llama_index.core.query_engine import CitationQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode
from llama_index.llms.huggingface import HuggingFaceLLM

from benchmarks.peers.runners.runner import Case, Result, run

MAX_NEW_TOKENS = 64


class GivenDocuments(BaseRetriever):
    """Retrieves these documents, whatever is asked."""

    def __init__(self, documents: list[str]) -> None:
        super().__init__()
        self.nodes = [
            NodeWithScore(node=TextNode(text=text, metadata={"document": index}), score=1.0)
            for index, text in enumerate(documents)
        ]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.nodes


def attribute(model: Any, tokenizer: Any, case: Case) -> Result:
    prompts: list[str] = []

    def in_template(text: str, system_prompt: str = "") -> str:
        prompts.append(text)
        messages = [{"role": "user", "content": text}]
        return str(
            tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        )

    llm = HuggingFaceLLM(
        model=model,
        tokenizer=tokenizer,
        context_window=model.config.max_position_embeddings,
        max_new_tokens=MAX_NEW_TOKENS,
        generate_kwargs={"do_sample": False},
        completion_to_prompt=in_template,
    )
    engine = CitationQueryEngine(GivenDocuments(case["documents"]), llm=llm)
    response = engine.query(case["question"])
    if len(prompts) != 1:
        raise ValueError(f"CitationQueryEngine asked the model {len(prompts)} times")
    chunks = []
    for one in response.source_nodes:
        document = one.node.metadata["document"]
        chunk = (
            one.node.get_content(metadata_mode=MetadataMode.NONE)
            .split("\n", 1)[1]
            .removesuffix("\n")
        )
        start = case["documents"][document].index(chunk)
        chunks.append([document, start, start + len(chunk)])
    cited = sorted({int(number) for number in re.findall(r"\[(\d+)\]", str(response))})
    return {"prompt": prompts[0], "answer": str(response), "chunks": chunks, "cited": cited}


if __name__ == "__main__":
    run(attribute)
