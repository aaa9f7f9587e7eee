"""A query that is answered: its nodes, its calls of models, and the responses that carry it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import NodeWithScore

from attribot_rag import LanguageModel


class QueryObserver:
    """Who is told what becomes of a query: the postprocessor, of those that run it."""

    def model_called(self, query: TrackedQuery, language_model: LanguageModel) -> None:
        """A local model is about to answer."""
        raise NotImplementedError

    def answered(self, query: TrackedQuery, response: Any) -> None:
        """A response was put together, or is going to be streamed."""
        raise NotImplementedError


class ObservedWithin:
    """Has its own queries observed, with everything within them: an engine."""

    postprocessor: QueryObserver


@dataclass(eq=False)
class ModelCall:
    """A call of a model, with its prompt as text and perhaps as messages.

    `language_model` is None for a model that is not local; `answer` while it has not answered, and
    for an answer that was streamed to somebody else. A call that is `begun` only gave a stream, and
    asks the model when that is read.
    """

    name: str
    language_model: LanguageModel | None
    prompt: str = ""
    messages: Sequence[ChatMessage] | None = None
    answer: str | None = None
    begun: bool = False


@dataclass(eq=False)
class TrackedQuery:
    """`nodes` are those that the response is made of; `run_id` is the id of the span.

    `responses` carry the attribution: the query's, and the chat engine's. `error` is what went
    wrong before there was a response. `when_done` is called once, when the recorded generations are
    no longer needed.
    """

    run_id: str
    observer: QueryObserver
    text: str
    nodes: Sequence[NodeWithScore]
    asynchronous: bool
    answered: bool = False
    calls: list[ModelCall] = field(default_factory=list)
    responses: list[Any] = field(default_factory=list)
    summary: dict[str, Any] | None = None
    error: BaseException | None = None
    when_done: list[Callable[[], None]] = field(default_factory=list)

    def finish(self, response: Any) -> None:
        """Tell the observer of the response, unless it was told before."""
        if not self.answered:
            self.answered = True
            self.observer.answered(self, response)

    def attach(self, summary: dict[str, Any] | None) -> None:
        """Write the attribution into the metadata of every response; None takes it out again."""
        self.summary = summary
        for response in self.responses:
            _attach(response, summary)

    def add(self, response: Any) -> None:
        """One more response, which gets what is known already."""
        self.responses.append(response)
        if self.summary is not None:
            _attach(response, self.summary)

    def done(self) -> None:
        while self.when_done:
            self.when_done.pop()()


streamed_query: ContextVar[TrackedQuery | None] = ContextVar("attribot_streaming", default=None)


@contextmanager
def streaming(query: TrackedQuery) -> Iterator[None]:
    """Models that are called within the block answer this query, whose spans have ended already."""
    token = streamed_query.set(query)
    try:
        yield
    finally:
        streamed_query.reset(token)


def _attach(response: Any, summary: dict[str, Any] | None) -> None:
    """Chat responses have no metadata to begin with."""
    metadata = getattr(response, "metadata", None)
    if summary is not None:
        response.metadata = {} if metadata is None else metadata
        response.metadata["attribution"] = summary
    elif metadata is not None:
        metadata.pop("attribution", None)
