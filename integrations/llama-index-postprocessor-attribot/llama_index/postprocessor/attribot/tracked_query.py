"""A query that is answered: its nodes, its calls of models, and the responses that carry it."""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, cast

from llama_index.core.base.llms.types import ChatMessage, CompletionResponse, MessageRole
from llama_index.core.llms import LLM, ChatResponse
from llama_index.core.schema import MetadataMode, NodeWithScore
from llama_index.postprocessor.attribot.response_metadata import ResponseMetadata
from torch.nn import Module
from torch.utils.weak import WeakIdKeyDictionary
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attribot_rag import LanguageModel
from attribot_rag.runtime import Answer, AttributedRun, Step

_MAX_NODES = 1024


class QueryObserver:
    """The observer of a query: the postprocessor, of those that run it."""

    def model_of(self, llm: LLM) -> LanguageModel | None:
        """The local model that scores what this model of LlamaIndex answers."""
        raise NotImplementedError

    def model_called(self, query: TrackedQuery, language_model: LanguageModel) -> None:
        """A local model is about to answer."""

    def answered(self, query: TrackedQuery, response: Any) -> None:
        """A response was put together, or is going to be streamed."""

    def unseen(self, query: TrackedQuery, response: Any) -> None:
        """A query of which nodes were seen is answered, but no call of a model was."""


class ObservedWithin:
    """Has its own queries observed, with everything within them: an engine."""

    postprocessor: QueryObserver


class PassedNodes:
    """The observer of the last nodes that went through a postprocessor.

    A workflow may make others of them, with their ids and texts.
    """

    def __init__(self) -> None:
        self._objects: MutableMapping[NodeWithScore, QueryObserver] = WeakIdKeyDictionary()
        self._texts: OrderedDict[tuple[str, int], QueryObserver] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, nodes: Sequence[NodeWithScore], observer: QueryObserver) -> None:
        with self._lock:
            for node in nodes:
                self._objects[node] = observer
                self._texts[_key(node)] = observer
            while len(self._texts) > _MAX_NODES:
                self._texts.popitem(last=False)

    def observer_of(
        self, nodes: Sequence[NodeWithScore], *, same_objects: bool
    ) -> QueryObserver | None:
        """The observer of one of these nodes, or unless `same_objects` one with its id and text."""
        observers = [self._objects.get(node) for node in nodes]
        if self._texts and not same_objects:
            observers += [self._texts.get(_key(node)) for node in nodes]
        return next(filter(None, observers), None)


def _key(node: NodeWithScore) -> tuple[str, int]:
    return node.node_id, hash(node.node.get_content(MetadataMode.NONE))


def find_language_model(llm: Any) -> LanguageModel | None:
    """The model and tokenizer that a HuggingFaceLLM generates with; None for another kind."""
    if isinstance(llm, LanguageModel):
        return llm
    model, tokenizer = getattr(llm, "_model", None), getattr(llm, "_tokenizer", None)
    if hasattr(model, "generate") and isinstance(tokenizer, PreTrainedTokenizerBase):
        return LanguageModel(cast(PreTrainedModel, model), tokenizer)
    return None


def describe(llm: Any) -> str:
    """Its class, and that of the model that it holds if there is any."""
    model = getattr(llm, "_model", None)
    name = type(llm).__name__
    return f"{name} ({type(model).__name__})" if isinstance(model, Module) else name


@dataclass(eq=False)
class ModelCall:
    """A call of a model, with its prompt as text and perhaps as messages.

    `language_model` is None for a model that is not local; `answer` while it has not answered, and
    for an answer that was streamed to somebody else. A call that is `begun` only gave a stream, and
    asks the model when that is read. `asked_model` is the model that got the messages. It is
    answered `elsewhere` where that is not the local model that scores.
    """

    step: Step
    name: str
    language_model: LanguageModel | None = None
    prompt: str = ""
    messages: Sequence[ChatMessage] | None = None
    asked_model: LLM | None = None
    elsewhere: bool = False
    answer: str | None = None
    begun: bool = False

    @property
    def prompt_texts(self) -> list[str]:
        """What stands in the prompt as it is, whatever a template makes of earlier answers."""
        if self.messages is None:
            return [self.prompt.strip()]
        contents = (
            message.content or ""
            for message in self.messages
            if message.role is not MessageRole.ASSISTANT
        )
        return [text for content in contents if (text := content.strip())]

    def ask(self, llm: LLM, bound_args: inspect.BoundArguments, query: TrackedQuery) -> None:
        """The prompt of the innermost model that reports the call."""
        if self.language_model is None:  # of a model around a local one, that one
            self.language_model = query.observer.model_of(llm)
            if self.language_model is not None:
                try:
                    query.observer.model_called(query, self.language_model)
                except Exception as error:  # which LlamaIndex would swallow
                    query.error = error
        messages = _argument(bound_args, "messages")
        if messages is not None:
            self.messages, self.asked_model = tuple(messages), llm
        own, scoring = find_language_model(llm), self.language_model
        self.elsewhere = scoring is not None and (own is None or own.backend is not scoring.backend)
        prompt = _argument(bound_args, "prompt")
        if isinstance(prompt, str):
            self.prompt = prompt
            if self.asked_model is not llm:
                self.messages = None

    def end(self, llm: LLM, result: Any) -> None:
        """The answer of the innermost model, which others may have changed."""
        if isinstance(result, CompletionResponse):
            if self.answer is None or find_language_model(llm) is not None:
                self.answer = str(result.text)
        elif isinstance(result, ChatResponse):
            if self.answer is None:  # of a model that chats without completing a prompt
                self.answer = result.message.content or ""
        elif not self.prompt:
            self.begun = isinstance(result, (Generator, AsyncGenerator))


