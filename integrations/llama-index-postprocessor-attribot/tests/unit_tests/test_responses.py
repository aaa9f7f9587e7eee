"""The place of an attribution in a response, its events, and copies of the postprocessor."""

import copy
import json
import logging
import pickle
from typing import Any, ClassVar

import pytest
from conftest import QUESTION, LocalLLM, summary_of
from engines import engine_of
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.query import QueryEndEvent
from llama_index.core.schema import TextNode
from llama_index.postprocessor.attribot import AttributionPostprocessor
from llama_index.postprocessor.attribot.query_tracker import installed
from llama_index_instrumentation import get_dispatcher
from support.summaries import EXACT, attribution_of

from attribot_rag.runtime import Answer, AttributedRun


def test_metadata_is_still_that_of_the_nodes(tiny_llm: LocalLLM, engine: Any) -> None:
    response = engine.query(QUESTION)
    metadata = response.metadata
    plain = engine_of(tiny_llm).query(QUESTION).metadata
    assert "attribution" not in plain
    assert {values["file_name"] for values in metadata.values()} == {"ferry.md", "lighthouse.md"}
    assert dict(metadata.items()) == dict(metadata) == metadata == plain
    assert TextNode(text="It is high.", metadata=metadata).metadata == plain
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


def test_the_attribution_is_written_as_json_with_the_metadata(engine: Any) -> None:
    metadata = engine.query(QUESTION).metadata
    for options in ({}, {"indent": 1}, {"sort_keys": True}):
        written = json.loads(json.dumps(metadata, **options))
        assert written == {**metadata, "attribution": metadata["attribution"]}


def test_a_pickled_run_has_no_model_and_leaves_that_of_the_user(
    tiny_llm: LocalLLM, postprocessor: AttributionPostprocessor
) -> None:
    engine = engine_of(tiny_llm, postprocessor)
    response = engine.query(QUESTION)
    run = postprocessor.result(response)
    pickled = pickle.dumps((run, response))
    assert len(pickled) < 100_000
    loaded, again = pickle.loads(pickled)
    assert loaded.text == run.text and loaded.answer.ask is None
    assert loaded.summary == again.metadata["attribution"] == run.summary
    summary_of(engine.query(QUESTION))


class Listens(BaseEventHandler):
    statuses: ClassVar[dict[str, str]] = {}

    def handle(self, event: Any, **_: Any) -> None:
        if isinstance(event, QueryEndEvent):
            summary = (event.response.metadata or {}).get("attribution", {})
            self.statuses[type(event).__name__] = summary.get("status")


def test_the_event_at_the_end_of_a_query_carries_it(engine: Any) -> None:
    listens = Listens()
    root = get_dispatcher()
    root.add_event_handler(listens)
    try:
        engine.query(QUESTION)
    finally:
        root.event_handlers.remove(listens)
    assert listens.statuses == {"QueryEndEvent": "complete"}


def test_copies_have_the_options_and_no_results(tiny_llm: LocalLLM) -> None:
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
    loaded = pickle.loads(pickle.dumps(AttributionPostprocessor(max_pending=3, **EXACT)))
    assert loaded.max_pending == 3
    response = engine_of(tiny_llm, loaded).query(QUESTION)
    summary_of(response)
    attribution_of(loaded.result(response))


def test_of_two_in_one_engine_the_first_attributes_and_the_log_says_so(
    tiny_llm: LocalLLM, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed(), "_told_of_two", False)
    first, second = (AttributionPostprocessor(**EXACT) for _ in range(2))
    with caplog.at_level(logging.WARNING):
        response = engine_of(tiny_llm, first, second).query(QUESTION)
    attribution_of(first.result(response))
    assert not second.results
    assert "two AttributionPostprocessors" in caplog.text
