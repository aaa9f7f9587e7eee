"""The spans that OpenInference's instrumentation of LangChain gives to runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_MODULE = "openinference.instrumentation.langchain"


def span_of(run_id: UUID) -> Span | None:
    """The open span of a run, None without any; OpenInference makes none of them current."""
    instrumentation = _instrumentation()
    return (
        None
        if instrumentation is None
        else instrumentation.LangChainInstrumentor().get_span(run_id)
    )


def enclosing_span() -> Span | None:
    """The open span of the run that calls this, None without any."""
    instrumentation = _instrumentation()
    return None if instrumentation is None else instrumentation.get_current_span()


def _instrumentation() -> Any:
    """The instrumentation's module while it is in use."""
    module: Any = sys.modules.get(_MODULE)
    if module is None or not module.LangChainInstrumentor().is_instrumented_by_opentelemetry:
        return None
    return module
