"""Attribution within an agent: every answer, from everything that tools retrieved so far."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage

from attribot_rag.adapting import Answer, AttributedRun, Attributing, Outcome, Results
from attribot_rag.errors import UnsupportedModel
from langchain_attribot.documents import retrieved_in
from langchain_attribot.messages import attached, chat_of, register, said_in, text_of
from langchain_attribot.models import find_language_model, language_model_of

_RUN_PREFIX = "lc_run--"
_UUID_LENGTH = 36


class AttributionMiddleware(AgentMiddleware[Any, Any, Any]):
    """Attaches to every answer of an agent which retrieved text caused it.

        agent = create_agent(chat, [retriever_tool], middleware=[AttributionMiddleware()])

    Documents are the artifacts of all tool messages in the conversation, earlier turns included:
    make retriever tools with `response_format="content_and_artifact"`. `llm` is the local model
    that answers, by default the one in the agent's own model; `options` are those of the callback
    handler. Messages that call tools are no answers, and are left alone.
    """

    def __init__(self, llm: Any = None, *, citations: bool = False, **options: Any) -> None:
        super().__init__()
        self._llm = llm
        self._citations = citations
        self._options = dict(options)
        if options.get("proxy") is not None:
            self._options["proxy"] = language_model_of(options["proxy"])
        self._models: dict[int, Attributing] = {}
        self._making = threading.Lock()
        self._results = Results(options.get("max_results", 128))
        if llm is not None:
            self._attributing(llm)
        if citations:
            register()

    @property
    def results(self) -> Results:
        """The last answers, by the id of the model's run, which their summaries name."""
        return self._results

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        attributing = self._attributing(request.model)  # which records from here on
        return self._attributed(request, handler(request), attributing)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        attributing = self._attributing(request.model)
        response = await handler(request)
        return await asyncio.to_thread(self._attributed, request, response, attributing)

    def _attributing(self, model: Any) -> Attributing | None:
        """What attributes this model's answers; None if no local one is in it."""
        language_model = find_language_model(self._llm if self._llm is not None else model)
        if language_model is None:
            return None
        key = id(language_model.model)
        with self._making:
            if key not in self._models:
                self._models[key] = Attributing(
                    language_model, results=self._results, **self._options
                )
            return self._models[key]

    def _attributed(
        self,
        request: ModelRequest[Any],
        response: ModelResponse[Any],
        attributing: Attributing | None,
    ) -> ModelResponse[Any]:
        messages: Sequence[BaseMessage] = request.messages
        if request.system_message is not None:
            messages = [request.system_message, *messages]
        documents = retrieved_in(messages)
        result = list(response.result)
        if not documents:
            return response
        for index, message in enumerate(result):
            if isinstance(message, AIMessage) and not message.tool_calls and text_of(message):
                answer = Answer(text_of(message), documents, said_in(messages), chat_of(messages))
                run = self._run(_run_id(message), answer, attributing, request.model)
                result[index] = attached(message, run.summary, citations=self._citations)
        return replace(response, result=result)

    def _run(
        self, run_id: str, answer: Answer, attributing: Attributing | None, model: Any
    ) -> AttributedRun:
        if attributing is not None:
            return attributing.attribute(run_id, run_id, answer)
        error = UnsupportedModel(
            f"{type(model).__name__} holds no local Hugging Face model, whose probabilities the "
            "score needs; pass the one that answers: AttributionMiddleware(llm)"
        )
        run = AttributedRun(run_id, run_id, answer.documents, answer.text, Outcome(error=error))
        self._results.add(run)
        return run


def _run_id(message: BaseMessage) -> str:
    """The id of the model's run, which LangChain makes the message's of."""
    given = str(message.id or uuid4()).removeprefix(_RUN_PREFIX)
    return given[:_UUID_LENGTH]
