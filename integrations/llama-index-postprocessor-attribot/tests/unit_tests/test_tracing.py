"""Attributions in the traces that OpenInference's instrumentation makes of real query engines."""

from collections.abc import Iterator

import pytest
from conftest import QUESTION, LocalLLM
from engines import engine_of
from llama_index.postprocessor.attribot import AttributionPostprocessor
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from support.summaries import EXACT, attribution_of
from support.traces import Traces, annotation_of
from support.traces import provided as provided

# raised as an error, it would keep the instrumentation from making the models' spans
pytestmark = pytest.mark.filterwarnings("ignore:The `json` method is deprecated")


@pytest.fixture(scope="module")
def traces(provided: Traces) -> Iterator[Traces]:
    LlamaIndexInstrumentor().instrument()
    if not LlamaIndexInstrumentor().is_instrumented_by_opentelemetry:
        pytest.skip("OpenInference does not instrument so old a LlamaIndex")
    yield provided
    LlamaIndexInstrumentor().uninstrument()


def test_an_evaluator_span_is_linked(tiny_llm: LocalLLM, traces: Traces) -> None:
    traces.clear()
    postprocessor = AttributionPostprocessor(mode="background", **EXACT)
    run = postprocessor.result(engine_of(tiny_llm, postprocessor).query(QUESTION), 60)
    traces.check_carrier(run)
    (carrier,) = traces.of_kind("EVALUATOR")
    scores = [document["score"] for document in annotation_of(carrier)["documents"]]
    assert len(scores) == 2 and None not in scores
    assert carrier.start_time is not None and carrier.end_time is not None
    lasted = (carrier.end_time - carrier.start_time) / 1e9
    assert lasted >= attribution_of(run).provenance.seconds  # told apart from the synthesis
    postprocessor.close()
