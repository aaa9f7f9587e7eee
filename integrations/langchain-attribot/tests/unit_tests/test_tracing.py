"""Attributions in the traces that OpenInference's instrumentation makes of real chains."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agents import SearchesFirst
from chains import Given, rag
from conftest import DOCUMENTS, QUESTION
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.tools import create_retriever_tool
from langchain_huggingface import ChatHuggingFace
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from attribot_rag.runtime import AttributedRun
from attribot_rag.runtime.retrieved_documents import RetrievedDocuments
from langchain_attribot import AttributionCallbackHandler, AttributionMiddleware

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


@pytest.fixture(scope="module")
def provider() -> TracerProvider:
    """The global one, which can be set once."""
    provider = TracerProvider()
    trace.set_tracer_provider(provider)
    return provider


@pytest.fixture(scope="module")
def exporter(provider: TracerProvider) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


@pytest.fixture(scope="module")
def documents(provider: TracerProvider) -> RetrievedDocuments:
    documents = RetrievedDocuments()
    provider.add_span_processor(documents)
    return documents


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    instrumentor = LangChainInstrumentor()
    instrumentor.instrument()
    exporter.clear()
    yield exporter
    instrumentor.uninstrument()


def ask(chat: ChatHuggingFace, handler: AttributionCallbackHandler, *, last: bool) -> None:
    """The handler before or after the instrumentation's own among the chain's callbacks."""
    first: list[BaseCallbackHandler] = [] if last else [handler]
    manager = CallbackManager(handlers=first, inheritable_handlers=first)
    if last:
        manager.add_handler(handler, inherit=True)
    kinds = [type(handler).__name__ for handler in manager.inheritable_handlers]
    ours = kinds.index("AttributionCallbackHandler")
    assert (ours > kinds.index("OpenInferenceTracer")) == last
    rag(Given(documents=DOCUMENTS), chat).invoke(QUESTION, {"callbacks": manager})


def told(span: ReadableSpan) -> dict[str, Any]:
    attributes = span.attributes or {}
    if "annotations.0.annotation.metadata" not in attributes:
        return {}
    found: dict[str, Any] = json.loads(str(attributes["annotations.0.annotation.metadata"]))
    return found


def only(spans: InMemorySpanExporter, kind: str) -> ReadableSpan:
    (found,) = [
        span
        for span in spans.get_finished_spans()
        if (span.attributes or {}).get("openinference.span.kind") == kind
    ]
    return found


def check_carrier(spans: InMemorySpanExporter, target: ReadableSpan, run_id: str) -> None:
    carrier = only(spans, "EVALUATOR")
    (link,) = carrier.links
    assert link.context == target.context
    assert told(carrier)["run_id"] == run_id
    assert [event.name for event in carrier.events] == ["gen_ai.evaluation.result"]
    assert not told(target)


@pytest.mark.parametrize("last", [False, True])
def test_the_model_s_span_has_it_in_either_order_of_callbacks(
    tiny_chat: ChatHuggingFace, spans: InMemorySpanExporter, last: bool
) -> None:
    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    ask(tiny_chat, handler, last=last)
    assert handler.last is not None and handler.last.attribution is not None
    model = only(spans, "LLM")
    if last:  # its span has ended when the handler is told of the answer
        check_carrier(spans, model, handler.last.run_id)
    else:
        found = told(model)
        assert found["run_id"] == handler.last.run_id
        assert [document["id"] for document in found["documents"]] == ["ferry", "lighthouse"]
        assert [event.name for event in model.events] == ["gen_ai.evaluation.result"]
    handler.close()


def test_in_the_background_a_linked_span_has_it(
    tiny_chat: ChatHuggingFace, spans: InMemorySpanExporter
) -> None:
    handler = AttributionCallbackHandler(tiny_chat, mode="background", **EXACT)
    ask(tiny_chat, handler, last=True)
    (run_id,) = handler.results
    run = handler.result(run_id, 60)
    check_carrier(spans, only(spans, "LLM"), run.run_id)
    handler.close()


def test_a_streamed_answer_s_span_has_it(
    tiny_chat: ChatHuggingFace, spans: InMemorySpanExporter
) -> None:
    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    chain = rag(Given(documents=DOCUMENTS), tiny_chat).with_config(callbacks=[handler])
    list(chain.stream(QUESTION))
    assert handler.last is not None
    assert told(only(spans, "LLM"))["run_id"] == handler.last.run_id
    handler.close()


def test_phoenix_gets_each_document_s_score_at_its_place(
    tiny_chat: ChatHuggingFace, spans: InMemorySpanExporter, documents: RetrievedDocuments
) -> None:
    runs: list[AttributedRun] = []
    handler = AttributionCallbackHandler(tiny_chat, on_result=runs.append, **EXACT)
    ask(tiny_chat, handler, last=True)
    (run,) = runs
    retriever = only(spans, "RETRIEVER").context
    assert retriever is not None
    scores = {
        (annotation["span_id"], annotation["document_position"]): annotation["result"]["score"]
        for annotation in documents.annotations(run)
    }
    assert run.attribution is not None
    assert scores == {
        (trace.format_span_id(retriever.span_id), index): pytest.approx(
            sum(
                run.attribution.score(source.id) or 0.0
                for source in run.attribution.sources
                if index in source.documents
            ),
            abs=1e-4,
        )
        for index in range(2)
    }
    handler.close()


def test_the_middleware_tells_the_step_of_the_agent(
    tiny_chat: ChatHuggingFace, spans: InMemorySpanExporter
) -> None:
    middleware = AttributionMiddleware(**EXACT)
    search = create_retriever_tool(Given(documents=DOCUMENTS), "search", "Finds harbours.")
    agent = create_agent(SearchesFirst(llm=tiny_chat), [search], middleware=[middleware])
    agent.invoke({"messages": [("human", QUESTION)]})
    (run,) = middleware.results.values()
    (span,) = [span for span in spans.get_finished_spans() if told(span)]
    assert told(span)["run_id"] == run.run_id
    assert span.name == "model"
    middleware.close()


def test_without_an_instrumentation_nothing_is_told(
    tiny_chat: ChatHuggingFace, exporter: InMemorySpanExporter
) -> None:
    exporter.clear()
    handler = AttributionCallbackHandler(tiny_chat, **EXACT)
    rag(Given(documents=DOCUMENTS), tiny_chat).invoke(QUESTION, {"callbacks": [handler]})
    assert handler.last is not None and handler.last.span is None
    assert not exporter.get_finished_spans()
    handler.close()
