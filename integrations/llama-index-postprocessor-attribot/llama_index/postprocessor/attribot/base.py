"""The postprocessor: duplicates out, nodes in, attribution attached."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.postprocessor.attribot.citing import cited_message
from llama_index.postprocessor.attribot.completion import Completion
from llama_index.postprocessor.attribot.models import language_model_of
from llama_index.postprocessor.attribot.nodes import without_duplicates
from llama_index.postprocessor.attribot.query_tracker import installed
from llama_index.postprocessor.attribot.tracked_query import QueryObserver, TrackedQuery
from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from attribot_rag import (
    Attribution,
    AttributorOptions,
    Budget,
    ContextOptions,
    LanguageModel,
    ScoringOptions,
    VerdictOptions,
)
from attribot_rag.errors import InvalidInput, UnknownOption
from attribot_rag.runtime import AttributedRun, Mode, RunStore, ServiceRegistry

logger = logging.getLogger(__name__)


class PostprocessorOptions(AttributorOptions, total=False):
    """Options of AttributionPostprocessor that say how answers are attributed."""

    proxy: Any
    mode: Mode
    max_pending: int
    max_results: int
    on_result: Callable[[AttributedRun], None] | None
    score_metadata: bool


class AttributionPostprocessor(BaseNodePostprocessor, QueryObserver):
    """Attaches to every response which retrieved text caused it.

        engine = index.as_query_engine(node_postprocessors=[AttributionPostprocessor()])
        engine.query("Who signed the treaty?").metadata["attribution"]

    The model needs not be named: it is the HuggingFaceLLM that answers. Duplicates among the nodes,
    exact, near (`threshold`) and overlapping (`min_overlap` characters; None leaves overlaps), are
    taken out before the prompt is built, unless `deduplicate` is False. Nodes are never changed.

    `method`, `proxy` (a HuggingFaceLLM too), `keep`, `budget`, `verdicts`, `context`, `scoring` and
    `progress` are those of attribot_rag.Attributor. With `score_metadata`, the metadata lines
    that the model reads with a node count as its text. In mode 'background', and in asynchronous
    queries, whose event loop scoring must not block, the response has the status 'pending' at
    first: `result` waits for the attribution, `aresult` awaits it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    method: str | Any = "auto"
    proxy: Any = Field(default=None, exclude=True)
    keep: int | float | None = None
    budget: Budget | None = None
    verdicts: VerdictOptions | None = Field(default_factory=VerdictOptions)
    context: ContextOptions | None = None
    scoring: ScoringOptions | None = None
    progress: bool = False
    mode: Mode = "inline"
    deduplicate: bool = True
    threshold: float = Field(default=0.9, gt=0, le=1)
    min_overlap: int | None = Field(default=30, ge=1)
    score_metadata: bool = False
    max_pending: int = Field(default=32, ge=1)
    max_results: int = Field(default=128, ge=1)
    on_result: Callable[[AttributedRun], None] | None = Field(default=None, exclude=True)

    _services: ServiceRegistry = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: Any) -> Any:
        if isinstance(given, dict):
            UnknownOption.check(cls.__name__, given, cls.model_fields)
        return given

    def model_post_init(self, _: Any) -> None:
        self._services = ServiceRegistry(
            RunStore(self.max_results),
            mode=self.mode,
            max_pending=self.max_pending,
            on_result=self.on_result,
            method=self.method,
            proxy=None if self.proxy is None else language_model_of(self.proxy),
            keep=self.keep,
            budget=self.budget,
            verdicts=self.verdicts,
            context=self.context,
            scoring=self.scoring,
            progress=self.progress,
        )
        installed()

    @classmethod
    def class_name(cls) -> str:
        return "AttributionPostprocessor"

    @property
    def results(self) -> RunStore:
        """The last answers, by the `run_id` in their responses' metadata."""
        return self._services.store

    def close(self) -> None:
        """Let go of what was prepared for the models."""
        self._services.close()

    def result(self, response: Any, timeout: float | None = None) -> AttributedRun:
        """The finished run of a response, waited for while it is pending.

        Raises TimeoutError after `timeout` seconds, InvalidInput for a response without any.
        """
        return _told(response, self.results.wait(_run_id_of(response), timeout))

    async def aresult(self, response: Any, timeout: float | None = None) -> AttributedRun:
        """The same, without blocking the event loop."""
        return _told(response, await self.results.wait_async(_run_id_of(response), timeout))

    def cited_response(self, response: Any, *, remarks: bool = True) -> str:
        """The answer with the numbers of the documents that each sentence cites: '... high. [1]'.

        With `remarks`, also with the verdicts that the numbers do not show: '... blue. (not from
        the context)'. Waits for the attribution; raises its error if there is one.
        """
        return self._attribution(response).to_cited_text(remarks=remarks)

    def cited_message(self, response: Any) -> ChatMessage:
        """The answer as a message with a CitationBlock for every citation; as `cited_response`."""
        return cited_message(self._attribution(response))

    def _attribution(self, response: Any) -> Attribution:
        run = self.result(response)
        if run.attribution is None:
            assert run.error is not None
            raise run.error
        return run.attribution

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if not self.deduplicate:
            return nodes
        try:
            return without_duplicates(nodes, threshold=self.threshold, min_overlap=self.min_overlap)
        except Exception:  # the user's query must not be lost to its duplicates
            logger.exception("duplicates stay, because nodes could not be compared")
            return nodes

    def model_called(self, query: TrackedQuery, language_model: LanguageModel) -> None:
        """Record what a model is going to answer, until the answer is attributed."""
        service = self._services.service_for(language_model)
        service.begin_recording()
        query.when_done.append(service.end_recording)

    def answered(self, query: TrackedQuery, response: Any) -> None:
        """Attribute a response, or have it attributed when it has been streamed."""
        completion = Completion(query, self._services, score_metadata=self.score_metadata)
        try:
            completion.begin(response)
        except KeyboardInterrupt as error:
            completion.fail(error)
            raise
        except Exception:  # a response that nothing can be attached to
            logger.exception("no attribution of %s", query.run_id)
            query.done()


def _run_id_of(response: Any) -> str:
    summary = (getattr(response, "metadata", None) or {}).get("attribution") or {}
    if "run_id" not in summary:
        raise InvalidInput(
            "the response carries no attribution: nothing was retrieved, no model was called, or "
            "no AttributionPostprocessor was among the node_postprocessors"
        )
    return str(summary["run_id"])


def _told(response: Any, run: AttributedRun) -> AttributedRun:
    """Who waits may be woken before the response was told."""
    if response.metadata["attribution"]["status"] == "pending":
        response.metadata["attribution"] = run.summary
    return run
