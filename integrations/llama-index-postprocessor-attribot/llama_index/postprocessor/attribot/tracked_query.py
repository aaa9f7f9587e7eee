"""A query that is answered: its nodes, its calls of models, and the responses that carry it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore
from llama_index.postprocessor.attribot.response_metadata import ResponseMetadata

from attribot_rag import LanguageModel
from attribot_rag.runtime import AttributedRun


class QueryObserver:
    """Who is told what becomes of a query: the postprocessor, of those that run it."""

    def model_of(self, llm: LLM) -> LanguageModel | None:
        """The local model that scores what this model of LlamaIndex answers."""
        raise NotImplementedError

    def model_called(self, query: TrackedQuery, language_model: LanguageModel) -> None:
        """A local model is about to answer."""
        raise NotImplementedError

    def answered(self, query: TrackedQuery, response: Any) -> None:
        """A response was put together, or is going to be streamed."""
        raise NotImplementedError

    def unseen(self, query: TrackedQuery, response: Any) -> None:
        """A query of which nodes were seen is answered, but no call of a model was."""
        raise NotImplementedError


class ObservedWithin:
    """Has its own queries observed, with everything within them: an engine."""

    postprocessor: QueryObserver


@dataclass(eq=False)
class ModelCall:
    """A call of a model, with its prompt as text and perhaps as messages.

    `language_model` is None for a model that is not local; `answer` while it has not answered, and
    for an answer that was streamed to somebody else. A call that is `begun` only gave a stream, and
    asks the model when that is read. `asked` is the model that was given the messages. It is
    answered `elsewhere` where that is not the local model that scores.
    """

    name: str
    language_model: LanguageModel | None
    prompt: str = ""
    messages: Sequence[ChatMessage] | None = None
    asked: LLM | None = None
    elsewhere: bool = False
    answer: str | None = None
    begun: bool = False

    @property
    def prompt_text(self) -> str:
        """The prompt; the texts of the messages for a model that makes no text of them here."""
        return self.prompt or "\n\n".join(one.content or "" for one in self.messages or ())


@dataclass(eq=False)
class TrackedQuery:
    """`nodes` are those that the response is made of; `run_id` is the id of the span.

    `earlier` are the queries whose answers it may be made of. `responses` carry the attribution:
    the query's, and those that other engines make of it. `answer` is its text, once it is there.
    `error` is what went wrong before there was a response. `when_done` is called once, when the
    recorded generations are no longer needed.
    """

    run_id: str
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

    def finish(self, response: Any) -> None:
        """Tell the observer of the response, unless it was told before."""
        if not self.answered:
            self.answered = True
            self.observer.answered(self, response)

    def attach(self, run: AttributedRun | None) -> None:
        """Write the attribution into the metadata of every response; None takes it out again."""
        self.run = run
        for response in self.responses:
            self._attach(response)

    def add(self, response: Any) -> None:
        """One more response, which gets what is known already."""
        if not any(one is response for one in self.responses):
            self.responses.append(response)
        if self.run is not None:
            self._attach(response)

    def carries(self, response: Any) -> bool:
        """Whether a response is one of its own, or tells of one among its sources (of a chat)."""
        sources = getattr(response, "sources", None) or ()
        told = [response, *(getattr(one, "raw_output", None) for one in sources)]
        return any(one is own for one in told for own in self.responses)

    def has_said(self, text: str) -> bool:
        """Whether a call of a model answered this."""
        return any(call.answer is not None and call.answer.strip() == text for call in self.calls)

    def done(self) -> None:
        while self.when_done:
            self.when_done.pop()()

    def _attach(self, response: Any) -> None:
        if self.run is None:
            ResponseMetadata.detach(response)
            return
        text = text_of(response)
        changed = text and self.answer.strip() and text != self.answer.strip()
        run = replace(self.run, shown=text) if changed else self.run
        ResponseMetadata.attach(response, run.summary)


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
    """What a response says; '' while it is streamed."""
    said = getattr(response, "response", None)
    if said is None:
        return ""
    return (said if isinstance(said, str) else str(response)).strip()
