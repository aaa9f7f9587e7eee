"""Observed queries: their spans, their nodes, and the models that they call."""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import ReferenceType, ref

from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore
from llama_index.postprocessor.attribot.models import describe, find_language_model
from llama_index.postprocessor.attribot.tracked_query import (
    ModelCall,
    QueryObserver,
    TrackedQuery,
)

_SYNTHESES = ("synthesize", "asynthesize")
_POSTPROCESSING = ("_postprocess_nodes", "_apostprocess_nodes")
_COMPLETIONS = ("complete", "stream_complete", "acomplete", "astream_complete")
_MAX_PASSED = 1024

_streaming: ContextVar[TrackedQuery | None] = ContextVar("attribot_streaming", default=None)


@contextmanager
def streaming(query: TrackedQuery) -> Iterator[None]:
    """Models that are called within the block answer this query, whose spans have ended already."""
    token = _streaming.set(query)
    try:
        yield
    finally:
        _streaming.reset(token)


class Observed:
    """Has queries observed: a postprocessor those that run it, an engine those within it."""

    @property
    def attribot_observer(self) -> QueryObserver:
        raise NotImplementedError


class ObservedWithin(Observed):
    """Has its own queries observed, with everything within them."""


class QueryTracker:
    """The spans of observed queries, each of which is forgotten when it ends."""

    def __init__(self) -> None:
        self._observers: dict[str, QueryObserver] = {}
        self._queries: dict[str, TrackedQuery] = {}
        self._finished: dict[str, TrackedQuery] = {}
        self._calls: dict[str, ModelCall] = {}
        self._parents: dict[str, str] = {}
        self._passed: OrderedDict[int, tuple[ReferenceType[NodeWithScore], QueryObserver]] = (
            OrderedDict()
        )
        self._passing = threading.Lock()

    @property
    def num_open(self) -> int:
        return sum(len(one) for one in self._entries)

    @property
    def _entries(self) -> tuple[dict[str, Any], ...]:
        return self._observers, self._queries, self._finished, self._calls, self._parents

    def synthesized_by(self, id_: str) -> TrackedQuery | None:
        """The query whose response this span, which has not ended, puts together."""
        query = self._queries.get(id_)
        return query if query is not None and query.run_id == id_ else None

    def begin(
        self, id_: str, bound_args: inspect.BoundArguments, instance: Any, parent: str
    ) -> None:
        query = self._queries.get(parent) or _streaming.get()
        if query is not None:
            self._queries[id_] = query
            if isinstance(instance, LLM):
                self._call(id_, parent, instance, bound_args, query)
            return
        observer = self._observers.get(parent)
        if isinstance(instance, ObservedWithin):
            observer = instance.attribot_observer
        elif isinstance(instance, Observed):
            observer = instance.attribot_observer
            if parent:
                observer = self._observers.setdefault(parent, observer)
        synthesizes = _method(id_) in _SYNTHESES and "nodes" in bound_args.arguments
        if synthesizes and observer is None:
            observer = self._observer_of(bound_args.arguments["nodes"])
        if observer is None:
            return
        self._observers[id_] = observer
        if synthesizes:
            self._queries[id_] = _tracked_query(id_, observer, bound_args)
            self._parents[id_] = parent

    def _observer_of(self, nodes: Sequence[NodeWithScore]) -> QueryObserver | None:
        """Who saw one of these nodes, where retrieval and synthesis are steps of their own."""
        for node in nodes if self._passed else ():
            reference, observer = self._passed.get(id(node), (None, None))
            if reference is not None and reference() is node:
                return observer
        return None

    def _call(
        self,
        id_: str,
        parent: str,
        llm: LLM,
        bound_args: inspect.BoundArguments,
        query: TrackedQuery,
    ) -> None:
        """A model is called: the outermost span is one call, the innermost has its whole prompt."""
        call = self._calls.get(parent)
        if call is None and query.calls and query.calls[-1].begun:
            call = query.calls[-1]
            call.begun = False
        if call is None:
            call = ModelCall(describe(llm), None)
            query.calls.append(call)
        self._calls[id_] = call
        if call.language_model is None:  # of a model around a local one, that one
            call.language_model = find_language_model(llm)
            if call.language_model is not None:
                try:
                    query.observer.model_called(query, call.language_model)
                except Exception as error:  # which LlamaIndex would swallow
                    query.error = error
        messages = _argument(bound_args, "messages")
        if messages is not None:
            call.messages = tuple(messages)
        if _method(id_) in _COMPLETIONS:
            call.prompt = str(_argument(bound_args, "prompt") or "")

    def end(self, id_: str, result: Any) -> None:
        if id_ not in self._queries and id_ not in self._observers:
            return
        observer = self._observers.get(id_)
        if observer is not None and _method(id_) in _POSTPROCESSING and isinstance(result, list):
            self._pass(result, observer)
        call = self._calls.get(id_)
        if call is not None and _method(id_) in _COMPLETIONS and hasattr(result, "text"):
            call.answer = str(result.text)
        elif call is not None and not call.prompt:
            call.begun = isinstance(result, (Generator, AsyncGenerator))
        query = self.synthesized_by(id_)
        parent = self._parents.get(id_)
        finished = self._finished.get(id_)
        self.forget(id_)
        if query is not None:
            if parent in self._observers:
                self._finished[parent] = query
            query.finish(result)
        elif finished is not None and hasattr(result, "source_nodes"):
            finished.add(result)

    def _pass(self, nodes: Sequence[NodeWithScore], observer: QueryObserver) -> None:
        with self._passing:
            for node in nodes:
                self._passed[id(node)] = ref(node), observer
            while len(self._passed) > _MAX_PASSED:
                self._passed.popitem(last=False)

    def drop(self, id_: str) -> None:
        """The span ended in an error."""
        query = self.synthesized_by(id_)
        self.forget(id_)
        if query is not None:
            query.done()

    def forget(self, id_: str) -> None:
        for entries in self._entries:
            entries.pop(id_, None)


def _method(id_: str) -> str:
    """The name of the method in a span's id, 'Class.method-uuid'."""
    return id_.split("-", 1)[0].rsplit(".", 1)[-1]


def _argument(bound_args: inspect.BoundArguments, name: str) -> Any:
    """An argument by its name, or the first one of a method behind a decorator."""
    given = bound_args.arguments
    if name in given:
        return given[name]
    named = given.get("kwargs", {})
    if name in named:
        return named[name]
    first = next(iter(given.get("args", ())), None)
    return first if name == "prompt" and isinstance(first, str) else None


def _tracked_query(
    id_: str, observer: QueryObserver, bound_args: inspect.BoundArguments
) -> TrackedQuery:
    query = bound_args.arguments.get("query", "")
    text = str(getattr(query, "query_str", query))
    nodes = tuple(bound_args.arguments["nodes"])
    return TrackedQuery(id_, observer, text, nodes, asynchronous=_method(id_).startswith("a"))
