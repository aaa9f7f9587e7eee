"""How LlamaIndex tells of its queries: spans of the process, and callbacks of synthesizers."""

from __future__ import annotations

import inspect
import threading
from typing import Any

from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.postprocessor.attribot.query_tracker import QueryTracker
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.span import active_span_id
from pydantic import PrivateAttr

_installing = threading.Lock()


class SpanHandler(BaseSpanHandler[BaseSpan]):
    """Passes every span of the process on, most of which belong to no observed query."""

    _tracker: QueryTracker = PrivateAttr(default_factory=QueryTracker)

    @classmethod
    def class_name(cls) -> str:
        return "AttributionSpanHandler"

    @property
    def tracker(self) -> QueryTracker:
        return self._tracker

    @property
    def num_open(self) -> int:
        """How many entries are kept of spans that have not ended."""
        return self._tracker.num_open

    def new_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        parent_span_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        self._tracker.begin(id_, bound_args, instance, parent_span_id or "")
        if self._tracker.synthesized_by(id_) is not None:
            _listen_to(getattr(instance, "callback_manager", None))

    def prepare_to_exit_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        result: Any = None,
        **_: Any,
    ) -> None:
        self._tracker.end(id_, result)

    def prepare_to_drop_span(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any = None,
        err: BaseException | None = None,
        **_: Any,
    ) -> None:
        self._tracker.drop(id_)


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
        query = installed().tracker.synthesized_by(active_span_id.get() or "")
        if query is not None and payload is not None and EventPayload.RESPONSE in payload:
            query.finish(payload[EventPayload.RESPONSE])

    def start_trace(self, trace_id: str | None = None) -> None:
        """Traces are nothing to it."""

    def end_trace(self, *_: Any, **__: Any) -> None:
        """Traces are nothing to it."""


def installed() -> SpanHandler:
    """The one handler of this process, at the root of LlamaIndex's dispatchers."""
    root = get_dispatcher()
    with _installing:
        found = next((one for one in root.span_handlers if isinstance(one, SpanHandler)), None)
        if found is None:
            found = SpanHandler()
            root.add_span_handler(found)
        return found


def _listen_to(callbacks: CallbackManager | None) -> None:
    """Add the callback to a synthesizer's others, for good: it ignores all other queries."""
    with _installing:
        if callbacks is not None and not any(
            isinstance(one, SynthesisCallback) for one in callbacks.handlers
        ):
            callbacks.add_handler(SynthesisCallback())
