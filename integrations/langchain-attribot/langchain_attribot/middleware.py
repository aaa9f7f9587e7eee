"""Attributes each answer of an agent to all documents that its tools have retrieved so far."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables.config import ensure_config
from typing_extensions import Unpack

from attribot_rag import runtime
from attribot_rag.errors import UnsupportedModel
from attribot_rag.runtime import AttributedRun, AttributionService
from langchain_attribot import messages, models
from langchain_attribot.callbacks import ObservedRetrieval, observed_retrieval, run_id_of, span_of
from langchain_attribot.documents import retrieved_documents
from langchain_attribot.handler import NOTHING_SEEN, AttributionOptions
from langchain_attribot.models import AskAgain, ModelHolder

if TYPE_CHECKING:
    from langgraph.prebuilt.tool_node import ToolCallRequest

Attributed: TypeAlias = "Callable[[ModelResponse[Any]], ModelResponse[Any]]"

logger = logging.getLogger(__name__)

_UNSUPPORTED = (
    "{} holds no local Hugging Face model, whose probabilities the score needs; pass the one that "
    "answers: AttributionMiddleware(llm), or a local copy of it: "
    "AttributionMiddleware(language_model=...). For any other model, pass a reader: "
    "AttributionMiddleware(reader=attribot_rag.load_model()), or reader='words', which needs no "
    "model"
)


class AttributionMiddleware(AgentMiddleware[Any, Any, Any], runtime.KeepsRuns):
    """Attaches an attribution to each answer of an agent: which retrieved text caused or supports
    it.

        agent = create_agent(chat, [retriever_tool], middleware=[AttributionMiddleware()])

    Documents are the artifacts of all tool messages in the conversation, also of earlier turns, the
    documents in the agent's state, and those of middlewares that retrieve during the model's call
    (list this one before them). If a tool returns only text, the documents that retrievers found
    for it become its message's artifact. If it searches without a LangChain retriever, call
    `retrieved(documents)` there.

    A message with tool calls does not count as an answer, unless it is the agent's structured
    response. `results` contains the last answers, by the `run_id` in their summaries.

    Args:
        llm: The local model that answers; by default the one in the agent's own model.
        language_model: As for AttributionCallbackHandler.
        reader: As for AttributionCallbackHandler.
        proxy: As for AttributionCallbackHandler.
        citations: As for AttributionCallbackHandler.
        attach: As for AttributionCallbackHandler.
        **options: As for AttributionCallbackHandler.
    """

    def __init__(
        self, llm: ModelHolder | None = None, **options: Unpack[AttributionOptions]
    ) -> None:
        super().__init__()
        beside = AttributionOptions.__optional_keys__
        run_options = runtime.RunOptions.of(type(self).__name__, options, beside=beside)
        language_model, reader = options.get("language_model"), options.get("reader")
        proxy = options.get("proxy")
        self._scoring = runtime.scoring_model(language_model, reader, models.language_model_of)
        self._answers_elsewhere = language_model is not None
        self._citations = options.get("citations", False)
        self._attach = options.get("attach", True)
        self._advice = runtime.Advice(logger)
        self._services = runtime.ServiceRegistry(
            proxy=None if proxy is None else models.language_model_of(proxy),
            is_reader=reader is not None,
            options=run_options,
        )
        self.results = self._services.store
        if self._scoring is None and llm is not None:
            self._scoring = models.language_model_of(llm)
        if self._scoring is not None:
            self._services.service_for(self._scoring)
        if self._citations:
            messages.show_citations()

    @property
    def services(self) -> Sequence[AttributionService]:
        """The services of the models that answered."""
        return self._services.services

    def close(self) -> None:
        """Release what was prepared for the models."""
        self._services.close()

    def wrap_model_call(self, request: ModelRequest[Any], handler: Any) -> ModelResponse[Any]:
        with self._observed(request) as attributed:
            return attributed(handler(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Any
    ) -> ModelResponse[Any]:
        with self._observed(request) as attributed:
            return await asyncio.to_thread(attributed, await handler(request))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Any) -> Any:
        with observed_retrieval() as retrieval:
            return retrieval.with_artifact(handler(request))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Any) -> Any:
        with observed_retrieval() as retrieval:
            return retrieval.with_artifact(await handler(request))

    @contextmanager
    def _observed(self, request: ModelRequest[Any]) -> Iterator[Attributed]:
        """Record the local model that answers, if any. Yields what attributes the response."""
        scoring = self._scoring or models.find_language_model(request.model)
        service = None if scoring is None else self._services.service_for(scoring)
        with (
            nullcontext() if service is None else service.recording(),
            observed_retrieval(partial(AskAgain, [request.model])) as seen,
        ):
            yield partial(self._attributed, request, service, seen)

    def _attributed(
        self,
        request: ModelRequest[Any],
        service: AttributionService | None,
        seen: ObservedRetrieval,
        response: ModelResponse[Any],
    ) -> ModelResponse[Any]:
        prompt = filter(None, [request.system_message, *request.messages])
        documents = runtime.merge_documents(
            [retrieved_documents(list(prompt)), *seen.all_documents(request.state)]
        )
        is_structured = response.structured_response is not None
        result = list(response.result)
        for index, message in enumerate(result):
            call = seen.call_of(message)
            is_answer = not messages.arguments_of(message) or is_structured
            if call is None or not isinstance(message, AIMessage) or not is_answer:
                continue
            if not documents:
                self._advise(request)
                continue
            run = self._run(message, call, documents, service, request.model)
            if self._attach:
                result[index] = messages.with_summary(
                    message, run.summary, citations=self._citations
                )
                messages.send_summary_chunk(message, run.summary)
        return replace(response, result=result)

    def _advise(self, request: ModelRequest[Any]) -> None:
        """Log that an agent answered without documents, unless it just searched and found none."""
        searched = any(isinstance(message, ToolMessage) for message in request.messages)
        if request.tools and not searched:
            return
        name = (ensure_config().get("metadata") or {}).get("lc_agent_name") or "agent"
        tools = frozenset(str(getattr(tool, "name", tool)) for tool in request.tools)
        self._advice.tell((name, tools), f"the agent {name!r}", NOTHING_SEEN)

    def _run(
        self,
        message: AIMessage,
        call: runtime.Call,
        documents: Sequence[Document],
        service: AttributionService | None,
        model: object,
    ) -> AttributedRun:
        run_id, text = run_id_of(message), messages.answer_text(message)
        if service is None:
            name = type(model).__name__
            error = UnsupportedModel(_UNSUPPORTED.format(name))
            self._advice.tell(name, f"the {name}", str(error))
            answer = runtime.Answer(text, documents)
            return self.results.add(AttributedRun(run_id, run_id, answer, error=error))
        call.step.given, call.answer = documents, replace(call.answer, span=span_of())
        observer = runtime.Observer([service], elsewhere=self._answers_elsewhere)
        run = observer.answered(call, text)
        assert run is not None  # there are documents
        return run