def _argument(bound_args: inspect.BoundArguments, name: str) -> Any:
    """An argument by its name, or the first one of a method behind a decorator."""
    arguments = bound_args.arguments
    if name in arguments:
        return arguments[name]
    named = arguments.get("kwargs", {})
    if name in named:
        return named[name]
    first = next(iter(arguments.get("args", ())), None)
    return first if name == "prompt" and isinstance(first, str) else None


@dataclass(eq=False)
class TrackedQuery:
    """`nodes` are those that the response is made of; `step` is its span.

    `earlier` are the queries whose answers it may be made of. `responses` carry the attribution:
    the query's, and those that other engines make of it. `answer` is its text, once it is there.
    `error` is what went wrong before there was a response. `when_done` is called once, when the
    recorded generations are no longer needed, `when_closed` when its span ends.
    """

    step: Step
    observer: QueryObserver
    text: str
    nodes: Sequence[NodeWithScore]
    asynchronous: bool
    earlier: Sequence[TrackedQuery] = ()
    answered: bool = False
    answer: str = ""
    calls: list[ModelCall] = field(default_factory=list)
    responses: list[Any] = field(default_factory=list)
    run: AttributedRun | None = None
    error: BaseException | None = None
    when_done: list[Callable[[], None]] = field(default_factory=list)
    when_closed: list[Callable[[], None]] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        return self.step.id

    @property
    def has_documents(self) -> bool:
        return bool(self.nodes or self.earlier)

    def finish(self, response: Any) -> None:
        """Tell the observer of the response, unless it was told before."""
        if not self.answered:
            self.answered = True
            self.observer.answered(self, response)

    def run_of(
        self, text: str, error: BaseException | None = None, *, is_pending: bool = False
    ) -> AttributedRun:
        """The run of its answer, without an attribution."""
        answer = Answer(text, tuple(self.nodes), query=self.text or None)
        return AttributedRun(self.run_id, self.run_id, answer, error=error, is_pending=is_pending)

    def attach(self, run: AttributedRun | None) -> None:
        """Write the attribution into the metadata of every response; None takes it out again."""
        self.run = run
        for response in self.responses:
            self._attach(response)

    def add(self, response: Any) -> None:
        """One more response, which gets what is known already."""
        if not any(known_response is response for known_response in self.responses):
            self.responses.append(response)
        if self.run is not None:
            self._attach(response)

    def carries(self, response: Any) -> bool:
        """Whether a response is one of its own, or tells of one among its sources (of a chat)."""
        sources = getattr(response, "sources", None) or ()
        outputs = [response, *(getattr(source, "raw_output", None) for source in sources)]
        return any(output is own for output in outputs for own in self.responses)

    def has_said(self, text: str) -> bool:
        """Whether a call of a model answered this."""
        return any(call.answer is not None and call.answer.strip() == text for call in self.calls)

    def close(self) -> None:
        while self.when_closed:
            self.when_closed.pop()()

    def done(self) -> None:
        while self.when_done:
            self.when_done.pop()()

    def _attach(self, response: Any) -> None:
        metadata = getattr(response, "metadata", None)  # chat responses have none to begin with
        if not isinstance(metadata, ResponseMetadata):
            if self.run is None:
                return
            metadata = response.metadata = ResponseMetadata(metadata or {})
        if self.run is None:
            metadata.attribution = None
            return
        text = text_of(response)
        changed = text and self.answer.strip() and text != self.answer.strip()
        run = replace(self.run, shown=text) if changed else self.run
        metadata.attribution = run.summary


streamed_query: ContextVar[TrackedQuery | None] = ContextVar("attribot_streaming", default=None)


@contextmanager
def streaming(query: TrackedQuery) -> Iterator[None]:
    """Models that are called within the block answer this query, whose spans have ended already."""
    token = streamed_query.set(query)
    try:
        yield
    finally:
        streamed_query.reset(token)


def text_of(response: Any) -> str:
    """The text of a response; '' while it is streamed."""
    answer = getattr(response, "response", None)
    if answer is None:
        return ""
    return (answer if isinstance(answer, str) else str(response)).strip()
