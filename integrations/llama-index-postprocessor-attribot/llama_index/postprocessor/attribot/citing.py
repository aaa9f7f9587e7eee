"""Citations in LlamaIndex's own forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from llama_index.core.base.llms.types import ChatMessage, CitationBlock, MessageRole, TextBlock
from llama_index.core.schema import NodeWithScore

from attribot_rag import Attribution
from attribot_rag.attribution import cite

SourceNodes = Literal["all", "ranked", "used"]


def cited_message(attribution: Attribution) -> ChatMessage:
    """The answer as a message with a CitationBlock for every document that a sentence cites.

    `additional_location_info` has the document's `number` and the characters `start` and `end` of
    the sentence in the answer.
    """
    citations = cite(attribution)
    blocks = [
        CitationBlock(
            cited_content=TextBlock(text=attribution.sources[source_id].text.strip()),
            source=str(attribution.documents[index].id or ""),
            title=attribution.documents[index].title,
            additional_location_info={
                "number": citations.numbers[index],
                "start": sentence.start,
                "end": sentence.end,
            },
        )
        for sentence in citations
        for source_id in sentence.source_ids
        for index in attribution.sources[source_id].documents
    ]
    text = TextBlock(text=attribution.response)
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=[text, *blocks])


def used_nodes(
    nodes: Sequence[NodeWithScore], attribution: Attribution, which: SourceNodes
) -> list[NodeWithScore]:
    """Copies of the nodes: those with the best sources first, or only those that are cited."""
    numbers = cite(attribution).numbers
    order = {str(attribution.documents[index].id): number for index, number in numbers.items()}
    best: dict[str, float] = {}
    for ranked in reversed(attribution.top(len(attribution.sources))):
        for index in ranked.source.documents:
            best[str(attribution.documents[index].id)] = ranked.score
    copies = [one.model_copy(update={"node": one.node.model_copy()}) for one in nodes]
    if which == "used":
        cited = [one for one in copies if one.node_id in order]
        return sorted(cited, key=lambda one: order[one.node_id])
    return sorted(copies, key=lambda one: -best.get(one.node_id, float("-inf")))
