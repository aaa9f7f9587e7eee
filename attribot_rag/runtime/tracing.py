"""Attributions in traces, and as feedback for tools that collect it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from attribot_rag._version import __version__
from attribot_rag.attribution import Attribution, Verdict
from attribot_rag.result.citations import cite
from attribot_rag.result.remarks import is_disputed, who_read
from attribot_rag.runtime.runs import AttributedRun

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_EVENT = "gen_ai.evaluation.result"
_annotating = threading.Lock()


def trace_run(run: AttributedRun, span: Span) -> None:
    """Write an attribution into the span of the model's answer.

    A span that is still open gets an annotation and an event with the run's Feedback. If the span
    has ended, a linked span of the kind EVALUATOR gets them, from the global tracer provider. A
    pending run is not written. This function needs the package opentelemetry-api.
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
    """A new span for feedback on a span that has ended. It lasts as long as the attribution."""
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
    """How many annotations the span has; 0 if its attributes cannot be read."""
    attributes = getattr(span, "attributes", None) or {}
    return len({key.split(".")[1] for key in attributes if key.startswith("annotations.")})


Label = Literal["supported", "partly_supported", "not_supported", "not_judged", "not_attributed"]

NAME = "attribution"
_CAUSED = ("grounded", "redundant")
_NOT_COUNTED = ("reasoning", "trivial", "follows")
_DECIMALS = 4


class DocumentScore(TypedDict):
    """A retrieved document in the feedback on an answer, without its text."""

    index: int
    """The index of the document among those that the answer was attributed to."""
    id: str | None
    number: int | None
    """Its number in citations, None if nothing cites it."""
    score: float | None
    """The sum of its sources' scores, in the attribution's unit; None if none was scored."""


@dataclass(frozen=True)
class Feedback:
    """The judgement of an attribution on the whole answer.

    `score` is the share of the judged sentences that retrieved text supports, from 0 to 1, or None
    if no sentence was judged. A sentence also counts as supported if another text contradicts it. A
    sentence that follows from another one is not counted, unless retrieved text contradicts it.
    `label` is a word for the score.

    `explanation` and `metadata` have numbers and the documents' ids, but no texts. In `metadata`,
    `documents` has a `DocumentScore` for each document, and these numbers count sentences:

    - `sentences`: all judged ones;
    - `caused`: retrieved text led to them, or supports them if the `basis` is a reader;
    - `supported`: retrieved text supports them;
    - `contradicted`: retrieved text contradicts them;
    - `sentences_to_check`: they contain values that are missing from their sources.
    """

    name: str
    score: float | None
    label: Label
    explanation: str
    metadata: Mapping[str, Any]


def feedback_of(run: AttributedRun) -> Feedback:
    """The feedback of a finished run. Without an attribution, it names the kind of error."""
    attribution = run.attribution
    provenance = None if attribution is None else attribution.provenance
    documents = [] if attribution is None else document_scores(attribution)
    verdicts = () if attribution is None else attribution.verdicts
    judged = list(filter(_counts, verdicts))
    num_caused = sum(verdict.kind in _CAUSED for verdict in judged)
    num_supported = sum(map(_is_supported, judged))
    metadata = {
        "run_id": run.run_id,
        "root_id": run.root_id,
        "status": run.summary["status"],
        "method": provenance and provenance.method,
        "model": provenance and provenance.model_name,
        "basis": provenance and provenance.basis,
        "answered_by": provenance and provenance.answered_by,
        "unit": attribution and attribution.unit,
        "documents": documents,
        "sentences": len(judged),
        "caused": num_caused,
        "supported": num_supported,
        "contradicted": sum(map(_is_contradicted, judged)),
        "sentences_to_check": sum(bool(verdict.checks) for verdict in verdicts),
    }
    if attribution is None:
        why = "pending" if run.error is None else type(run.error).__name__
        return Feedback(NAME, None, "not_attributed", why, metadata)
    return Feedback(
        NAME,
        num_supported / len(judged) if judged else None,
        _label(num_supported, len(judged)),
        _explanation(num_caused, num_supported, len(judged), documents, attribution),
        metadata,
    )


def document_scores(attribution: Attribution) -> list[DocumentScore]:
    """For each document the sum of its sources' scores."""
    numbers = cite(attribution).numbers
    scores = {ranked.index: ranked.score for ranked in attribution.documents_by_effect()}
    return [
        {
            "index": index,
            "id": document.id,
            "number": numbers.get(index),
            "score": round(scores[index], _DECIMALS) if index in scores else None,
        }
        for index, document in enumerate(attribution.documents)
    ]


def _counts(verdict: Verdict) -> bool:
    return verdict.kind not in _NOT_COUNTED or _is_contradicted(verdict)


def _is_contradicted(verdict: Verdict) -> bool:
    return verdict.support is not None and verdict.support.kind == "contradicted"


def _is_supported(verdict: Verdict) -> bool:
    """Whether retrieved text says a sentence, though other text may contradict it.

    Its cause and checks decide without support.
    """
    if verdict.support is not None:
        return verdict.support.is_said or (_is_contradicted(verdict) and is_disputed(verdict))
    return verdict.kind in _CAUSED and not any(
        check.in_no_document or check.source_value is not None for check in verdict.checks
    )


def _label(num_supported: int, num_judged: int) -> Label:
    if not num_judged:
        return "not_judged"
    if num_supported == num_judged:
        return "supported"
    return "partly_supported" if num_supported else "not_supported"


def _explanation(
    num_caused: int,
    num_supported: int,
    num_judged: int,
    documents: Sequence[DocumentScore],
    attribution: Attribution,
) -> str:
    unit, read = attribution.unit, who_read(attribution.provenance)
    does = "is cited for" if read else "led to"
    num_contradicted = sum(map(_is_contradicted, attribution.verdicts))
    otherwise = f" It contradicts {num_contradicted}." if num_contradicted else ""
    share = (
        f"Retrieved text {does} {num_caused} of {num_judged} sentences. It says {num_supported}."
        f"{otherwise}"
    )
    parts = [read, share] if read else [share]
    cited = [document for document in documents if document["number"]]
    for document in sorted(cited, key=lambda document: document["number"] or 0):
        name = f" ({document['id']})" if document["id"] else ""
        score = "." if document["score"] is None else f": {document['score']:.1f} {unit}."
        parts.append(f"[{document['number']}] is document {document['index']}{name}{score}")
    return " ".join(parts)
