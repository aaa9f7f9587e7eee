"""Queries: the models that they call, and the responses that carry their attributions."""

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
    """The observer of a query: the postprocessor, of those that run it."""

    def model_of(self, llm: LLM) -> Scoring | None:
        """What scores the answers of this model of LlamaIndex."""
        raise NotImplementedError

    def model_called(self, query: TrackedQuery, scoring: Scoring) -> None:
        """A model is about to answer that something scores."""

    def answered(self, query: TrackedQuery, response: Any) -> None:
        """A response was put together, or is going to be streamed."""

    def unseen(self, query: TrackedQuery, response: Any) -> None:
        """A query of which nodes were seen is answered, but no call of a model was."""


@dataclass(eq=False)
class TrackedQuery:
    """`nodes` are those that the response is made of; `step` is its span.

    `earlier` are the queries whose answers it may be made of. `responses` carry the attribution:
    the query's, and those that other engines make of it. `answer` is its text, once it is there.
    One that `gathers` has the nodes of searches within it, of which the prompt may hold some;
    some were `told` to it, the first `num_before` were found by earlier runs, and `within` is what
    engines within it answered.
    `error` is what went wrong before there was a response. `when_done` is called once, when the
    recorded generations are no longer needed.
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
        """The call of a model that is asked: one that only gave a stream so far, or a new one."""
        if self.calls and self.calls[-1].begun:
            self.calls[-1].begun = False
        else:
            self.calls.append(ModelCall(steps.begin(span_id, self.step), describe(llm)))
        return self.calls[-1]

    def model_asked(self, call: ModelCall, llm: LLM, bound_args: inspect.BoundArguments) -> None:
        """A model is asked, and the one that scores its answer recorded from here on."""
        if call.scoring is None:  # of a model around a local one, that one
            scoring = self.observer.model_of(llm)
            if scoring is not None:
                try:
                    self.observer.model_called(self, scoring)
                except Exception as error:  # which LlamaIndex would swallow
                    self.error = error
            call.scoring = scoring
        call.ask(llm, bound_args)

    def finish(self, response: Any) -> None:
        """Tell the observer of the response, unless it was told before."""
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

    `scoring` is what scores it, None for a model that is not local. `llm` is the model that got the
    prompt, with these `arguments`; it is `elsewhere` where it is not the one that scores. `answer`
    is None while it has not answered, and for an answer that was streamed to somebody else. A call
    that is `begun` only gave a stream, and asks the model when that is read.
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
        """What stands in the prompt as it is, whatever a template makes of earlier answers."""
        return [self.prompt.strip()] if self.messages is None else verbatim_texts(self.messages)

    def ask(self, llm: LLM, bound_args: inspect.BoundArguments) -> None:
        """The prompt of the innermost model that reports the call."""
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
        else:  # a chat model's own prompt, which it made of its messages
            return
        self.llm, self.arguments = llm, bound_args

    def end(self, llm: LLM, result: Any) -> None:
        """The answer of the innermost model, which others may have changed."""
        if isinstance(result, CompletionResponse):
            if self.answer is None or find_language_model(llm) is not None:
                self.answer = str(result.text)
        elif isinstance(result, ChatResponse):
            if not self.answer:  # of a model that chats without completing a prompt
                self.answer = result.message.content or ""
        elif isinstance(result, BaseModel):
            if not self.answer:  # it called a tool, of whose arguments this is made
                self.answer = result.model_dump_json()
        elif not self.prompt:
            self.begun = isinstance(result, (Generator, AsyncGenerator))


class ResponseMetadata(dict[str, Any]):
    """A response's metadata, and its attribution under the key 'attribution'.

    LlamaIndex keeps the metadata of each node here, by the node's id, and people iterate over them:
    `[one["file_name"] for one in response.metadata.values()]`. So the attribution is found by its
    key, but is none of the items, except for `json`, which would lose it.
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
        # `json` takes a dict's items, and so does pydantic, which must not: LlamaIndex's retrievers
        # over engines make a response's metadata those of a node, which goes into the next prompt.
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
    """Whether a span is that of a coroutine, by LlamaIndex's names: 'Class.amethod-uuid'.

    It tells so nowhere else; a running event loop does not, in a notebook.
    """
    return id_.split("-", 1)[0].rsplit(".", 1)[-1].startswith("a")


def question_in(bound_args: inspect.BoundArguments) -> str:
    """The question to an engine or a synthesizer."""
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
    """Its class, and that of the model that it holds if there is any."""
    model = getattr(llm, "_model", None)
    name = type(llm).__name__
    return f"{name} ({type(model).__name__})" if hasattr(model, "parameters") else name


def _as_it_is(message: ChatMessage) -> ChatMessage:
    """A copy: agents write into the texts of messages that they have sent."""
    return message.model_copy(update={"blocks": [block.model_copy() for block in message.blocks]})


def argument(bound_args: inspect.BoundArguments, name: str) -> Any:
    """An argument by its name, or the first one of a method behind a decorator."""
    arguments = bound_args.arguments
    if name in arguments:
        return arguments[name]
    named = arguments.get("kwargs", {})
    if name in named:
        return named[name]
    first = next(iter(arguments.get("args", ())), None)
    return first if name == "prompt" and isinstance(first, str) else None
