"""Scores of retrieved documents for the spans of their retrievers, as Phoenix shows them."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.trace import format_span_id

from attribot_rag.errors import InvalidInput
from attribot_rag.runtime.runs import AttributedRun
from attribot_rag.runtime.tracing import document_scores

_DOCUMENTS_OF = {"RETRIEVER": "retrieval.documents", "RERANKER": "reranker.output_documents"}


class _RetrievedDocument(NamedTuple):
    """A document in the span of a retriever."""

    span_id: str
    position: int
    text: str


class RetrievedDocuments(SpanProcessor):
    """Remembers which spans of a trace retrieved which documents.

        documents = RetrievedDocuments()
        tracer_provider.add_span_processor(documents)
        ...
        client.spans.log_document_annotations(document_annotations=documents.annotations(run))

    It reads the RETRIEVER and RERANKER spans of OpenInference, for the last `max_traces` traces. It
    recognizes documents by their text, so the spans must contain it.
    """

    def __init__(self, max_traces: int = 256) -> None:
        if max_traces < 1:
            raise InvalidInput(f"max_traces={max_traces!r}; use at least 1")
        self._max_traces = max_traces
        self._retrieved: OrderedDict[int, list[_RetrievedDocument]] = OrderedDict()
        self._lock = threading.Lock()

    def on_end(self, span: ReadableSpan) -> None:
        attributes = span.attributes or {}
        prefix = _DOCUMENTS_OF.get(str(attributes.get("openinference.span.kind")))
        context = span.get_span_context()
        if prefix is None or context is None:
            return
        span_id = format_span_id(context.span_id)
        retrieved = [
            _RetrievedDocument(span_id, int(match[1]), str(value))
            for key, value in attributes.items()
            if (match := re.fullmatch(rf"{prefix}\.(\d+)\.document\.content", key))
        ]
        with self._lock:
            self._retrieved.setdefault(context.trace_id, []).extend(retrieved)
            while len(self._retrieved) > self._max_traces:
                self._retrieved.popitem(last=False)

    def annotations(self, run: AttributedRun) -> list[dict[str, Any]]:
        """Entries for `log_document_annotations` of Phoenix's client.

        There is one entry for each scored document in each retriever span of the run's trace. It
        has the document's score, in the attribution's unit, and says whether a sentence cites it.
        The list is empty if the run has no span or no attribution.
        """
        if run.span is None or run.is_pending or run.attribution is None:
            return []
        with self._lock:
            retrieved = tuple(self._retrieved.get(run.span.get_span_context().trace_id, ()))
        texts = [document.text for document in run.attribution.documents]
        return [
            {
                "name": "attribution",
                "annotator_kind": "CODE",
                "span_id": document.span_id,
                "document_position": document.position,
                "identifier": run.run_id,
                "result": {
                    "score": scored["score"],
                    "label": "not_cited" if scored["number"] is None else "cited",
                },
            }
            for scored in document_scores(run.attribution)
            for document in retrieved
            if scored["score"] is not None and document.text == texts[scored["index"]]
        ]
