"""Attributions in traces, by the conventions of OpenInference and OpenTelemetry."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

from attribot_rag._version import __version__
from attribot_rag.runtime.attributed_run import AttributedRun
from attribot_rag.runtime.feedback import Feedback, feedback_of

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_EVENT = "gen_ai.evaluation.result"
_annotating = threading.Lock()


def trace_run(run: AttributedRun, span: Span) -> None:
    """Write an attribution into the span of the model's answer.

    As long as it is open, the span itself gets the annotation and the event. One that has ended
    gets a linked span of the kind EVALUATOR that carries them, from the global tracer provider. A
    pending run is not written. Needs opentelemetry-api.
    """
    if run.is_pending:
        return
    feedback = feedback_of(run)
    if span.is_recording():
        _annotate(span, feedback)
        return
    carrier = _carrier(run, span)
    _annotate(carrier, feedback)
    carrier.end()


def _carrier(run: AttributedRun, target: Span) -> Span:
    """A span for feedback on one that has ended, as long as the attribution took."""
    from opentelemetry import trace

    seconds = 0.0 if run.attribution is None else run.attribution.provenance.seconds
    return trace.get_tracer("attribot_rag", __version__).start_span(
        "attribution",
        context=trace.set_span_in_context(target),
        links=[trace.Link(target.get_span_context())],
        attributes={"openinference.span.kind": "EVALUATOR"},
        start_time=time.time_ns() - round(seconds * 1e9),
    )


def _annotate(span: Span, feedback: Feedback) -> None:
    values = {
        "name": feedback.name,
        "score": feedback.score,
        "label": feedback.label,
        "explanation": feedback.explanation,
        "annotator_kind": "CODE",
        "identifier": feedback.metadata["run_id"],
        "metadata": json.dumps(feedback.metadata),
    }
    with _annotating:  # a span of the application's own may hold several answers
        index = _num_annotations(span)
        for key, value in values.items():
            if value is not None:
                span.set_attribute(f"annotations.{index}.annotation.{key}", value)
    event = {
        "gen_ai.evaluation.name": feedback.name,
        "gen_ai.evaluation.score.label": feedback.label,
        "gen_ai.evaluation.explanation": feedback.explanation,
    }
    if feedback.label == "not_attributed":
        event["error.type"] = feedback.explanation
    score = {} if feedback.score is None else {"gen_ai.evaluation.score.value": feedback.score}
    span.add_event(_EVENT, {**event, **score})


def _num_annotations(span: Span) -> int:
    """The number of annotations on the span; 0 where it does not tell its attributes."""
    attributes = getattr(span, "attributes", None) or {}
    return len({key.split(".")[1] for key in attributes if key.startswith("annotations.")})
