"""Follows LlamaIndex's spans: queries, their nodes, and their calls of models."""

from __future__ import annotations

import inspect
import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, ref

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import NodeWithScore
from llama_index.core.workflow import Workflow
from llama_index.postprocessor.attribot import query as queries
from llama_index.postprocessor.attribot.nodes import key_of, merged
from llama_index.postprocessor.attribot.query import QueryObserver, TrackedQuery, text_of
from llama_index_instrumentation import get_dispatcher
from pydantic import PrivateAttr

from attribot_rag.runtime import Advice, Step, Steps

_ENGINES = (BaseQueryEngine, BaseChatEngine, Workflow)
_MAX_NODES = 4096
_MAX_BEFORE = 256  # of earlier runs of a workflow
_RETRIEVING = (BaseRetriever, BaseNodePostprocessor, *_ENGINES)

NOTHING_SEEN = (
    "no documents were seen. Name them where you search: with "
    "postprocessor.retrieved(documents) as response: ... Or pass the nodes that a tool retrieves "
    "through postprocessor.postprocess_nodes(nodes)"
)

logger = logging.getLogger(__name__)

_installing = threading.Lock()


@dataclass(eq=False)
class OpenSpan:
    """What a span belongs to: an engine's query, an observed query, a call of a model.

    `asked` is the call that was made within the span.
    """

    engine: EngineSpan | None = None
    observer: queries.QueryObserver | None = None
    query: queries.TrackedQuery | None = None
    call: queries.ModelCall | None = None
    asked: queries.ModelCall | None = None


