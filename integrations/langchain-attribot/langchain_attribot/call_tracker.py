"""Calls of models among LangChain's runs: their prompts, their answers, and what is attached."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk, Generation, GenerationChunk, LLMResult

from langchain_attribot.documents import named_documents, retrieved_documents
from langchain_attribot.messages import (
    attach,
    calls_tools,
    is_last,
    is_told,
    prompt_texts_of,
    register,
    template_messages,
)
from langchain_attribot.run import Run, names_of
from langchain_attribot.run_tracker import RunTracker

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_INSTRUMENTATION = "openinference.instrumentation.langchain"

Only = str | Callable[[frozenset[str]], bool] | None


@dataclass(eq=False)
class ModelCall:
    """A call of a model that has not ended: its run, its prompt, and what was streamed so far.

    `span` is its span, if an instrumentation that comes before this handler has made one. A call
    that is not `wanted` is not attributed. What was `attached` to its answer is this handler's.
    """

    run: Run
    prompt_texts: list[str]
    prompt: str | list[dict[str, str]]
    streamed: list[str] = field(default_factory=list)
    attributed: bool = False
    summary: dict[str, Any] | None = None
    span: Span | None = None
    wanted: bool = True
    attached: bool = False


class CallTracker(RunTracker):
    """Tells of every answer once, and attaches the summary that it is given for it.

    An answer that was stopped is told of where `attributes_stopped`; `only` says which calls are.
    """

    attributes_stopped = False

    def __init__(self, *, citations: bool, only: Only) -> None:
        super().__init__()
        self._citations = citations
        self._only = only
        self._calls: dict[UUID, ModelCall] = {}
        self._is_orphan_told = False
        if citations:
            register()

    def answered(self, call: ModelCall, text: str) -> dict[str, Any] | None:
        """The summary of the answer's attribution, None without any."""
        raise NotImplementedError

    def left_out(self, call: ModelCall, text: str) -> None:
        """A model answered a call that is not to be attributed."""

    def told_twice(self, call: ModelCall) -> None:
        """Another handler has attached an attribution of the same answer, which stays."""

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **call: Any
    ) -> None:
        first = messages[0]
        prompt = template_messages(first)
        self._begin_call(retrieved_documents(first), prompt_texts_of(first), prompt, **call)

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], **call: Any) -> None:
        self._begin_call([], [prompts[0]], prompts[0], **call)

    def _begin_call(
        self,
        documents: Sequence[Document],
        prompt_texts: list[str],
        prompt: str | list[dict[str, str]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **call: Any,
    ) -> None:
        documents = (*documents, *named_documents(call.get("metadata")))
        run = self._begin(run_id, parent_run_id, "model", documents, names_of(call))
        if run.orphan and not documents and not self._is_orphan_told:
            self._is_orphan_told = True
            warnings.warn(
                "AttributionCallbackHandler is attached to the model, where it sees no retriever; "
                "attach it to the chain, chain.with_config(callbacks=[handler]), or pass it per "
                "call",
                stacklevel=2,
            )
        wanted = self._is_wanted(run)
        self._calls[run_id] = ModelCall(
            run, prompt_texts, prompt, attributed=not wanted, span=span_of(run_id), wanted=wanted
        )

    def _is_wanted(self, run: Run) -> bool:
        names = run.all_names()
        return self._only is None or (
            self._only in names if isinstance(self._only, str) else self._only(names)
        )

    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        run_id: UUID,
        **_: Any,
    ) -> None:
        call = self._calls.get(run_id)
        if call is None or call.attributed:
            return
        call.streamed.append(str(token) if chunk is None else chunk.text)
        if isinstance(chunk, ChatGenerationChunk) and is_last(chunk):
            self._attach(chunk, call, self._attribute(call, "".join(call.streamed)))

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        call = self._calls.pop(run_id, None)
        if call is None:
            return
        generations = [generation for row in response.generations for generation in row]
        try:
            if len(generations) == 1 and not calls_tools(generations[0]):
                text = generations[0].text
                self._attach(generations[0], call, self._attribute(call, text))
                if not call.wanted:
                    self.left_out(call, text)
        finally:
            self._end(run_id)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        call = self._calls.pop(run_id, None)
        stopped = isinstance(error, GeneratorExit | asyncio.CancelledError)
        try:
            if call is not None and stopped and self.attributes_stopped:
                self._attribute(call, "".join(call.streamed))
        finally:
            self._end(run_id)

    def _attach(
        self, generation: Generation, call: ModelCall, summary: dict[str, Any] | None
    ) -> None:
        """Attach the summary, unless another handler has attached its own."""
        if not call.attached and is_told(generation, summary):
            call.run.yields = True
            if summary is not None and summary["error"] is None:
                self.told_twice(call)
            return
        call.attached = summary is not None
        attach(generation, summary, citations=self._citations)

    def _attribute(self, call: ModelCall, text: str) -> dict[str, Any] | None:
        if not call.attributed:
            call.attributed = True
            call.summary = self.answered(call, text)
        return call.summary


def span_of(run_id: UUID | None = None) -> Span | None:
    """The open span that OpenInference gives to a run, by default to the one that calls this.

    None without any; OpenInference makes none of them current.
    """
    module: Any = sys.modules.get(_INSTRUMENTATION)
    instrumentor = None if module is None else module.LangChainInstrumentor()
    if instrumentor is None or not instrumentor.is_instrumented_by_opentelemetry:
        return None
    span: Span | None = module.get_current_span()
    if run_id is not None:
        span = instrumentor.get_span(run_id)
    return span
