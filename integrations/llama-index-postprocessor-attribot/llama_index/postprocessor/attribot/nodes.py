"""Makes LlamaIndex nodes from documents of any form, and removes duplicates."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llama_index.core.schema import BaseNode, ImageNode, MetadataMode, NodeWithScore, TextNode

from attribot_rag.runtime import DeduplicatedText, remove_duplicates, told_document

MERGED_KEY = "attribot_merged"

# Metadata about where a text is from. Texts that differ only in it are duplicates.
_PROVENANCE = frozenset(
    {
        *("creation_date", "last_accessed_date", "last_modified_date", "document_title"),
        *("file_name", "file_path", "file_size", "file_type", "page", "page_label"),
        *("filename", "id", "doc_id", "link", "path", "source", "title", "url", MERGED_KEY),
    }
)


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


def without_duplicates(
    nodes: Sequence[NodeWithScore], *, threshold: float, min_overlap: int | None
) -> list[NodeWithScore]:
    """The nodes without duplicates, as copies if their text or metadata changes.

    Only texts are compared, and only of nodes whose other metadata lines are the same for the
    model. A node that replaces others lists them under `attribot_merged` in its metadata, which
    neither the model nor the embedding sees.
    """
    alike: dict[str, list[int]] = defaultdict(list)
    remaining: dict[int, NodeWithScore] = {}
    for index, node in enumerate(nodes):
        if _is_text(node.node):
            alike[_said_beside(node.node)].append(index)
        else:
            remaining[index] = node
    for indices in alike.values():
        here = [nodes[index] for index in indices]
        texts = [node.node.get_content(MetadataMode.NONE) for node in here]
        for kept in remove_duplicates(texts, threshold=threshold, min_overlap=min_overlap):
            remaining[indices[kept.index]] = _changed(here, kept)
    return [remaining[index] for index in sorted(remaining)]


def _is_text(node: BaseNode) -> bool:
    if not isinstance(node, TextNode) or isinstance(node, ImageNode):
        return False
    return bool(node.get_content(MetadataMode.NONE).strip())


def _said_beside(node: BaseNode) -> str:
    """The metadata that the model reads with a node, without where its text is from."""
    unseen = {*node.excluded_llm_metadata_keys, *_PROVENANCE}
    metadata = {str(key): value for key, value in node.metadata.items() if key not in unseen}
    return json.dumps(metadata, sort_keys=True, default=str)


def _changed(nodes: Sequence[NodeWithScore], kept: DeduplicatedText) -> NodeWithScore:
    original = nodes[kept.index]
    duplicates = [nodes[index].node for index in (*kept.merged, *kept.overlapping)]
    if not duplicates and kept.text == original.node.get_content(MetadataMode.NONE):
        return original
    node = original.node.model_copy()
    assert isinstance(node, TextNode)
    node.set_content(kept.text)
    if duplicates:
        merged = [{"id": other.node_id, "metadata": dict(other.metadata)} for other in duplicates]
        node.metadata = {**node.metadata, MERGED_KEY: merged}
        node.excluded_llm_metadata_keys = [*node.excluded_llm_metadata_keys, MERGED_KEY]
        node.excluded_embed_metadata_keys = [*node.excluded_embed_metadata_keys, MERGED_KEY]
    return NodeWithScore(node=node, score=original.score)