class PassedNodes:
    """Knows the observers of the last nodes that went through a postprocessor.

    A workflow may make new nodes from them, with the same ids and texts.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[object, tuple[ref[NodeWithScore], ref[queries.QueryObserver]]]
        self._kept, self._lock = OrderedDict(), threading.Lock()

    def add(self, nodes: Sequence[NodeWithScore], observer: queries.QueryObserver) -> None:
        with self._lock:
            for node in nodes:  # the tracker lives longer than the nodes and their observers
                seen = ref(node, partial(self._forget, id(node)))
                self._kept.update({key: (seen, ref(observer)) for key in (id(node), key_of(node))})
            while len(self._kept) > _MAX_NODES:
                self._kept.popitem(last=False)

    def _forget(self, key: int, _: object) -> None:
        self._kept.pop(key, None)  # without the lock, which this thread may hold

    def observer_of(self, nodes: Sequence[NodeWithScore], same_objects: bool) -> Any:
        """The observer of one of these nodes. If not `same_objects`, ids and texts are compared."""
        for node in nodes:
            for key in (id(node),) if same_objects else (id(node), key_of(node)):
                passed, observer = self._kept.get(key, (None, None))
                if observer and passed and (key != id(node) or passed() is node) and observer():
                    return observer()
        return None


class QueryTracker(BaseSpanHandler[BaseSpan]):
    """Sees every span of the process, and keeps those within engines until they end.

    LlamaIndex's events also report prompts and answers, but not which model was asked, or which
    nodes a response is made from.
    """

    _steps: Steps = PrivateAttr(default_factory=Steps)
    _spans: dict[str, OpenSpan] = PrivateAttr(default_factory=dict)
    _passed: PassedNodes = PrivateAttr(default_factory=PassedNodes)
    _before: WeakKeyDictionary[Any, Any] = PrivateAttr(default_factory=WeakKeyDictionary)
    _told_of_two: bool = PrivateAttr(default=False)
    _advice: Advice = PrivateAttr(default_factory=partial(Advice, logger))

    @property
    def steps(self) -> Steps:
        """The engines, syntheses and calls of models that have not ended."""
        return self._steps

    def new_span(  # type: ignore[override]
        self, id_: str, bound_args: Any, instance: Any = None, parent_span_id: Any = None, **_: Any
    ) -> None:
        parent = self._spans.get(parent_span_id or "") or OpenSpan()
        engine = self._engine_of(id_, parent.engine, instance, bound_args)
        observer = parent.observer
        if isinstance(instance, ObservedEngine):
            observer = instance.postprocessor
        elif isinstance(instance, queries.QueryObserver):
            observer = self._observed_by(instance, parent_span_id, engine)
        query = parent.query or queries.streamed_query.get()
        call: queries.ModelCall | None = None
        asked = [queries.argument(bound_args, name) for name in ("messages", "prompt")]
        asks = isinstance(instance, LLM) and asked != [None, None]
        if query is None and engine is not None and asks:
            query = engine.own_query(observer or engine.observer)
        if query is not None:
            observer, call = None, parent.call
            if asks:  # the outermost span is one call
                call = call or query.next_call(self._steps, id_, instance)
                query.model_asked(call, instance, bound_args)
                parent.asked = call
        elif isinstance(instance, BaseSynthesizer) and "nodes" in bound_args.arguments:
            nodes = tuple(bound_args.arguments["nodes"])
            observer = observer or self._observer_of(nodes, engine)
            if observer is not None:
                step = self._steps.begin(id_, engine and engine.step)
                text, is_async = queries.question_in(bound_args), queries.is_asynchronous(id_)
                query = queries.TrackedQuery(step, observer, text, nodes, is_async)
                query.earlier = () if engine is None else tuple(engine.answered)
        if any((engine, observer, query)):
            self._spans[id_] = OpenSpan(engine, observer, query, call)

    def _engine_of(
        self, id_: str, outer: EngineSpan | None, instance: Any, bound_args: inspect.BoundArguments
    ) -> EngineSpan | None:
        """The engine that the span belongs to. Several methods of one engine are one query."""
        if not isinstance(instance, _ENGINES) or (outer and outer.instance is instance):
            return outer
        step = self._steps.begin(id_, outer and outer.step)
        text = queries.question_in(bound_args)
        engine = EngineSpan(step, instance, outer, text, queries.is_asynchronous(id_))
        engine.asynchronous |= engine.gathers
        if engine.gathers and instance in self._before:
            engine.nodes, observed = self._before[instance]
            engine.observer, engine.num_before = observed(), len(engine.nodes)
        return engine

    def _observed_by(
        self, instance: queries.QueryObserver, parent_id: str | None, engine: EngineSpan | None
    ) -> queries.QueryObserver:
        """The first observer of a query. A second one gets a log line."""
        observer = instance
        if parent_id:
            parent = self._spans.setdefault(parent_id, OpenSpan())
            observer = parent.observer = parent.observer or instance
        if engine is not None:
            engine.observer = engine.observer or observer
        if observer is not instance and not self._told_of_two:
            self._told_of_two = True
            logger.warning(
                "two AttributionPostprocessors see one query: the outer or first one attributes it"
            )
        return observer

    def _observer_of(self, nodes: Sequence[NodeWithScore], engine: EngineSpan | None) -> Any:
        """The observer of the nodes, or of the answers that they were made from."""
        if engine is not None and engine.answered:
            return engine.answered[-1].observer
        return self._passed.observer_of(nodes, engine is not None and not engine.gathers)

    def prepare_to_exit_span(
        self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **_: Any
    ) -> None:
        span = self._spans.pop(id_, None) or OpenSpan()
        engine, observer, query = span.engine, span.observer, span.query
        retrieves = isinstance(instance, _RETRIEVING) and isinstance(result, list)
        if observer is not None and retrieves:
            self._passed.add(result, observer)
            if engine is not None:
                engine.observer = engine.observer or observer
        if retrieves and query is not None and query.gathers:
            query.nodes = merged(query.nodes, result, query.told)
        elif retrieves and engine is not None and (engine.gathers or observer is not None):
            engine.nodes = merged(engine.nodes, result) if engine.gathers else tuple(result)
        if span.call is not None and isinstance(instance, LLM):
            span.call.end(instance, result)
        if span.asked is not None and hasattr(result, "current_agent_name"):
            self._stepped(span, result)
        response = getattr(result, "result", result)  # of the event that ends a workflow
        is_engine = engine is not None and engine.instance is instance
        is_answered = hasattr(result, "source_nodes") or isinstance(instance, Workflow)
        if query is not None and query.run_id == id_:
            if engine is not None and engine.gathers:
                engine.answered.append(query)
            elif engine is not None:
                engine.synthesized = query
            query.finish(result)
        elif is_engine and is_answered and query is not None:
            query.within.append(response)
        elif engine is not None and is_engine and is_answered:
            is_own = engine.step.id == id_
            is_answer = not is_own or (engine.outer is None and engine.own is None)
            if engine.synthesized is not None and is_answer:
                engine.synthesized.add(result)  # which has new metadata, perhaps
            elif is_own:
                engine.finish(response)
                self._advise(engine, response)
                if engine.gathers and engine.observer is not None:
                    self._before[instance] = engine.nodes[-_MAX_BEFORE:], ref(engine.observer)
        self._steps.end(id_)

    def _advise(self, engine: EngineSpan, response: Any) -> None:
        """Log that an agent answered from its tools, but no documents were seen."""
        called = [getattr(call, "tool_name", "") for call in getattr(response, "tool_calls", ())]
        is_seen = engine.observer is not None or engine.own is not None or engine.answered
        if engine.outer is None and called and not is_seen and queries.text_of(response):
            name = str(getattr(engine.instance, "name", None) or "agent")
            self._advice.tell((name, *sorted(set(called))), f"the agent {name!r}", NOTHING_SEEN)

    def _stepped(self, span: OpenSpan, output: Any) -> None:
        """An agent has made a step: its model chose tools, or answered."""
        query = span.query or (span.engine and span.engine.own)
        if not query or span.asked not in query.calls:
            return
        if output.tool_calls or getattr(output, "retry_messages", None):
            query.calls.remove(span.asked)
        else:
            span.asked.begun, span.asked.answer = False, output.response.content or ""

    def prepare_to_drop_span(self, id_: str, *_: Any, **__: Any) -> None:
        span = self._spans.pop(id_, None) or OpenSpan()
        self._steps.end(id_)
        if span.query is not None and span.query.run_id == id_:
            span.query.done()
        if span.engine is not None and span.engine.step.id == id_:
            span.engine.drop()


def installed() -> QueryTracker:
    """The one span handler of this process, at the root of LlamaIndex's dispatchers."""
    root = get_dispatcher()
    with _installing:
        tracker = next(
            (handler for handler in root.span_handlers if isinstance(handler, QueryTracker)), None
        )
        if tracker is None:
            tracker = QueryTracker()
            root.add_span_handler(tracker)
        return tracker


