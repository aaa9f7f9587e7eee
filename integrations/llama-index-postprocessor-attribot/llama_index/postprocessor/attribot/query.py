"""Queries that are answered: their calls of models, and the responses that carry attributions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore
from llama_index.postprocessor.attribot.answer_callback import listen
from llama_index.postprocessor.attribot.model_call import ModelCall
from llama_index.postprocessor.attribot.response_metadata import ResponseMetadata

from attribot_rag import LanguageModel
from attribot_rag.runtime import Answer, AttributedRun, Step


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

    def model_asked(self, call: ModelCall, llm: LLM) -> LanguageModel | None:
        """The model that scores what this one answers, which is recorded from here on."""
        if call.language_model is not None:
            return call.language_model
        scoring = self.observer.model_of(llm)
        if scoring is not None:
            try:
                self.observer.model_called(self, scoring)
            except Exception as error:  # which LlamaIndex would swallow
                self.error = error
        return scoring

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


@dataclass(eq=False)
class EngineSpan:
    """A query of an engine, within that of the engine that asked it, if any.

    `nodes` are those that were retrieved for it in steps of its own. `answered` are the queries
    that other engines answered for it, in order; `synthesized` is the one that its synthesizer
    answered, and `own` the one for which it called a model without a synthesizer.
    """

    step: Step
    instance: Any
    outer: EngineSpan | None
    text: str
    asynchronous: bool
    observer: QueryObserver | None = None
    nodes: Sequence[NodeWithScore] = ()
    answered: list[TrackedQuery] = field(default_factory=list)
    synthesized: TrackedQuery | None = None
    own: TrackedQuery | None = None

    def own_query(self, observer: QueryObserver | None) -> TrackedQuery | None:
        """The query for which it calls a model itself, with nodes or answers of others to hand."""
        if self.answered:
            observer = observer or self.answered[-1].observer
        if observer is None or not (self.nodes or self.answered):
            return None
        if self.own is None:
            self.own = TrackedQuery(self.step, observer, self.text, (), self.asynchronous)
            callbacks = getattr(self.instance, "callback_manager", None)
            self.own.when_closed.append(listen(callbacks, self.step.id, self._told))
        self.own.nodes, self.own.earlier = self.nodes, tuple(self.answered)
        return self.own

    def finish(self, response: Any) -> None:
        """Attach what is known to what the engine answers, and tell the engine that asked."""
        query = self.query_of(response)
        if query is not None:
            query.finish(response)
            query.add(response)
        elif self.observer is not None and self.nodes and text_of(response):
            query = TrackedQuery(self.step, self.observer, self.text, self.nodes, self.asynchronous)
            self.observer.unseen(query, response)
        if query is not self.own:
            self.drop()
        if self.outer is not None:
            self.outer.answered += self.answered if query is None else [query]

    def _told(self, response: Any) -> None:
        """A response that is on its way out, before the span ends."""
        if self.own is not None and self.query_of(response) is self.own:
            self.own.finish(response)

    def drop(self) -> None:
        """Forget what was recorded for it."""
        if self.own is not None:
            self.own.done()

    def query_of(self, response: Any) -> TrackedQuery | None:
        """The query whose answer a response is: its synthesizer's, another engine's, or its own."""
        if self.synthesized is not None:
            return self.synthesized
        latest = reversed(self.answered)
        passed_on = next((inner for inner in latest if inner.carries(response)), None)
        if passed_on is not None:
            return passed_on
        text = text_of(response)
        if self.own is not None and (self.own.answered or self.own.has_said(text)):
            return self.own
        same = (inner for inner in reversed(self.answered) if text and inner.answer.strip() == text)
        return next(same, self.own)
