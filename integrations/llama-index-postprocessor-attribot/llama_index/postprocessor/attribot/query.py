"""Queries, the models that they call, and the responses that carry their attributions."""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Generator, ItemsView, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, CompletionResponse
from llama_index.core.llms import LLM, ChatResponse
from llama_index.core.schema import NodeWithScore
from pydantic import BaseModel

from attribot_rag import LanguageModel
from attribot_rag.runtime import Answer, AttributedRun, Scoring, Step, Steps, verbatim_texts

KEY = "attribution"


class QueryObserver:
    """The observer of a query: the postprocessor."""

    def model_of(self, llm: LLM) -> Scoring | None:
        """What scores the answers of this LlamaIndex model."""
        raise NotImplementedError

    def model_called(self, query: TrackedQuery, scoring: Scoring) -> None:
        """A model with a scorer is about to answer."""

    def answered(self, query: TrackedQuery, response: Any) -> None:
        """A response is complete, or begins to stream."""

    def unseen(self, query: TrackedQuery, response: Any) -> None:
        """A query was answered from nodes, but no call of a model was seen."""


@dataclass(eq=False)
class TrackedQuery:
    """A query and what belongs to it.

    `nodes` are those that the response is made from, and `step` is its span. `earlier` are the
    queries whose answers it may be made from. `responses` carry the attribution: the query's own,
    and those that other engines make from it. `answer` is its text when it is there. A query that
    `gathers` has the nodes of all searches in it, and the prompt may have only some of these. Some
    nodes were `told` to it, the first `num_before` were found by earlier runs, and `within` has the
    answers of engines in it. `error` is an error before there was a response. `when_done` is called
    once, when the recorded generations are no longer needed.
    """

    step: Step
    observer: QueryObserver
    text: str
    nodes: Sequence[NodeWithScore]
    asynchronous: bool
    earlier: Sequence[TrackedQuery] = ()
    gathers: bool = False
    told: Sequence[NodeWithScore] = ()
    num_before: int = 0
    within: list[Any] = field(default_factory=list)
    answered: bool = False
    answer: str = ""
    calls: list[ModelCall] = field(default_factory=list)
    responses: list[Any] = field(default_factory=list)
    run: AttributedRun | None = None
    error: BaseException | None = None
    when_done: list[Callable[[], None]] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        return self.step.id

    @property
    def has_documents(self) -> bool:
        return bool(self.nodes or self.earlier)

    def next_call(self, steps: Steps, span_id: str, llm: LLM) -> ModelCall:
        """The call of the model: one that so far only returned a stream, or a new one."""
        if self.calls and self.calls[-1].begun:
            self.calls[-1].begun = False
        else:
            self.calls.append(ModelCall(steps.begin(span_id, self.step), describe(llm)))
        return self.calls[-1]

    def model_asked(self, call: ModelCall, llm: LLM, bound_args: inspect.BoundArguments) -> None:
        """A model is asked. The model that scores its answer is recorded from now on."""
        if call.scoring is None:  # the model may wrap a local one
            scoring = self.observer.model_of(llm)
            if scoring is not None:
                try:
                    self.observer.model_called(self, scoring)
                except Exception as error:  # LlamaIndex would swallow it
                    self.error = error
            call.scoring = scoring
        call.ask(llm, bound_args)

    def finish(self, response: Any) -> None:
        """Pass the response to the observer, once."""
        if not self.answered:
            self.answered = True
            self.observer.answered(self, response)

    def run_of(
        self, text: str, error: BaseException | None = None, *, is_pending: bool = False
    ) -> AttributedRun:
        """The run of its answer, without an attribution."""
        answer = Answer(text, tuple(self.nodes), question=self.text or None)
        return AttributedRun(self.run_id, self.run_id, answer, error=error, is_pending=is_pending)

    def attach(self, run: AttributedRun | None) -> None:
        """Write the attribution into the metadata of every response; None removes it."""
        self.run = run
        for response in self.responses:
            self._attach(response)

    def add(self, response: Any) -> None:
        """Add a response, and give it the current result."""
        if not any(known_response is response for known_response in self.responses):
            self.responses.append(response)
        if self.run is not None:
            self._attach(response)

    def done(self) -> None:
        while self.when_done:
            self.when_done.pop()()

    def _attach(self, response: Any) -> None:
        metadata = getattr(response, "metadata", None) or {}  # of the nodes
        if KEY not in metadata:
            if self.run is None:
                return
            metadata = ResponseMetadata(metadata) if metadata else {}
            with suppress(AttributeError, ValueError):  # of a workflow, which may give any value
                response.metadata = metadata
        text = text_of(response)
        changed = self.run and text and self.answer.strip() and text != self.answer.strip()
        run = replace(self.run, shown=text) if self.run and changed else self.run
        metadata[KEY] = run and run.summary


