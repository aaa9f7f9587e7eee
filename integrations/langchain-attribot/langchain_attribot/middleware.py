"""Attribution within an agent: of each answer, to all documents that tools retrieved so far."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables.config import ensure_config
from typing_extensions import Unpack

from attribot_rag import LanguageModel
from attribot_rag.errors import UnsupportedModel
from attribot_rag.runtime import (
    Answer,
    AttributedRun,
    AttributionService,
    Counterfactual,
    Observer,
    RunOptions,
    RunStore,
    ServiceOptions,
    ServiceRegistry,
    answer_without,
    merge_documents,
)
from langchain_attribot.advice import NOTHING_SEEN, Advice
from langchain_attribot.asking import AskAgain, names_of_model
from langchain_attribot.callbacks import span_of
from langchain_attribot.documents import retrieved_documents
from langchain_attribot.handler import HandlerOptions
from langchain_attribot.messages import (
    answer_text,
    attached,
    prompt_texts_of,
    show_citations,
    template_messages,
)
from langchain_attribot.models import (
    ModelHolder,
    find_language_model,
    language_model_of,
    scoring_model,
)
from langchain_attribot.retrieval import ObservedRetrieval, observed_retrieval

if TYPE_CHECKING:
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

Attributed: TypeAlias = "Callable[[ModelResponse[Any]], ModelResponse[Any]]"

_RUN_PREFIX = "lc_run--"
_UUID_LENGTH = 36


class AttributionMiddleware(AgentMiddleware[Any, Any, Any]):
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
        self,
        llm: ModelHolder | None = None,
        *,
        language_model: LanguageModel | None = None,
        reader: LanguageModel | None = None,
        proxy: ModelHolder | None = None,
        citations: bool = False,
        attach: bool = True,
        **options: Unpack[ServiceOptions],
    ) -> None:
        super().__init__()
        beside = HandlerOptions.__optional_keys__ - {"only"}
        run_options = RunOptions.of(type(self).__name__, options, beside=beside)
        self._llm = scoring_model(language_model, reader) or llm
        self._answers_elsewhere = language_model is not None
        self._citations = citations
        self._attach = attach
        self._advice = Advice()
        self._services = ServiceRegistry(
            proxy=None if proxy is None else language_model_of(proxy),
            is_reader=reader is not None,
            options=run_options,
        )
        if self._llm is not None:
            self._services.service_for(language_model_of(self._llm))
        if citations:
            show_citations()

    @property
    def results(self) -> RunStore:
        """The last answers, by the id of the model's run, which their summaries name."""
        return self._services.store

    def answer_without(self, run_id: str, *documents: int, **generate: Any) -> Counterfactual:
        """The model's answer without some documents, as that of the callback handler."""
        run = self.results.wait(run_id)
        return answer_without(self._services.services, run, *documents, **generate)

    async def aanswer_without(
        self, run_id: str, *documents: int, **generate: Any
    ) -> Counterfactual:
        """The same, without blocking the event loop."""
        return await asyncio.to_thread(self.answer_without, run_id, *documents, **generate)

    def close(self) -> None:
        """Let go of what was prepared for the models."""
        self._services.close()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        with self._observed(request) as attributed:
            return attributed(handler(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        with self._observed(request) as attributed:
            return await asyncio.to_thread(attributed, await handler(request))

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        with observed_retrieval() as retrieval:
            return retrieval.attached(handler(request))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        with observed_retrieval() as retrieval:
            return retrieval.attached(await handler(request))

    @contextmanager
    def _observed(self, request: ModelRequest[Any]) -> Iterator[Attributed]:
        """Records the local model that answers, if any; gives what attributes the response."""
        language_model = find_language_model(request.model if self._llm is None else self._llm)
        service = None if language_model is None else self._services.service_for(language_model)
        with (
            nullcontext() if service is None else service.recording(),
            observed_retrieval() as seen,
        ):
            yield partial(self._attributed, request, service, seen)

    def _attributed(
        self,
        request: ModelRequest[Any],
        service: AttributionService | None,
        retrieval: ObservedRetrieval,
        response: ModelResponse[Any],
    ) -> ModelResponse[Any]:
        prompt: Sequence[BaseMessage] = request.messages
        if request.system_message is not None:
            prompt = [request.system_message, *prompt]
        documents = merge_documents(
            [retrieved_documents(prompt), *retrieval.all_documents(request.state)]
        )
        result = list(response.result)
        for index, message in enumerate(result):
            is_structured = response.structured_response is not None
            if not isinstance(message, AIMessage) or (message.tool_calls and not is_structured):
                continue
            if not documents:
                self._advise(request)
                continue
            messages = retrieval.messages.get(_run_id(message)) or prompt
            if service is None:
                run = self._unsupported(message, documents, request.model)
            else:
                run = self._run(message, messages, documents, service, request)
            if self._attach:
                result[index] = attached(message, run.summary, citations=self._citations)
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
        messages: Sequence[BaseMessage],
        documents: Sequence[Document],
        service: AttributionService,
        request: ModelRequest[Any],
    ) -> AttributedRun:
        observer = Observer([service], elsewhere=self._answers_elsewhere)
        prompt, texts = template_messages(messages), prompt_texts_of(messages)
        name = next(iter(names_of_model(request.model)), "")
        call = observer.called(
            _run_id(message),
            None,
            prompt,
            texts,
            given=documents,
            span=span_of(),
            answered_by=name,
            ask=AskAgain([request.model], messages, name, _settings(request)),
        )
        run = observer.answered(call, answer_text(message))
        assert run is not None  # there are documents
        return run

    def _unsupported(
        self, message: AIMessage, documents: Sequence[Document], model: Any
    ) -> AttributedRun:
        error = UnsupportedModel(
            f"{type(model).__name__} holds no local Hugging Face model, whose probabilities the "
            "score needs; pass the one that answers: AttributionMiddleware(llm), a local copy of "
            "it: AttributionMiddleware(language_model=...), or a local model that reads what any "
            "other one answers: AttributionMiddleware(reader=attribot_rag.load_model())"
        )
        self._advice.tell(type(model).__name__, f"the {type(model).__name__}", str(error))
        run_id, answer = _run_id(message), Answer(answer_text(message), documents)
        return self.results.add(AttributedRun(run_id, run_id, answer, error=error))


def _run_id(message: BaseMessage) -> str:
    """The id of the model's run, which is a part of the message's id."""
    run_id = str(message.id or uuid4()).removeprefix(_RUN_PREFIX)
    return run_id[:_UUID_LENGTH]


def _settings(request: ModelRequest[Any]) -> dict[str, Any]:
    """What an agent binds to its model, as its call has it."""
    settings = dict(request.model_settings)
    if request.tools and hasattr(request.model, "bind_tools"):
        bound = request.model.bind_tools(request.tools, tool_choice=request.tool_choice)
        settings = {**getattr(bound, "kwargs", {}), **settings}
    return settings
