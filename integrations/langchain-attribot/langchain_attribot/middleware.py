"""Attribution within an agent: of each answer, to all documents that tools retrieved so far."""

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
from attribot_rag.runtime import AttributedRun, AttributionService, RunStore
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
    "answers: AttributionMiddleware(llm), a local copy of it: "
    "AttributionMiddleware(language_model=...), or a local model that reads what any other one "
    "answers: AttributionMiddleware(reader=attribot_rag.load_model()), "
    "or reader='words' without any"
)


class AttributionMiddleware(AgentMiddleware[Any, Any, Any], runtime.KeepsRuns):
    """Attaches to every answer of an agent which retrieved text caused it.

        agent = create_agent(chat, [retriever_tool], middleware=[AttributionMiddleware()])

    Documents are the artifacts of all tool messages in the conversation, earlier turns included,
    those in the agent's state, and those of middlewares that retrieve while the model is called
    (list this one before them). Where a tool gives text alone, what retrievers found for it becomes
    its message's artifact; where something searches without a LangChain retriever, it says
    `retrieved(documents)`. `llm` is the local model that answers, by default the
    one in the agent's own model; `language_model`, `reader`, `proxy`, `citations`, `attach` and
    `options` are those of the callback handler. Messages that call tools are no answers, and are
    left alone, unless they give the agent's structured response.
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
        if self._scoring is None and llm is not None:
            self._scoring = models.language_model_of(llm)
        if self._scoring is not None:
            self._services.service_for(self._scoring)
        if self._citations:
            messages.show_citations()

    @property
    def results(self) -> RunStore:
        """The last answers, by the id of the model's run, which their summaries name."""
        return self._services.store

    @property
    def services(self) -> Sequence[AttributionService]:
        """Those of the models that answered."""
        return self._services.services

    def close(self) -> None:
        """Let go of what was prepared for the models."""
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
            return retrieval.attached(handler(request))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Any) -> Any:
        with observed_retrieval() as retrieval:
            return retrieval.attached(await handler(request))

    @contextmanager
    def _observed(self, request: ModelRequest[Any]) -> Iterator[Attributed]:
        """Records the local model that answers, if any; gives what attributes the response."""
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
                result[index] = messages.attached(message, run.summary, citations=self._citations)
                messages.stream(message, run.summary)
        return replace(response, result=result)

    def _advise(self, request: ModelRequest[Any]) -> None:
        """Log that an agent answered without documents, unless it just searched for none."""
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