class ObservedEngine:
    """An engine whose own queries are observed, with everything in them."""

    postprocessor: QueryObserver


@dataclass(eq=False)
class EngineSpan:
    """A query of an engine, or a run of a workflow, perhaps within another one that asked it.

    `nodes` are those that were retrieved in its own steps. The first `num_before` come from earlier
    runs of a workflow; an agent remembers some of them. `answered` are the queries that other
    engines answered for it, in order. `synthesized` is the query that its synthesizer answered, and
    `own` the one for which it called a model without a synthesizer.
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
    num_before: int = 0

    @property
    def gathers(self) -> bool:
        """Whether it is a workflow, whose steps and tools may search several times."""
        return isinstance(self.instance, Workflow)

    def own_query(self, observer: QueryObserver | None) -> TrackedQuery | None:
        """The query for which it calls a model itself, if it has nodes or other answers."""
        if self.answered:
            observer = observer or self.answered[-1].observer
        if observer is None or not (self.nodes or self.answered):
            return None
        if self.own is None:
            self.own = TrackedQuery(self.step, observer, self.text, (), self.asynchronous)
        self.own.nodes, self.own.earlier = self.nodes, tuple(self.answered)
        self.own.gathers, self.own.num_before = self.gathers, self.num_before
        return self.own

    def finish(self, response: Any) -> None:
        """Attach the current result to the engine's answer, and report to the engine that asked."""
        for call in self.own.calls[-1:] if self.own is not None and self.gathers else ():
            call.answer = text_of(response) if call.answer is None else call.answer
        query = self._query_of(response)
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

    def drop(self) -> None:
        """Forget what was recorded for it."""
        if self.own is not None:
            self.own.done()

    def _query_of(self, response: Any) -> TrackedQuery | None:
        """The query that a response answers: the synthesizer's, another engine's, or its own."""
        if self.synthesized is not None:
            return self.synthesized
        # a chat engine's response has an engine's response among its sources
        sources = getattr(response, "sources", None) or ()
        outputs = [response, *(getattr(source, "raw_output", None) for source in sources)]
        text, latest = text_of(response), self.answered[::-1]
        for query in latest:
            if any(output is own for output in outputs for own in query.responses):
                return query
        said = [] if self.own is None else [(call.answer or "").strip() for call in self.own.calls]
        if self.own is not None and (self.own.answered or any(s.endswith(text) for s in said)):
            return self.own
        same = (query for query in latest if text and query.answer.strip() == text)
        return next(same, self.own)
