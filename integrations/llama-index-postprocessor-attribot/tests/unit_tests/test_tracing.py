"""Attributions in the traces that OpenInference's instrumentation makes of real query engines."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import EXACT, QUESTION, index_of
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributionPostprocessor
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from attribot_rag.runtime.retrieved_documents import RetrievedDocuments

# raised as an error, it would keep the instrumentation from making the models' spans
pytestmark = pytest.mark.filterwarnings("ignore:The `json` method is deprecated")


@pytest.fixture(scope="module")
def documents() -> RetrievedDocuments:
    return RetrievedDocuments()


@pytest.fixture(scope="module")
def spans(documents: RetrievedDocuments) -> Iterator[InMemorySpanExporter]:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.add_span_processor(documents)
    trace.set_tracer_provider(provider)
    LlamaIndexInstrumentor().instrument()
    if not LlamaIndexInstrumentor().is_instrumented_by_opentelemetry:
        pytest.skip("OpenInference does not instrument so old a LlamaIndex")
    yield exporter
    LlamaIndexInstrumentor().uninstrument()


def of_kind(spans: InMemorySpanExporter, kind: str) -> list[ReadableSpan]:
    return [
        span
        for span in spans.get_finished_spans()
        if (span.attributes or {}).get("openinference.span.kind") == kind
    ]


@pytest.mark.parametrize("mode", ["inline", "background"])
def test_an_evaluator_span_is_linked_to_the_model_s(
    tiny_llm: HuggingFaceLLM, spans: InMemorySpanExporter, documents: RetrievedDocuments, mode: Any
) -> None:
    spans.clear()
    postprocessor = AttributionPostprocessor(mode=mode, **EXACT)
    engine = index_of().as_query_engine(llm=tiny_llm, node_postprocessors=[postprocessor])
    run = postprocessor.result(engine.query(QUESTION), 60)
    (carrier,) = of_kind(spans, "EVALUATOR")
    (link,) = carrier.links
    assert link.context in [span.context for span in of_kind(spans, "LLM")]
    metadata = json.loads(str((carrier.attributes or {})["annotations.0.annotation.metadata"]))
    assert metadata["run_id"] == run.run_id
    assert [document["score"] is not None for document in metadata["documents"]] == [True, True]
    assert [event.name for event in carrier.events] == ["gen_ai.evaluation.result"]
    assert run.attribution is not None
    assert carrier.start_time is not None and carrier.end_time is not None
    lasted = (carrier.end_time - carrier.start_time) / 1e9
    assert lasted >= run.attribution.provenance.seconds  # told apart from the synthesis
    places = [annotation["document_position"] for annotation in documents.annotations(run)]
    assert sorted(places) == [0, 1]
    postprocessor.close()
