"""Turns LangChain's callbacks into the events that an observer takes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    Generation,
    GenerationChunk,
    LLMResult,
)
from langchain_core.runnables.config import ensure_config, get_callback_manager_for_config
from langchain_core.tracers.context import register_configure_hook

from attribot_rag.runtime import Call, Observer, Step, texts_in_prompt, verbatim_texts
from langchain_attribot.documents import (
    as_documents,
    documents_in,
    named_documents,
    retrieved_documents,
)
from langchain_attribot.messages import answer_text, is_last

if TYPE_CHECKING:
    from opentelemetry.trace import Span

Chunk = GenerationChunk | ChatGenerationChunk
AskingAgain = Callable[..., Callable[..., str]]

_INSTRUMENTATION = "openinference.instrumentation.langchain"

_unobserved = ContextVar("attribot_unobserved", default=False)


@contextmanager
def unobserved() -> Iterator[None]:
    """Calls of models within the block do not belong to the application."""
    token = _unobserved.set(True)
    try:
        yield
    finally:
        _unobserved.reset(token)


@dataclass(eq=False)
class StreamedCall:
    """A call of a model, and the pieces of its answer that were streamed.

    If it `is_structured`, its tool calls are its answer. Otherwise, the `generation` is kept until
    something passes on their arguments.
    """

    call: Call
    pieces: list[str] = field(default_factory=list)
    is_structured: bool = False
    calls_tools: bool = False
    provider: str = ""
    chunk: Chunk | None = None
    generation: ChatGeneration | None = None


class RunCallbacks(BaseCallbackHandler):
    """Reports chains, tools, searches and calls of models to an observer.

    With `attributes_stopped`, it also reports answers that were stopped. `ask_again` takes a
    prompt, the name of its model and the parameters of its call, and returns a function that asks
    that model again.
    """

    attributes_stopped = False

    def __init__(self, observer: Observer, ask_again: AskingAgain | None = None) -> None:
        self.observer = observer
        self._ask_again = ask_again
        self._calls: dict[UUID, StreamedCall] = {}

    @property
    def num_open(self) -> int:
        """How many runs have not ended."""
        return len(self.observer.steps)

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: Any = None, **named: Any
    ) -> None:
        kind = "parser" if named.get("run_type") == "parser" else "chain"
        given = tuple(documents_in(inputs))
        is_streamed = inputs == {"input": ""}  # whose inputs are known at its end
        memo = {} if parent_run_id or is_streamed else {"inputs": inputs}
        names = names_of(named)
        self.observer.began(run_id, parent_run_id, kind=kind, names=names, given=given, memo=memo)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, inputs: Any = None, **_: Any) -> None:
        step = self.observer.steps.get(run_id)
        if step is not None:
            if not step.given:  # of a stream, they are known at its end
                step.given = tuple(documents_in(inputs))
            self.chain_ended(step, outputs)

    def chain_ended(self, step: Step, outputs: Any) -> None:
        """A chain returned its outputs."""
        self.observer.ended(step.id, documents=tuple(documents_in(outputs)))

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self.observer.ended(run_id)

    on_tool_error = on_retriever_error = on_chain_error

    def on_tool_start(
        self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any
    ) -> None:
        self.observer.began(run_id, parent_run_id, kind="tool")

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        self.observer.retrieved(run_id, tuple(documents_in(output)))

    def on_retriever_start(
        self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any
    ) -> None:
        self.observer.began(run_id, parent_run_id, kind="retriever")

    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **_: Any) -> None:
        self.observer.retrieved(run_id, tuple(documents), replaces=True)

    def on_chat_model_start(
        self, serialized: Any, messages: list[list[BaseMessage]], **call: Any
    ) -> None:
        copies = [message.model_copy() for message in messages[0]]  # which nobody changes later
        self._called(copies, verbatim_texts(copies), retrieved_documents(copies), **call)

    def on_llm_start(self, serialized: Any, prompts: list[str], **call: Any) -> None:
        self._called(prompts[0], [prompts[0]], (), **call)

    def _called(
        self,
        prompt: Sequence[BaseMessage] | str,
        texts: list[str],
        documents: Sequence[Document],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **named: Any,
    ) -> None:
        if _unobserved.get():
            return
        metadata = named.get("metadata") or {}
        known = (*documents, *named_documents(metadata))
        name = str(metadata.get("ls_model_name") or "")
        parameters = named.get("invocation_params") or {}
        call = self.observer.called(
            run_id,
            parent_run_id,
            prompt,
            texts,
            names=names_of(named),
            given=known,
            span=span_of(run_id),
            answered_by=name,
            ask=self._ask_again and self._ask_again(name, parameters),
        )
        is_structured = "ls_structured_output_format" in (named.get("options") or {})
        self._calls[run_id] = StreamedCall(call, is_structured=is_structured)

    def on_llm_new_token(
        self, token: Any, *, run_id: UUID, chunk: Chunk | None = None, **_: Any
    ) -> None:
        streamed = self._calls.get(run_id)
        if streamed is None or streamed.call.is_answered or not streamed.call.wanted:
            return
        if chunk is not None and chunk is streamed.chunk:  # told twice
            return
        streamed.chunk = chunk
        streamed.pieces.append(str(token) if chunk is None else chunk.text)
        if isinstance(chunk, ChatGenerationChunk):
            metadata = chunk.message.response_metadata
            streamed.provider = streamed.provider or metadata.get("model_provider", "")
            streamed.calls_tools |= bool(getattr(chunk.message, "tool_call_chunks", None))
            if is_last(chunk) and not streamed.calls_tools:
                self.answered(streamed, "".join(streamed.pieces), chunk)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        streamed = self._calls.pop(run_id, None)
        generations = [generation for row in response.generations for generation in row]
        try:
            if streamed is not None and len(generations) == 1:
                self.model_ended(streamed, generations[0])
        finally:
            self.observer.ended(run_id)

    def model_ended(self, streamed: StreamedCall, generation: Generation) -> None:
        """A model's call ended, with an answer or with tool calls."""
        message = generation.message if isinstance(generation, ChatGeneration) else None
        if message is None or not getattr(message, "tool_calls", None):
            self.answered(streamed, generation.text, generation)
        elif streamed.is_structured:
            self.answered(streamed, answer_text(message), generation)
        elif isinstance(generation, ChatGeneration):
            generation.message = message.model_copy()  # a cache may hold the one that is there
            streamed.generation = generation
            streamed.call.step.root.memo.setdefault("tool_calls", []).append(streamed)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        streamed = self._calls.pop(run_id, None)
        stopped = isinstance(error, GeneratorExit | asyncio.CancelledError)
        try:
            if streamed is not None and stopped and self.attributes_stopped:
                self.answered(streamed, "".join(streamed.pieces))
        finally:
            self.observer.ended(run_id)

    def answered(
        self, streamed: StreamedCall, text: str, generation: Generation | None = None
    ) -> None:
        """A model answered.

        With `generation`, something can be attached to the answer. May be called twice.
        """


