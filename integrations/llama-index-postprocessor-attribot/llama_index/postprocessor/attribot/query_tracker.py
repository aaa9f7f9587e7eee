"""Observed queries: their spans, their nodes, and the models that they call."""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any
from weakref import ReferenceType, ref

from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore
from llama_index.postprocessor.attribot.models import describe, find_language_model
from llama_index.postprocessor.attribot.tracked_query import (
    ModelCall,
    ObservedWithin,
    QueryObserver,
    TrackedQuery,
    streamed_query,
)
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.span import active_span_id
from pydantic import PrivateAttr

_SYNTHESES = ("synthesize", "asynthesize")
_POSTPROCESSING = ("_postprocess_nodes", "_apostprocess_nodes")
_COMPLETIONS = ("complete", "stream_complete", "acomplete", "astream_complete")
_MAX_PASSED = 1024


_installing = threading.Lock()


class QueryTracker(BaseSpanHandler[BaseSpan]):
    """Sees every span of the process, and keeps those of observed queries until they end."""

    _observers: dict[str, QueryObserver] = PrivateAttr(default_factory=dict)
    _queries: dict[str, TrackedQuery] = PrivateAttr(default_factory=dict)
    _finished: dict[str, TrackedQuery] = PrivateAttr(default_factory=dict)
    _calls: dict[str, ModelCall] = PrivateAttr(default_factory=dict)
    _parents: dict[str, str] = PrivateAttr(default_factory=dict)
    _passed: OrderedDict[int, tuple[ReferenceType[NodeWithScore], QueryObserver]] = PrivateAttr(
        default_factory=OrderedDict
    )
    _passing: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    @classmethod
    def class_name(cls) -> str:
        return "AttributionSpanHandler"

    @property
    def num_open(self) -> int:
        """How many entries are kept of spans that have not ended."""
        return sum(map(len, self._entries))

    @property
    def _entries(self) -> tuple[dict[str, Any], ...]:
        return self._observers, self._queries, self._finished, self._calls, self._parents

    def synthesized_by(self, id_: str) -> TrackedQuery | None:
        """The query whose response this span, which has not ended, puts together."""
        query = self._queries.get(id_)
        return query if query is not None and query.run_id == id_ else None

    def new_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        parent_span_id: str | None = None,
        *_: Any,
        **__: Any,
    ) -> None:
        parent = parent_span_id or ""
        query = self._queries.get(parent) or streamed_query.get()
        if query is not None:
            self._queries[id_] = query
            if isinstance(instance, LLM):
                self._call(id_, parent, instance, bound_args, query)
            return
        observer = self._observers.get(parent)
        if isinstance(instance, ObservedWithin):
            observer = instance.postprocessor
        elif isinstance(instance, QueryObserver):
            observer = self._observers.setdefault(parent, instance) if parent else instance
        synthesizes = _method(id_) in _SYNTHESES and "nodes" in bound_args.arguments
        if synthesizes and observer is None:
            observer = self._observer_of(bound_args.arguments["nodes"])
        if observer is None:
            return
        self._observers[id_] = observer
        if synthesizes:
            self._queries[id_] = _tracked_query(id_, observer, bound_args)
            self._parents[id_] = parent
            _listen_to(getattr(instance, "callback_manager", None))

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

    def prepare_to_exit_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        result: Any = None,
        **_: Any,
    ) -> None:
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
        self._forget(id_)
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

    def prepare_to_drop_span(self, id_: str, *_: Any, **__: Any) -> None:
        query = self.synthesized_by(id_)
        self._forget(id_)
        if query is not None:
            query.done()

    def _forget(self, id_: str) -> None:
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


class SynthesisCallback(BaseCallbackHandler):
    """Has a response attributed while its synthesis still runs.

    LlamaIndex swallows everything that is raised while a span ends, KeyboardInterrupt too; an
    inline attribution there could not be stopped with Ctrl-C. From a callback it can.
    """

    def __init__(self) -> None:
        others: list[CBEventType] = [
            one for one in CBEventType if one is not CBEventType.SYNTHESIZE
        ]
        super().__init__(event_starts_to_ignore=list(CBEventType), event_ends_to_ignore=others)

    def on_event_start(self, *_: Any, event_id: str = "", **__: Any) -> str:
        return event_id

    def on_event_end(
        self,
        event_type: CBEventType,
        payload: dict[str, Any] | None = None,
        event_id: str = "",
        **_: Any,
    ) -> None:
        query = installed().synthesized_by(active_span_id.get() or "")
        if query is not None and payload is not None and EventPayload.RESPONSE in payload:
            query.finish(payload[EventPayload.RESPONSE])

    def start_trace(self, trace_id: str | None = None) -> None:
        """Traces are nothing to it."""

    def end_trace(self, *_: Any, **__: Any) -> None:
        """Traces are nothing to it."""


def installed() -> QueryTracker:
    """The one handler of this process, at the root of LlamaIndex's dispatchers."""
    root = get_dispatcher()
    with _installing:
        found = next((one for one in root.span_handlers if isinstance(one, QueryTracker)), None)
        if found is None:
            found = QueryTracker()
            root.add_span_handler(found)
        return found


def _listen_to(callbacks: CallbackManager | None) -> None:
    """Add the callback to a synthesizer's others, for good: it ignores all other queries."""
    with _installing:
        if callbacks is not None and not any(
            isinstance(one, SynthesisCallback) for one in callbacks.handlers
        ):
            callbacks.add_handler(SynthesisCallback())
