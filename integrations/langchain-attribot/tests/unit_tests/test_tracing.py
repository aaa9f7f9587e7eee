"""Attributions in the traces that OpenInference's instrumentation makes of real chains."""

from collections.abc import Iterator
from typing import Any

import pytest
from conftest import QUESTION, Chain, Handler, Making
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from openinference.instrumentation.langchain import LangChainInstrumentor
from support.traces import Traces, annotation_of
from support.traces import provided as provided

from attribot_rag.runtime import AttributedRun


@pytest.fixture
def traces(provided: Traces) -> Iterator[Traces]:
    instrumentor = LangChainInstrumentor()
    instrumentor.instrument()
    provided.clear()
    yield provided
    instrumentor.uninstrument()


def ask(chain: Chain, handler: Handler, *, last: bool, streamed: bool = False) -> AttributedRun:
    """The handler before or after the instrumentation's own among the chain's callbacks."""
    first: list[BaseCallbackHandler] = [] if last else [handler]
    manager = CallbackManager(handlers=first, inheritable_handlers=first)
    if last:
        manager.add_handler(handler, inherit=True)
    kinds = [type(handler).__name__ for handler in manager.inheritable_handlers]
    ours = kinds.index("AttributionCallbackHandler")
    assert (ours > kinds.index("OpenInferenceTracer")) == last
    config: Any = {"callbacks": manager}
    list(chain.stream(QUESTION, config)) if streamed else chain.invoke(QUESTION, config)
    (run_id,) = handler.results
    return handler.result(run_id, 60)


def test_where_the_model_s_span_has_ended_a_linked_span_has_it(
    chain: Chain, traces: Traces, making: Making
) -> None:
    traces.check_carrier(ask(chain, making(mode="background"), last=True))


@pytest.mark.parametrize("streamed", [False, True])
def test_the_model_s_span_has_it_while_it_is_open(
    chain: Chain, traces: Traces, handler: Handler, streamed: bool
) -> None:
    run = ask(chain, handler, last=False, streamed=streamed)
    (model,) = traces.of_kind("LLM")
    assert annotation_of(model)["run_id"] == run.run_id
    assert [document["id"] for document in annotation_of(model)["documents"]] == [
        "ferry",
        "lighthouse",
    ]
    assert [event.name for event in model.events] == ["gen_ai.evaluation.result"]