def names_of(metadata: Mapping[str, Any]) -> frozenset[str]:
    """The name, the tags and the LangGraph node of a run, from its callback."""
    node = (metadata.get("metadata") or {}).get("langgraph_node")
    return frozenset(filter(None, (metadata.get("name"), node, *(metadata.get("tags") or ()))))


def span_of(run_id: UUID | None = None) -> Span | None:
    """The open span of a run by OpenInference, by default of the run that calls this; None without.

    OpenInference makes none of its spans current.
    """
    module: Any = sys.modules.get(_INSTRUMENTATION)
    instrumentor = None if module is None else module.LangChainInstrumentor()
    if instrumentor is None or not instrumentor.is_instrumented_by_opentelemetry:
        return None
    span: Span | None = instrumentor.get_span(run_id) if run_id else module.get_current_span()
    return span


Result = TypeVar("Result")
Found = TypeVar("Found", bound=Iterable[Any])

NAME = "retrieved"
_UUID_LENGTH = 36

_told: ContextVar[tuple[UUID | None, tuple[Document, ...]]] = ContextVar(
    "attribot_told", default=(None, ())
)


def retrieved(documents: Found, query: str = "") -> Found:
    """Report documents from a store or an API that you call directly, without LangChain.

        documents = retrieved(store.similarity_search(question))

    Call this function where the search is: in a function of a chain, a tool, a node, a middleware,
    or within `with attribute(llm)`. It runs the callbacks of a retriever that found these documents
    for `query`, so traces also show the search. It returns the documents unchanged. Raises
    InvalidInput for other values.

    Args:
        documents: LangChain's documents, perhaps in pairs with scores, texts, or mappings. The text
            of a mapping is its `page_content` or `text`, or else its longest text.
        query: What was searched.
    """
    retrieved = list(as_documents(documents))
    manager = get_callback_manager_for_config(ensure_config())
    run = manager.on_retriever_start({"name": NAME}, query, name=NAME)
    run.on_retriever_end(retrieved)
    within = manager.parent_run_id
    if within is not None:
        _told.set((within, (*_told_within(within), *retrieved)))
    return documents


