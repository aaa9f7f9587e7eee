"""Observed queries: their spans, their nodes, and the models that they call."""

from __future__ import annotations

import inspect
import logging
import threading
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.postprocessor.attribot.answer_callback import listen
from llama_index.postprocessor.attribot.model_call import ModelCall, describe
from llama_index.postprocessor.attribot.passed_nodes import PassedNodes
from llama_index.postprocessor.attribot.query import (
    EngineSpan,
    ObservedWithin,
    QueryObserver,
    TrackedQuery,
    streamed_query,
)
from llama_index_instrumentation import get_dispatcher
from pydantic import PrivateAttr

from attribot_rag.runtime import Steps

_ENGINES = (BaseQueryEngine, BaseChatEngine)
_RETRIEVING = (BaseRetriever, BaseNodePostprocessor, *_ENGINES)

logger = logging.getLogger(__name__)

_installing = threading.Lock()


class QueryTracker(BaseSpanHandler[BaseSpan]):
    """Sees every span of the process, and keeps those within engines until they end.

    LlamaIndex's events tell of prompts and answers, too, but neither of the model that was asked,
    nor of the nodes that a response is made of.
    """

    _steps: Steps = PrivateAttr(default_factory=Steps)
    _engines: dict[str, EngineSpan] = PrivateAttr(default_factory=dict)
    _observers: dict[str, QueryObserver] = PrivateAttr(default_factory=dict)
    _queries: dict[str, TrackedQuery] = PrivateAttr(default_factory=dict)
    _calls: dict[str, ModelCall] = PrivateAttr(default_factory=dict)
    _passed: PassedNodes = PrivateAttr(default_factory=PassedNodes)
    _told_of_two: bool = PrivateAttr(default=False)

    @classmethod
    def class_name(cls) -> str:
        return "AttributionSpanHandler"

    @property
    def steps(self) -> Steps:
        """The engines, syntheses and calls of models that have not ended."""
        return self._steps

    @property
    def num_open(self) -> int:
        """The number of entries of spans that have not ended."""
        return len(self._steps) + sum(map(len, self._entries))

    @property
    def num_observed(self) -> int:
        """The same without the links between spans, which all engines have."""
        return sum(map(len, self._entries)) - len(self._engines)

    @property
    def _entries(self) -> tuple[dict[str, Any], ...]:
        return self._engines, self._observers, self._queries, self._calls

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
        engine = self._engine_of(id_, parent, instance, bound_args)
        observer = self._observers.get(parent)
        if isinstance(instance, ObservedWithin):
            observer = instance.postprocessor
        elif isinstance(instance, QueryObserver):
            observer = self._observed_by(instance, parent, engine)
        query = self._queries.get(parent) or streamed_query.get()
        if query is None and engine is not None and isinstance(instance, LLM):
            query = engine.own_query(observer or engine.observer)
        if query is not None:
            self._queries[id_] = query
            self._call(id_, parent, instance, bound_args, query)
            return
        synthesizes = isinstance(instance, BaseSynthesizer) and "nodes" in bound_args.arguments
        if synthesizes and observer is None:
            observer = self._observer_of(bound_args, engine)
        if observer is None:
            return
        self._observers[id_] = observer
        if synthesizes:
            query = TrackedQuery(
                self._steps.begin(id_, None if engine is None else engine.step),
                observer,
                _question(bound_args),
                tuple(bound_args.arguments["nodes"]),
                asynchronous=_is_asynchronous(id_),
                earlier=() if engine is None else tuple(engine.answered),
            )
            callbacks = getattr(instance, "callback_manager", None)
            query.when_closed.append(listen(callbacks, id_, query.finish))
            self._queries[id_] = query

    def _engine_of(
        self, id_: str, parent: str, instance: Any, bound_args: inspect.BoundArguments
    ) -> EngineSpan | None:
        """The engine that the span is a part of: several methods of one engine are one query."""
        outer = engine = self._engines.get(parent)
        if isinstance(instance, _ENGINES) and (outer is None or outer.instance is not instance):
            step = self._steps.begin(id_, None if outer is None else outer.step)
            question, asynchronous = _question(bound_args), _is_asynchronous(id_)
            engine = EngineSpan(step, instance, outer, question, asynchronous)
        if engine is not None:
            self._engines[id_] = engine
        return engine

    def _observed_by(
        self, instance: QueryObserver, parent: str, engine: EngineSpan | None
    ) -> QueryObserver:
        """The first observer of a query stays; another one is told."""
        observer = self._observers.setdefault(parent, instance) if parent else instance
        if engine is not None:
            engine.observer = engine.observer or observer
        if observer is not instance and not self._told_of_two:
            self._told_of_two = True
            logger.warning(
                "two AttributionPostprocessors see one query: the first attributes it, or that of "
                "the AttributedQueryEngine around it, and the other has no results"
            )
        return observer

    def _observer_of(
        self, bound_args: inspect.BoundArguments, engine: EngineSpan | None
    ) -> QueryObserver | None:
        """The observer of the nodes, or the answers that they were made of."""
        if engine is not None and engine.answered:
            return engine.answered[-1].observer
        nodes = bound_args.arguments["nodes"]
        return self._passed.observer_of(nodes, same_objects=engine is not None)

    def _call(
        self,
        id_: str,
        parent: str,
        instance: Any,
        bound_args: inspect.BoundArguments,
        query: TrackedQuery,
    ) -> None:
        """A model is called: the outermost span is one call, the innermost has its whole prompt."""
        call = self._calls.get(parent)
        if isinstance(instance, LLM):
            if call is None and query.calls and query.calls[-1].begun:
                call = query.calls[-1]
                call.begun = False
            if call is None:
                call = ModelCall(self._steps.begin(id_, query.step), describe(instance))
                query.calls.append(call)
            call.ask(instance, bound_args, query.model_asked(call, instance))
        if call is not None:
            self._calls[id_] = call

    def prepare_to_exit_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        result: Any = None,
        **_: Any,
    ) -> None:
        engine, observer = self._engines.get(id_), self._observers.get(id_)
        call, query = self._calls.get(id_), self._queries.get(id_)
        self._forget(id_)
        self._close(id_, query, engine)
        retrieves = isinstance(instance, _RETRIEVING) and isinstance(result, list)
        if observer is not None and retrieves:
            self._passed.add(result, observer)
            if engine is not None:
                engine.nodes = tuple(result)
                engine.observer = engine.observer or observer
        if call is not None and isinstance(instance, LLM):
            call.end(instance, result)
        if query is not None and query.run_id == id_:
            if engine is not None:
                engine.synthesized = query
            query.finish(result)
        elif engine is not None and engine.instance is instance and hasattr(result, "source_nodes"):
            is_own = engine.step.id == id_
            is_answer = not is_own or (engine.outer is None and engine.own is None)
            if engine.synthesized is not None and is_answer:
                engine.synthesized.add(result)  # which has new metadata, perhaps
            elif is_own:
                engine.finish(result)
        self._steps.end(id_)

    def prepare_to_drop_span(self, id_: str, *_: Any, **__: Any) -> None:
        query, engine = self._queries.get(id_), self._engines.get(id_)
        self._forget(id_)
        self._close(id_, query, engine)
        self._steps.end(id_)
        if query is not None and query.run_id == id_:
            query.done()
        if engine is not None and engine.step.id == id_:
            engine.drop()

    def _close(self, id_: str, query: TrackedQuery | None, engine: EngineSpan | None) -> None:
        """A span ends, which takes no more answers."""
        for one in (query, None if engine is None else engine.own):
            if one is not None and one.run_id == id_:
                one.close()

    def _forget(self, id_: str) -> None:
        for entries in self._entries:
            entries.pop(id_, None)


def _is_asynchronous(id_: str) -> bool:
    """Whether a span is that of a coroutine, by LlamaIndex's names: 'Class.amethod-uuid'.

    It tells so nowhere else; a running event loop does not, in a notebook.
    """
    return id_.split("-", 1)[0].rsplit(".", 1)[-1].startswith("a")


def _question(bound_args: inspect.BoundArguments) -> str:
    """The question to an engine or a synthesizer."""
    arguments = bound_args.arguments
    names = ("query", "str_or_query_bundle", "query_bundle", "message")
    question = next((arguments[name] for name in names if name in arguments), "")
    return str(getattr(question, "query_str", question))


def installed() -> QueryTracker:
    """The one handler of this process, at the root of LlamaIndex's dispatchers."""
    root = get_dispatcher()
    with _installing:
        tracker = next(
            (handler for handler in root.span_handlers if isinstance(handler, QueryTracker)), None
        )
        if tracker is None:
            tracker = QueryTracker()
            root.add_span_handler(tracker)
        return tracker
