"""Citations in LlamaIndex's own forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from llama_index.core.base.llms.types import ChatMessage, CitationBlock, MessageRole, TextBlock
from llama_index.core.schema import NodeWithScore

from attribot_rag.attribution import CitedOrigin, ComposedSentence, Composition
from attribot_rag.runtime import AttributedRun

SourceNodes = Literal["all", "ranked", "used"]


def cited_message(run: AttributedRun) -> ChatMessage:
    """The answer as a message with a CitationBlock for every document that a sentence cites.

    `additional_location_info` has the document's `number` and the characters `start` and `end` of
    the sentence in the answer. Raises the run's error if there is one.
    """
    before = len(before_answer(run))
    blocks: list[TextBlock | CitationBlock] = []
    for first, composition in run.compositions():
        for sentence in composition.sentences:
            for origin in sentence.origins:
                blocks += _citations(composition, sentence, origin, first - before)
    text = run.text if run.attribution is None else run.attribution.response
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=[TextBlock(text=text[before:]), *blocks])


def before_answer(run: AttributedRun) -> str:
    """What the model said before the answer that was shown, such as an agent's thought."""
    text = run.text[run.answer.start :]
    return text.removesuffix(run.shown) if run.shown and text.endswith(run.shown) else ""


def _citations(
    composition: Composition, sentence: ComposedSentence, origin: CitedOrigin, first: int
) -> list[CitationBlock]:
    documents = origin.attribution.documents
    return [
        CitationBlock(
            cited_content=TextBlock(text=origin.source.text.strip()),
            source=str(documents[index].id or ""),
            title=documents[index].title,
            additional_location_info={
                "number": composition.number_of(origin, index),
                "start": first + sentence.cited.start,
                "end": first + sentence.cited.end,
            },
        )
        for index in origin.documents
    ]


def used_nodes(
    nodes: Sequence[NodeWithScore], run: AttributedRun, which: SourceNodes
) -> list[NodeWithScore]:
    """Copies of the nodes: those with the best sources first, or only those that are cited."""
    order: dict[str, int] = {}
    best: dict[str, float] = {}
    for _, composition in run.compositions():
        order.update(composition.numbers)
        for attribution in (composition.attribution, *composition.earlier.values()):
            for ranked in attribution.top(len(attribution.sources)):
                for index in ranked.source.documents:
                    key = str(attribution.documents[index].id)
                    best[key] = max(ranked.score, best.get(key, ranked.score))
    copies = [node.model_copy(update={"node": node.node.model_copy()}) for node in nodes]
    if which == "used":
        cited = [copy for copy in copies if copy.node_id in order]
        return sorted(cited, key=lambda node: order[node.node_id])
    return sorted(copies, key=lambda node: -best.get(node.node_id, float("-inf")))