def _told_within(run_id: UUID | None) -> tuple[Document, ...]:
    within, documents = _told.get()
    return documents if run_id is not None and within == run_id else ()


def run_id_of(message: BaseMessage) -> str:
    """The id of the model's run, which is part of the message's id."""
    return str(message.id or uuid4()).removeprefix("lc_run--")[:_UUID_LENGTH]


class ObservedRetrieval(RunCallbacks):
    """Sees the documents that are retrieved within a block, and the calls of chat models in it."""

    def __init__(self, ask_again: AskingAgain | None = None) -> None:
        super().__init__(Observer([], loose=True), ask_again)
        self._ended_calls: dict[str, Call] = {}

    @property
    def documents(self) -> Sequence[Document]:
        return self.observer.loose_documents

    def model_ended(self, streamed: StreamedCall, generation: Generation) -> None:
        self._ended_calls[streamed.call.step.id] = streamed.call

    def call_of(self, answer: BaseMessage) -> Call | None:
        """The call that gave an answer, or else the last one; None without any."""
        last = next(reversed(self._ended_calls.values()), None)
        return self._ended_calls.get(run_id_of(answer), last)

    def all_documents(self, state: Any) -> Iterator[Sequence[Document]]:
        """Documents of an agent's state and its call's metadata, and those seen until now."""
        config = ensure_config()
        yield list(documents_in(state))
        yield named_documents(config.get("metadata"))
        yield _told_within(get_callback_manager_for_config(config).parent_run_id)
        yield self.documents

    def with_artifact(self, result: Result) -> Result:
        """A copy of a tool's message that has the documents in its text as its artifact.

        A message with an artifact, and any other result of a tool, stays as it is.
        """
        if not isinstance(result, ToolMessage) or result.artifact is not None:
            return result
        texts = texts_in_prompt(result.text, [document.page_content for document in self.documents])
        documents = [document for document in self.documents if document.page_content in texts]
        return result.model_copy(update={"artifact": documents}) if documents else result


_running: ContextVar[ObservedRetrieval | None] = ContextVar("attribot_retrieval", default=None)
register_configure_hook(_running, inheritable=True)


@contextmanager
def observed_retrieval(ask_again: AskingAgain | None = None) -> Iterator[ObservedRetrieval]:
    """See the documents that are retrieved within the block."""
    retrieval = ObservedRetrieval(ask_again)
    token = _running.set(retrieval)
    try:
        yield retrieval
    finally:
        _running.reset(token)
