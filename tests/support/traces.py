"""Spans as OpenInference's instrumentations make them, with the attributions in them."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from attribot_rag.runtime import AttributedRun


class Traces:
    """The spans of a `provider`."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def clear(self) -> None:
        self._exporter.clear()

    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def of_kind(self, kind: str) -> list[ReadableSpan]:
        return [
            span
            for span in self.spans()
            if (span.attributes or {}).get("openinference.span.kind") == kind
        ]

    def check_carrier(self, run: AttributedRun) -> None:
        """A linked span holds the run, and no span of a model does."""
        (carrier,) = self.of_kind("EVALUATOR")
        (link,) = carrier.links
        models = self.of_kind("LLM")
        assert link.context in [model.context for model in models]
        assert annotation_of(carrier)["run_id"] == run.run_id
        assert [event.name for event in carrier.events] == ["gen_ai.evaluation.result"]
        assert not any(map(annotation_of, models))


@pytest.fixture(scope="session")
def provided() -> Traces:
    """Those of the global provider, which can be set once."""
    traces = Traces()
    trace.set_tracer_provider(traces.provider)
    return traces


def annotation_of(span: ReadableSpan) -> dict[str, Any]:
    """The annotation of the span, {} if it has none."""
    metadata = (span.attributes or {}).get("annotations.0.annotation.metadata", "{}")
    return dict(json.loads(str(metadata)))
