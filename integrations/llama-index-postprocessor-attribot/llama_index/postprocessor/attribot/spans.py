"""LlamaIndex's instrumentation: which query has which nodes, and which models it calls."""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import ReferenceType, ref

from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore
from llama_index.postprocessor.attribot.models import describe, find_language_model
from llama_index.postprocessor.attribot.synthesis import Call, Synthesis, Watcher
from llama_index_instrumentation import get_dispatcher
from pydantic import PrivateAttr

_SYNTHESES = ("synthesize", "asynthesize")
_POSTPROCESSING = ("_postprocess_nodes", "_apostprocess_nodes")
_MAX_PASSED = 1024
_COMPLETIONS = ("complete", "stream_complete", "acomplete", "astream_complete")

_streaming: ContextVar[Synthesis | None] = ContextVar("attribot_streaming", default=None)
_installing = threading.Lock()


@contextmanager
def streaming(synthesis: Synthesis) -> Iterator[None]:
    """Models that are called within the block answer this query, whose spans have ended already."""
    token = _streaming.set(synthesis)
    try:
        yield
    finally:
        _streaming.reset(token)


class Watched:
    """Has queries watched: a postprocessor those that run it, an engine those within it."""

    @property
    def attribot_watcher(self) -> Watcher:
        raise NotImplementedError


class WatchedWithin(Watched):
    """Has its own queries watched, with everything within them."""


class Spans(BaseSpanHandler[BaseSpan]):
    """Tells of every span of the process, most of which nobody watches."""

    _queries: Queries = PrivateAttr(default_factory=lambda: Queries())

    @classmethod
    def class_name(cls) -> str:
        return "AttributionSpans"

    @property
    def num_open(self) -> int:
        """How many entries are kept of spans that have not ended."""
        return self._queries.num_open

    def new_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        parent_span_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        self._queries.begin(id_, bound_args, instance, parent_span_id or "")

    def prepare_to_exit_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        result: Any = None,
        **_: Any,
    ) -> None:
        self._queries.end(id_, result)

    def prepare_to_drop_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        err: BaseException | None = None,
        **_: Any,
    ) -> None:
        self._queries.drop(id_)


class Queries:
    """The spans of queries that somebody watches, each of which is forgotten when it ends."""

    def __init__(self) -> None:
        self._watchers: dict[str, Watcher] = {}
        self._syntheses: dict[str, Synthesis] = {}
        self._finished: dict[str, Synthesis] = {}
        self._calls: dict[str, Call] = {}
        self._parents: dict[str, str] = {}
        self._passed: OrderedDict[int, tuple[ReferenceType[NodeWithScore], Watcher]] = OrderedDict()
        self._passing = threading.Lock()

    @property
    def num_open(self) -> int:
        return sum(len(one) for one in self._held)

    @property
    def _held(self) -> tuple[dict[str, Any], ...]:
        return self._watchers, self._syntheses, self._finished, self._calls, self._parents

    def begin(
        self, id_: str, bound_args: inspect.BoundArguments, instance: Any, parent: str
    ) -> None:
        synthesis = self._syntheses.get(parent) or _streaming.get()
        if synthesis is not None:
            self._syntheses[id_] = synthesis
            if isinstance(instance, LLM):
                self._call(id_, parent, instance, bound_args, synthesis)
            return
        watcher = self._watchers.get(parent)
        if isinstance(instance, WatchedWithin):
            watcher = instance.attribot_watcher
        elif isinstance(instance, Watched):
            watcher = instance.attribot_watcher
            if parent:
                watcher = self._watchers.setdefault(parent, watcher)
        method = _method(id_)
        synthesizes = method in _SYNTHESES and "nodes" in bound_args.arguments
        if synthesizes and watcher is None:
            watcher = self._watcher_of(bound_args.arguments["nodes"])
        if watcher is None:
            return
        self._watchers[id_] = watcher
        if synthesizes:
            self._syntheses[id_] = _synthesis(id_, method, watcher, bound_args)
            self._parents[id_] = parent

    def _watcher_of(self, nodes: Sequence[NodeWithScore]) -> Watcher | None:
        """Who has seen one of these nodes, where retrieval and synthesis are steps of their own."""
        for node in nodes if self._passed else ():
            reference, watcher = self._passed.get(id(node), (None, None))
            if reference is not None and reference() is node:
                return watcher
        return None

    def _call(
        self,
        id_: str,
        parent: str,
        llm: LLM,
        bound_args: inspect.BoundArguments,
        synthesis: Synthesis,
    ) -> None:
        """A model is called: the outermost span is one call, the innermost has its whole prompt."""
        call = self._calls.get(parent)
        if call is None and synthesis.calls and synthesis.calls[-1].begun:
            call = synthesis.calls[-1]
            call.begun = False
        if call is None:
            call = Call(describe(llm), None)
            synthesis.calls.append(call)
        self._calls[id_] = call
        if call.language_model is None:  # of a model around a local one, that one
            call.language_model = find_language_model(llm)
            if call.language_model is not None:
                try:
                    synthesis.watcher.model_called(synthesis, call.language_model)
                except Exception as error:  # which LlamaIndex would swallow
                    synthesis.error = error
        messages = _argument(bound_args, "messages")
        if messages is not None:
            call.messages = tuple(messages)
        if _method(id_) in _COMPLETIONS:
            call.prompt = str(_argument(bound_args, "prompt") or "")

    def end(self, id_: str, result: Any) -> None:
        if id_ not in self._syntheses and id_ not in self._watchers:
            return
        watcher = self._watchers.get(id_)
        if watcher is not None and _method(id_) in _POSTPROCESSING and isinstance(result, list):
            self._pass(result, watcher)
        call = self._calls.get(id_)
        if call is not None and _method(id_) in _COMPLETIONS and hasattr(result, "text"):
            call.answer = str(result.text)
        elif call is not None and not call.prompt:
            call.begun = isinstance(result, (Generator, AsyncGenerator))
        synthesis = self._syntheses.get(id_)
        parent = self._parents.get(id_)
        chatted = self._finished.get(id_)
        self.forget(id_)
        if synthesis is not None and synthesis.run_id == id_:
            if parent in self._watchers:
                self._finished[parent] = synthesis
            synthesis.watcher.answered(synthesis, result)
        elif chatted is not None and hasattr(result, "source_nodes"):
            chatted.add(result)

    def _pass(self, nodes: Sequence[NodeWithScore], watcher: Watcher) -> None:
        with self._passing:
            for node in nodes:
                self._passed[id(node)] = ref(node), watcher
            while len(self._passed) > _MAX_PASSED:
                self._passed.popitem(last=False)

    def drop(self, id_: str) -> None:
        """The span ended in an error."""
        synthesis = self._syntheses.get(id_)
        self.forget(id_)
        if synthesis is not None and synthesis.run_id == id_:
            synthesis.done()

    def forget(self, id_: str) -> None:
        for held in self._held:
            held.pop(id_, None)


def installed() -> Spans:
    """The one handler of this process, at the root of LlamaIndex's dispatchers."""
    root = get_dispatcher()
    with _installing:
        found = next((one for one in root.span_handlers if isinstance(one, Spans)), None)
        if found is None:
            found = Spans()
            root.add_span_handler(found)
        return found


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


def _synthesis(
    id_: str, method: str, watcher: Watcher, bound_args: inspect.BoundArguments
) -> Synthesis:
    query = bound_args.arguments.get("query", "")
    text = getattr(query, "query_str", query)
    nodes = tuple(bound_args.arguments["nodes"])
    return Synthesis(id_, watcher, str(text), nodes, asynchronous=method.startswith("a"))
