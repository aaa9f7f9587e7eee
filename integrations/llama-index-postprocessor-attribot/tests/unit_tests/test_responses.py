"""The place of an attribution in a response, its events, and copies of the postprocessor."""

import copy
import logging
import pickle
from typing import Any, ClassVar

import pytest
from conftest import EXACT, QUESTION, index_of
from llama_index.core.base.response.schema import Response
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.query import QueryEndEvent
from llama_index.core.instrumentation.events.synthesis import SynthesizeEndEvent
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributionPostprocessor
from llama_index.postprocessor.attribot.query_tracker import installed
from llama_index.postprocessor.attribot.tracked_query import QueryObserver, TrackedQuery
from llama_index_instrumentation import get_dispatcher

from attribot_rag.runtime import Answer, AttributedRun


def test_metadata_is_still_that_of_the_nodes(tiny_llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    engine = index_of().as_query_engine(llm=tiny_llm, node_postprocessors=[postprocessor])
    response = engine.query(QUESTION)
    metadata = response.metadata
    plain = index_of().as_query_engine(llm=tiny_llm).query(QUESTION).metadata
    assert {values["file_name"] for values in metadata.values()} == {"ferry.md", "lighthouse.md"}
    assert dict(metadata.items()) == dict(metadata) == metadata == plain
    assert list(metadata) == list(plain)
    assert "attribution" in metadata
    assert metadata["attribution"] is metadata.get("attribution")
    for copied in (
        copy.deepcopy(response).metadata,
        pickle.loads(pickle.dumps(response)).metadata,
        metadata.copy(),
    ):
        assert copied["attribution"] == metadata["attribution"]
        assert list(copied) == list(plain)


def test_a_response_without_nodes_of_its_own_has_some_metadata() -> None:
    response = Response("An answer.")
    query = TrackedQuery("one", QueryObserver(), QUESTION, (), asynchronous=False)
    query.add(response)
    query.attach(AttributedRun("one", "one", Answer(""), is_pending=True))
    assert response.metadata
    assert (response.metadata or {}).get("attribution", {})["status"] == "pending"
    query.attach(None)
    assert not response.metadata
    assert "attribution" not in response.metadata
    with pytest.raises(KeyError):
        response.metadata["attribution"]
    assert response.metadata.get("attribution", 3) == 3


def test_events_of_the_synthesis_and_of_the_query_carry_it(tiny_llm: HuggingFaceLLM) -> None:
    class Listens(BaseEventHandler):
        seen: ClassVar[dict[str, str]] = {}

        def handle(self, event: Any, **_: Any) -> None:
            if isinstance(event, SynthesizeEndEvent | QueryEndEvent):
                found = (event.response.metadata or {}).get("attribution", {})
                self.seen[type(event).__name__] = found.get("status")

    listens = Listens()
    root = get_dispatcher()
    root.add_event_handler(listens)
    try:
        postprocessor = AttributionPostprocessor(**EXACT)
        index_of().as_query_engine(llm=tiny_llm, node_postprocessors=[postprocessor]).query(
            QUESTION
        )
    finally:
        root.event_handlers.remove(listens)
    assert listens.seen == {"SynthesizeEndEvent": "complete", "QueryEndEvent": "complete"}


@pytest.mark.parametrize("mode", ["compact", "refine", "accumulate"])
def test_it_is_told_once_for_each_answer_that_was_given(
    tiny_llm: HuggingFaceLLM, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[AttributedRun] = []
    postprocessor = AttributionPostprocessor(on_result=runs.append, **EXACT)
    options: dict[str, Any] = {"llm": tiny_llm, "response_mode": mode}
    engine = index_of().as_query_engine(node_postprocessors=[postprocessor], **options)
    response = engine.query(QUESTION)
    assert runs == [postprocessor.result(response)]
    assert runs[0].query == QUESTION
    nothing = [SimilarityPostprocessor(similarity_cutoff=2.0), postprocessor]
    index_of().as_query_engine(node_postprocessors=nothing, **options).query(QUESTION)

    def fails(*_: Any, **__: Any) -> Any:
        raise ConnectionError("down")

    monkeypatch.setattr(tiny_llm._model, "generate", fails)
    with pytest.raises(ConnectionError):
        engine.query(QUESTION)
    assert len(runs) == 1


def test_copies_have_the_options_and_no_results(tiny_llm: HuggingFaceLLM) -> None:
    runs: list[AttributedRun] = []
    postprocessor = AttributionPostprocessor(
        proxy=tiny_llm, keep=2, on_result=runs.append, max_pending=3, method="leave_one_out"
    )
    postprocessor.results.add(AttributedRun("one", "one", Answer("")))
    for copied in (copy.copy(postprocessor), copy.deepcopy({"it": postprocessor})["it"]):
        assert copied is not postprocessor
        assert (copied.proxy, copied.keep, copied.max_pending) == (tiny_llm, 2, 3)
        assert copied.on_result == postprocessor.on_result
        assert not copied.results
    plain = AttributionPostprocessor(max_pending=3, **EXACT)
    loaded = pickle.loads(pickle.dumps(plain))
    engine = index_of().as_query_engine(llm=tiny_llm, node_postprocessors=[loaded])
    response = engine.query(QUESTION)
    assert loaded.max_pending == 3
    assert response.metadata["attribution"]["status"] == "complete"
    assert loaded.result(response).attribution is not None


def test_of_two_in_one_engine_the_first_attributes_and_the_log_says_so(
    tiny_llm: HuggingFaceLLM, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed(), "_told_of_two", False)
    both = [AttributionPostprocessor(**EXACT) for _ in range(2)]
    engine = index_of().as_query_engine(llm=tiny_llm, node_postprocessors=both)
    with caplog.at_level(logging.WARNING):
        response = engine.query(QUESTION)
    assert both[0].result(response).attribution is not None
    assert not both[1].results
    assert "two AttributionPostprocessors" in caplog.text
