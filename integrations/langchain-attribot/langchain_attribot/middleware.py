"""Attribution within an agent: of each answer, to all documents that tools retrieved so far."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from typing_extensions import Unpack

from attribot_rag import LanguageModel
from attribot_rag.errors import UnknownOption, UnsupportedModel
from attribot_rag.runtime import (
    AttributedRun,
    AttributionService,
    ObservedAnswer,
    RunOutcome,
    RunStore,
    ServiceOptions,
    ServiceRegistry,
)
from langchain_attribot.documents import retrieved_documents
from langchain_attribot.handler import HandlerOptions
from langchain_attribot.messages import attached, prompt_texts_of, register, template_messages
from langchain_attribot.models import LocalModel, find_language_model, language_model_of
from langchain_attribot.retrieval import observed_tool
from langchain_attribot.tracing import enclosing_span

if TYPE_CHECKING:
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

logger = logging.getLogger(__name__)

_RUN_PREFIX = "lc_run--"
_UUID_LENGTH = 36


class AttributionMiddleware(AgentMiddleware[Any, Any, Any]):
    """Attaches to every answer of an agent which retrieved text caused it.

        agent = create_agent(chat, [retriever_tool], middleware=[AttributionMiddleware()])

    Documents are the artifacts of all tool messages in the conversation, earlier turns included.
    Where a tool gives text alone, what retrievers found for it becomes its message's artifact; of a
    tool that searches without a LangChain retriever, make one with
    `response_format="content_and_artifact"`. `llm` is the local model that answers, by default the
    one in the agent's own model; `language_model`, `proxy`, `citations` and `options` are those of
    the callback handler. Messages that call tools are no answers, and are left alone.
    """

    def __init__(
        self,
        llm: LocalModel | None = None,
        *,
        language_model: LanguageModel | None = None,
        proxy: LocalModel | None = None,
        citations: bool = False,
        **options: Unpack[ServiceOptions],
    ) -> None:
        super().__init__()
        known = HandlerOptions.__optional_keys__ - {"only"}
        UnknownOption.check(type(self).__name__, options, known)
        self._llm = llm if language_model is None else language_model
        self._answers_elsewhere = language_model is not None
        self._citations = citations
        self._warned = False
        self._told_of_model = False
        self._services = ServiceRegistry(
            RunStore(options.get("max_results", 128)),
            proxy=None if proxy is None else language_model_of(proxy),
            **options,
        )
        if self._llm is not None:
            self._services.service_for(language_model_of(self._llm))
        if citations:
            register()

    @property
    def results(self) -> RunStore:
        """The last answers, by the id of the model's run, which their summaries name."""
        return self._services.store

    def close(self) -> None:
        """Let go of what was prepared for the models."""
        self._services.close()

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        service = self._service(request.model)
        with nullcontext() if service is None else service.recording():
            return self._attributed(request, handler(request), service)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        service = self._service(request.model)
        with nullcontext() if service is None else service.recording():
            response = await handler(request)
            return await asyncio.to_thread(self._attributed, request, response, service)

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        with observed_tool() as retrieval:
            return retrieval.attached(handler(request))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        with observed_tool() as retrieval:
            return retrieval.attached(await handler(request))

    def _service(self, model: Any) -> AttributionService | None:
        """The service of the model that answers; None if it holds no local one."""
        language_model = find_language_model(model if self._llm is None else self._llm)
        return None if language_model is None else self._services.service_for(language_model)

    def _attributed(
        self,
        request: ModelRequest[Any],
        response: ModelResponse[Any],
        service: AttributionService | None,
    ) -> ModelResponse[Any]:
        messages: Sequence[BaseMessage] = request.messages
        if request.system_message is not None:
            messages = [request.system_message, *messages]
        documents = retrieved_documents(messages)
        result = list(response.result)
        if not documents:
            self._warn_if_tools_gave_text(messages)
            return response
        for index, message in enumerate(result):
            if isinstance(message, AIMessage) and not message.tool_calls and message.text:
                answer = ObservedAnswer(
                    message.text,
                    documents,
                    prompt_texts_of(messages),
                    template_messages(messages),
                    elsewhere=self._answers_elsewhere,
                    span=enclosing_span(),
                )
                run = self._run(_run_id(message), answer, service, request.model)
                result[index] = attached(message, run.summary, citations=self._citations)
        return replace(response, result=result)

    def _warn_if_tools_gave_text(self, messages: Sequence[BaseMessage]) -> None:
        if not self._warned and any(isinstance(one, ToolMessage) for one in messages):
            self._warned = True
            logger.warning(
                "no attribution: tools answered, and no documents were seen; have the tool that "
                'searches give them as its artifact: response_format="content_and_artifact"'
            )

    def _run(
        self, run_id: str, answer: ObservedAnswer, service: AttributionService | None, model: Any
    ) -> AttributedRun:
        if service is not None:
            return service.attribute(run_id, run_id, answer)
        error = UnsupportedModel(
            f"{type(model).__name__} holds no local Hugging Face model, whose probabilities the "
            "score needs; pass the one that answers: AttributionMiddleware(llm), or a local copy "
            "of it: AttributionMiddleware(language_model=...)"
        )
        if not self._told_of_model:
            self._told_of_model = True
            logger.warning("no attribution: %s", error)
        run = AttributedRun(run_id, run_id, answer.documents, answer.text, RunOutcome(error=error))
        self.results.add(run)
        return run


def _run_id(message: BaseMessage) -> str:
    """The id of the model's run, which is a part of the message's id."""
    given = str(message.id or uuid4()).removeprefix(_RUN_PREFIX)
    return given[:_UUID_LENGTH]
