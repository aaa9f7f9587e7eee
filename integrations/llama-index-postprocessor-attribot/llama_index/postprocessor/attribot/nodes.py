"""LlamaIndex's nodes as documents, and without duplicates."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, TextNode

from attribot_rag import Document
from attribot_rag.adapting import Kept, remove_duplicates

MERGED_KEY = "merged"


def document_of(node: BaseNode, *, with_metadata: bool) -> Document:
    """A node's text, after the metadata lines that the model reads if they are asked for."""
    mode = MetadataMode.LLM if with_metadata else MetadataMode.NONE
    return Document(node.get_content(mode), node.node_id, dict(node.metadata))


def without_duplicates(
    nodes: Sequence[NodeWithScore], *, threshold: float, min_overlap: int | None
) -> list[NodeWithScore]:
    """The nodes, and copies of those whose text or metadata had to change.

    A node that stands for others names them under `merged` in its metadata, where neither the model
    nor the embedding sees them.
    """
    texts = [one.node.get_content(MetadataMode.NONE) for one in nodes]
    kept = remove_duplicates(texts, threshold=threshold, min_overlap=min_overlap)
    return [_changed(nodes, one) for one in kept]


def _changed(nodes: Sequence[NodeWithScore], kept: Kept) -> NodeWithScore:
    given = nodes[kept.index]
    others = [nodes[index].node for index in (*kept.merged, *kept.overlapping)]
    if not isinstance(given.node, TextNode):
        return given
    if not others and kept.text == given.node.get_content(MetadataMode.NONE):
        return given
    node = given.node.model_copy(deep=True)
    node.set_content(kept.text)
    if others:
        node.metadata[MERGED_KEY] = [
            {"id": one.node_id, "metadata": dict(one.metadata)} for one in others
        ]
        node.excluded_llm_metadata_keys.append(MERGED_KEY)
        node.excluded_embed_metadata_keys.append(MERGED_KEY)
    return NodeWithScore(node=node, score=given.score)
