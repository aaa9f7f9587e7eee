"""The current span of OpenTelemetry, if it is installed."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_trace: ModuleType | None = None
with suppress(ImportError):  # an extra
    from opentelemetry import trace as _trace


def current_span() -> Span | None:
    """The current span of this thread or task, None without one."""
    if _trace is None:
        return None
    span: Span = _trace.get_current_span()
    # OpenInference's stand-in for a LlamaIndex span becomes another one when that ends.
    span = getattr(span, "__wrapped__", span)
    return span if span.get_span_context().is_valid else None
