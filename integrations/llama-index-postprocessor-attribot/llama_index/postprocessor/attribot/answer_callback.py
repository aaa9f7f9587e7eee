"""A callback that attributes an answer while its span is still open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index_instrumentation.span import active_span_id

_replacing = threading.Lock()


class AnswerCallback(BaseCallbackHandler):
    """Tells of the response that a span is going to give.

    LlamaIndex swallows everything that is raised while a span ends, KeyboardInterrupt too; an
    inline attribution there could not be stopped with Ctrl-C. From a callback it can.
    """

    def __init__(self, span_id: str, told: Callable[[Any], None]) -> None:
        observed = (CBEventType.SYNTHESIZE, CBEventType.QUERY)
        ignored: list[CBEventType] = [
            event_type for event_type in CBEventType if event_type not in observed
        ]
        super().__init__(event_starts_to_ignore=list(CBEventType), event_ends_to_ignore=ignored)
        self._span_id = span_id
        self._told = told

    def on_event_start(self, *_: Any, event_id: str = "", **__: Any) -> str:
        return event_id

    def on_event_end(
        self,
        event_type: CBEventType,
        payload: dict[str, Any] | None = None,
        event_id: str = "",
        **_: Any,
    ) -> None:
        response = (payload or {}).get(EventPayload.RESPONSE)
        if response is not None and active_span_id.get() == self._span_id:
            self._told(response)

    def start_trace(self, trace_id: str | None = None) -> None:
        """Traces are nothing to it."""

    def end_trace(self, *_: Any, **__: Any) -> None:
        """Traces are nothing to it."""


def listen(
    callbacks: CallbackManager | None, span_id: str, told: Callable[[Any], None]
) -> Callable[[], None]:
    """Add a callback to those of an engine or a synthesizer; the function takes it away again.

    Their list is replaced, as other threads may be reading it, by one query after the other.
    """
    if callbacks is None:
        return lambda: None
    callback = AnswerCallback(span_id, told)
    with _replacing:
        callbacks.handlers = [*callbacks.handlers, callback]

    def stop() -> None:
        with _replacing:
            callbacks.handlers = [one for one in callbacks.handlers if one is not callback]

    return stop