@dataclass(eq=False)
class ModelCall:
    """A call of a model, with its prompt as text and perhaps as messages.

    `scoring` scores the answer; it is None for a model that is not local. `llm` is the model that
    got the prompt, with these `arguments`. `elsewhere` says that another model scores. `answer` is
    None until the model has answered, and for an answer that was streamed to someone else. A call
    that has only `begun` returned a stream, and asks the model when the stream is read.
    """

    step: Step
    name: str
    scoring: Scoring | None = None
    llm: LLM | None = None
    arguments: Any = None
    prompt: str = ""
    messages: Sequence[ChatMessage] | None = None
    elsewhere: bool = False
    answer: str | None = None
    begun: bool = False

    @property
    def prompt_texts(self) -> list[str]:
        """Texts that are in the prompt word for word, whatever the template does with others."""
        return [self.prompt.strip()] if self.messages is None else verbatim_texts(self.messages)

    def ask(self, llm: LLM, bound_args: inspect.BoundArguments) -> None:
        """Take the prompt of the innermost model that reports the call."""
        own, scoring = find_language_model(llm), self.scoring
        self.elsewhere = scoring is not None and not (
            isinstance(scoring, LanguageModel) and own and own.weights is scoring.weights
        )
        messages, prompt = argument(bound_args, "messages"), argument(bound_args, "prompt")
        if isinstance(prompt, str):
            self.prompt = prompt
        if messages is not None:
            self.messages = tuple(map(_as_it_is, messages))
        elif isinstance(prompt, str) and (self.messages is None or self.llm is not llm):
            self.messages = None
        else:  # a chat model's own prompt, made from its messages
            return
        self.llm, self.arguments = llm, bound_args

    def end(self, llm: LLM, result: Any) -> None:
        """Take the answer of the innermost model, which others may have changed."""
        if isinstance(result, CompletionResponse):
            if self.answer is None or find_language_model(llm) is not None:
                self.answer = str(result.text)
        elif isinstance(result, ChatResponse):
            if not self.answer:  # a chat model that does not complete prompts
                self.answer = result.message.content or ""
        elif isinstance(result, BaseModel):
            if not self.answer:  # it called a tool, and its arguments make the answer
                self.answer = result.model_dump_json()
        elif not self.prompt:
            self.begun = isinstance(result, (Generator, AsyncGenerator))


class ResponseMetadata(dict[str, Any]):
    """A response's metadata, and its attribution under the key 'attribution'.

    LlamaIndex stores the metadata of each node here, by the node's id, and people iterate over it:
    `[one["file_name"] for one in response.metadata.values()]`. So the attribution can be read by
    its key, but is not an item, except for `json`, which would otherwise lose it.
    """

    attribution: dict[str, Any] | None = None

    def __setitem__(self, key: str, value: Any) -> None:
        if key == KEY:
            self.attribution = value
        else:
            super().__setitem__(key, value)

    def __missing__(self, key: str) -> Any:
        if key == KEY and self.attribution is not None:
            return self.attribution
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (key == KEY and self.attribution is not None)

    def __bool__(self) -> bool:
        return len(self) > 0 or self.attribution is not None

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        # `json` and pydantic read the items. pydantic must not see it: LlamaIndex's retrievers over
        # engines copy a response's metadata to a node, which goes into the next prompt.
        is_written = sys._getframe(1).f_globals.get("__name__") == "json.encoder"
        return ({**self, KEY: self.attribution} if is_written else dict(self)).items()

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key, default if self.attribution is None or key != KEY else self[KEY])

    def copy(self) -> ResponseMetadata:
        return copy(self)


streamed_query: ContextVar[TrackedQuery | None] = ContextVar("attribot_streaming", default=None)


@contextmanager
def streaming(query: TrackedQuery) -> Iterator[None]:
    """Models that are called within the block answer this query, whose spans have ended already."""
    token = streamed_query.set(query)
    try:
        yield
    finally:
        streamed_query.reset(token)


def is_asynchronous(id_: str) -> bool:
    """Whether a span belongs to a coroutine, by its id: 'Class.amethod-uuid'.

    There is no other sign: in a notebook, an event loop runs anyway.
    """
    return id_.split("-", 1)[0].rsplit(".", 1)[-1].startswith("a")


def question_in(bound_args: inspect.BoundArguments) -> str:
    """The question in the arguments of an engine or a synthesizer."""
    arguments = bound_args.arguments
    names = ("query", "str_or_query_bundle", "query_bundle", "message")
    question = next((arguments[name] for name in names if name in arguments), "")
    start = arguments.get("start_event")  # of a workflow
    question = question if start is None else start.get("user_msg", "")
    return str(getattr(question, "query_str", getattr(question, "content", question)))


def text_of(response: Any) -> str:
    """The text of a response; '' while it is streamed."""
    answer = response if isinstance(response, str) else getattr(response, "response", None)
    if answer is None:
        return ""
    return (answer if isinstance(answer, str) else str(response)).strip()


def find_language_model(llm: Any) -> LanguageModel | None:
    """The model and tokenizer that a HuggingFaceLLM generates with; None for another kind."""
    if isinstance(llm, LanguageModel):
        return llm
    held: Any = [getattr(llm, name, None) for name in ("_model", "_tokenizer")]
    if hasattr(held[0], "generate") and hasattr(held[1], "all_special_tokens"):
        from attribot_rag import LocalModel  # PyTorch, which takes seconds

        return LocalModel(*held)
    return None


def describe(llm: Any) -> str:
    """The class of a model, and the class of the model inside it, if any."""
    model = getattr(llm, "_model", None)
    name = type(llm).__name__
    return f"{name} ({type(model).__name__})" if hasattr(model, "parameters") else name


def _as_it_is(message: ChatMessage) -> ChatMessage:
    """A copy of the message, because agents change the texts of messages that they have sent."""
    return message.model_copy(update={"blocks": [block.model_copy() for block in message.blocks]})


def argument(bound_args: inspect.BoundArguments, name: str) -> Any:
    """An argument by its name, or the first one if a decorator hides the names."""
    arguments = bound_args.arguments
    if name in arguments:
        return arguments[name]
    named = arguments.get("kwargs", {})
    if name in named:
        return named[name]
    first = next(iter(arguments.get("args", ())), None)
    return first if name == "prompt" and isinstance(first, str) else None
