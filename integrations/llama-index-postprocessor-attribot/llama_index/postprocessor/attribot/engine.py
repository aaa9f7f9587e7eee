"""A query engine that wraps another one, instead of a postprocessor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.postprocessor.attribot.base import (
    AnyResponse,
    AttributionPostprocessor,
    EngineOptions,
)
from llama_index.postprocessor.attribot.query_tracker import ObservedEngine
from typing_extensions import Unpack

from attribot_rag.errors import InvalidInput, UnknownOption
from attribot_rag.runtime import AttributedRun

SourceNodes = Literal["all", "ranked", "used"]


class AttributedQueryEngine(BaseQueryEngine, ObservedEngine):
    """Wraps any query engine, and attaches the attribution to its responses.

    `aquery` awaits the attribution without blocking the event loop.

    Args:
        engine: The query engine to wrap.
        source_nodes: Which nodes a response has, as copies: 'all', 'ranked' (those with the best
            sources first), or 'used' (only the cited ones). The last two need the attribution at
            once: not with streams or mode 'background'.
        **options: The options of AttributionPostprocessor.
    """

    postprocessor: AttributionPostprocessor

    def __init__(
        self,
        engine: BaseQueryEngine,
        *,
        source_nodes: SourceNodes = "all",
        **options: Unpack[EngineOptions],
    ) -> None:
        names = {*EngineOptions.__optional_keys__, "source_nodes"}
        UnknownOption.check("AttributedQueryEngine", options, names)
        if source_nodes not in get_args(SourceNodes):
            choices = ", ".join(get_args(SourceNodes))
            raise InvalidInput(f"source_nodes={source_nodes!r}; choose one of {choices}")
        super().__init__(engine.callback_manager)
        self._engine = engine
        self._source_nodes = source_nodes
        self.postprocessor = AttributionPostprocessor(**options)

    def result(self, response: AnyResponse, timeout: float | None = None) -> AttributedRun:
        """The finished run of a response; see AttributionPostprocessor.result."""
        return self.postprocessor.result(response, timeout)

    def retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """The nodes that the wrapped engine retrieves."""
        return self._engine.retrieve(query_bundle)

    @property
    def retriever(self) -> Any:
        """The retriever of the wrapped engine."""
        return self._engine.retriever  # type: ignore[attr-defined]

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"engine": self._engine}

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return self._with_nodes(self._engine.query(query_bundle))

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        response = await self._engine.aquery(query_bundle)
        if self.postprocessor.run_options.mode == "inline" and self._run_id_of(response):
            await self.postprocessor.aresult(response)
        return self._with_nodes(response)

    def _run_id_of(self, response: RESPONSE_TYPE) -> str:
        return str((response.metadata or {}).get("attribution", {}).get("run_id") or "")

    def _with_nodes(self, response: RESPONSE_TYPE) -> RESPONSE_TYPE:
        run = self.postprocessor.results.get(self._run_id_of(response))
        is_attributed = run is not None and not run.is_pending and run.error is None
        if self._source_nodes != "all" and run is not None and is_attributed:
            response.source_nodes = used_nodes(response.source_nodes, run, self._source_nodes)
        return response


def used_nodes(
    nodes: Sequence[NodeWithScore], run: AttributedRun, which: SourceNodes
) -> list[NodeWithScore]:
    """Copies of the nodes: those with the best sources first, or only the cited ones."""
    order: dict[str, int] = {}
    best: dict[str, float] = {}
    if (composition := run.composition) is not None:
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
