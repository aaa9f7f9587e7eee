"""Attributions in the traces of OpenTelemetry's own SDK."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from openinference.semconv.trace import (
    AnnotationAttributes,
    OpenInferenceAnnotatorKindValues,
    SpanAttributes,
)
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from support.scripted_generation import ANSWER, DOCUMENTS, QUESTION, rendered, say
from support.tiny_models import unshared
from support.traces import Traces
from support.traces import provided as provided

from attribot_rag.runtime import (
    Answer,
    AttributedRun,
    AttributionService,
    feedback_of,
)

MODEL = unshared()
OBSERVED = Answer(ANSWER, DOCUMENTS, [QUESTION])


@pytest.fixture
def traces(provided: Traces) -> Traces:
    provided.clear()
    return provided


@pytest.fixture
def service() -> Iterator[AttributionService]:
    service = AttributionService(MODEL, method="leave_one_out")
    yield service
    service.close()


def attributed(service: AttributionService, answer: Answer = OBSERVED) -> AttributedRun:
    """The run of what the model says now."""
    say(MODEL, [rendered(MODEL)], [ANSWER])
    return service.attribute("run", "root", answer)


def annotation(span: ReadableSpan, index: int = 0) -> dict[str, Any]:
    prefix = f"{SpanAttributes.ANNOTATIONS}.{index}."
    attributes = span.attributes or {}
    return {
        key.removeprefix(prefix): value
        for key, value in attributes.items()
        if key.startswith(prefix)
    }


def check(span: ReadableSpan, run: AttributedRun, index: int = 0) -> None:
    """The run is in the span, once in either convention."""
    feedback = feedback_of(run)
    fields = annotation(span, index)
    assert json.loads(fields.pop(AnnotationAttributes.ANNOTATION_METADATA)) == feedback.metadata
    assert fields == {
        AnnotationAttributes.ANNOTATION_NAME: "attribution",
        AnnotationAttributes.ANNOTATION_SCORE: feedback.score,
        AnnotationAttributes.ANNOTATION_LABEL: feedback.label,
        AnnotationAttributes.ANNOTATION_EXPLANATION: feedback.explanation,
        AnnotationAttributes.ANNOTATION_ANNOTATOR_KIND: OpenInferenceAnnotatorKindValues.CODE.value,
        AnnotationAttributes.ANNOTATION_IDENTIFIER: run.run_id,
    }
    event = span.events[index]
    assert event.name == "gen_ai.evaluation.result"
    assert event.attributes == {
        gen_ai_attributes.GEN_AI_EVALUATION_NAME: "attribution",
        gen_ai_attributes.GEN_AI_EVALUATION_SCORE_VALUE: feedback.score,
        gen_ai_attributes.GEN_AI_EVALUATION_SCORE_LABEL: feedback.label,
        gen_ai_attributes.GEN_AI_EVALUATION_EXPLANATION: feedback.explanation,
    }


def test_an_open_span_gets_the_annotation_and_the_event(
    service: AttributionService, traces: Traces
) -> None:
    with trace.get_tracer("test").start_as_current_span("request"):
        for number in range(2):
            say(MODEL, [rendered(MODEL)], [ANSWER])
            service.attribute(f"run {number}", "root", OBSERVED)
    (span,) = traces.spans()
    for number in range(2):
        check(span, service.store[f"run {number}"], number)
    assert service.store["run 0"].attribution is not None


def test_a_span_that_has_ended_gets_a_linked_evaluator(
    service: AttributionService, traces: Traces
) -> None:
    tracer = trace.get_tracer("test")
    with tracer.start_as_current_span("query"):
        with tracer.start_as_current_span("model"):
            say(MODEL, [rendered(MODEL)], [ANSWER])
        run = service.attribute("run", "root", OBSERVED)
    model, carrier, _ = traces.spans()
    assert traces.of_kind("EVALUATOR") == [carrier]
    (link,) = carrier.links
    assert link.context == model.context
    assert carrier.context is not None and carrier.context.trace_id == link.context.trace_id
    check(carrier, run)
    assert not annotation(model)
    assert carrier.start_time is not None and carrier.end_time is not None
    assert run.attribution is not None
    lasted = (carrier.end_time - carrier.start_time) / 1e9
    assert lasted >= run.attribution.provenance.seconds


def test_the_framework_s_own_span_comes_first(service: AttributionService, traces: Traces) -> None:
    tracer = trace.get_tracer("test")
    span = tracer.start_span("given")
    with tracer.start_as_current_span("other"):
        run = attributed(service, replace(OBSERVED, span=span))
    span.end()
    other, given = traces.spans()
    check(given, run)
    assert not annotation(other)


def test_a_failure_is_traced_by_its_kind_of_error(
    service: AttributionService, traces: Traces
) -> None:
    with trace.get_tracer("test").start_as_current_span("model"):
        service.attribute("run", "root", OBSERVED)  # which no model gave
    (span,) = traces.spans()
    assert annotation(span)["annotation.label"] == "not_attributed"
    (event,) = span.events
    assert (event.attributes or {})["error.type"] == "NotRecorded"
    assert ANSWER not in span.to_json()
