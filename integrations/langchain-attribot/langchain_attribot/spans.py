"""The OpenTelemetry spans that OpenInference gives to LangChain's runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_INSTRUMENTATION = "openinference.instrumentation.langchain"


def span_of(run_id: UUID | None = None) -> Span | None:
    """The open span that OpenInference gives to a run, by default to the one that calls this.

    None without any; OpenInference makes none of them current.
    """
    module: Any = sys.modules.get(_INSTRUMENTATION)
    instrumentor = None if module is None else module.LangChainInstrumentor()
    if instrumentor is None or not instrumentor.is_instrumented_by_opentelemetry:
        return None
    span: Span | None = module.get_current_span()
    if run_id is not None:
        span = instrumentor.get_span(run_id)
    return span
