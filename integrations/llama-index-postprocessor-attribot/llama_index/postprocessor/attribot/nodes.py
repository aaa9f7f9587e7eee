"""Makes LlamaIndex nodes from documents of any form, and merges lists of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, TextNode

from attribot_rag.runtime import told_document


def nodes_of(documents: Iterable[Any]) -> list[NodeWithScore]:
    """Documents of any form as nodes: nodes, texts, mappings or other documents.

    A single document needs no list.
    """
    nodes = []
    is_single = isinstance(documents, str | Mapping | BaseNode | NodeWithScore)
    for document in [documents] if is_single else documents:
        if isinstance(document, NodeWithScore):
            nodes.append(document)
        elif isinstance(document, BaseNode):
            nodes.append(NodeWithScore(node=document))
        else:
            converted = told_document(document)
            own = {} if converted.id is None else {"id_": converted.id}
            node = TextNode(text=converted.text, metadata=dict(converted.metadata), **own)
            nodes.append(NodeWithScore(node=node))
    return nodes


def key_of(node: NodeWithScore) -> tuple[str, int]:
    """A node's id and text."""
    return node.node_id, hash(node.node.get_content(MetadataMode.NONE))


def merged(
    nodes: Sequence[NodeWithScore],
    found: Iterable[NodeWithScore],
    told: Sequence[NodeWithScore] = (),
) -> list[NodeWithScore]:
    """The nodes and the found ones, each once. A node of `told` is recognized by its text."""
    each = {key_of(node): node for node in nodes}
    texts = {text for _, text in map(key_of, told)}
    for node in found:
        if key_of(node)[1] not in texts:
            each.setdefault(key_of(node), node)
    return list(each.values())
