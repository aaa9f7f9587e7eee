"""Failures are reported, and cost neither the answer nor the program."""

from typing import Any

import pytest
from conftest import QUESTION, Engines, LocalLLM, Postprocessor, summary_of
from engines import engine_of, index_of
from llama_index.postprocessor.attribot import AttributionPostprocessor
from scripted import Around

from attribot_rag import LeaveOneOut
from attribot_rag.errors import InvalidInput


class Stops(LeaveOneOut):
    def run(self, scorer: Any) -> Any:
        raise KeyboardInterrupt


def test_an_error_in_the_middle_of_a_stream_is_the_user_s(postprocessor: Postprocessor) -> None:
    response = engine_of(Around(), postprocessor, streaming=True).query(QUESTION)
    with pytest.raises(ConnectionError):
        list(response.response_gen)
    summary_of(response, "error")
    assert isinstance(postprocessor.result(response).error, ConnectionError)


def test_ctrl_c_while_scoring_stops_the_attribution(tiny_llm: LocalLLM) -> None:
    plain = engine_of(tiny_llm)
    postprocessor = AttributionPostprocessor(method=Stops())
    response = engine_of(tiny_llm, postprocessor).query(QUESTION)
    assert response.response and summary_of(response, "error")
    (run,) = postprocessor.results.values()
    assert isinstance(run.error, KeyboardInterrupt)
    assert "generate" not in vars(tiny_llm._model)
    assert plain.query(QUESTION).response  # which nobody attributes


def test_a_model_around_a_local_one(tiny_llm: LocalLLM, postprocessor: Postprocessor) -> None:
    summary_of(engine_of(Around(inner=tiny_llm), postprocessor).query(QUESTION))


def test_a_streamed_refinement_is_not_passed_off_as_its_last_call(engine_with: Engines) -> None:
    engine = engine_with(response_mode="refine", streaming=True)
    response = engine.query(QUESTION)
    list(response.response_gen)
    summary = summary_of(response, "not_attributable")
    assert "2 calls, and one was streamed to another" in summary["error"]["message"]


def test_a_response_without_a_postprocessor_is_an_error(tiny_llm: LocalLLM) -> None:
    response = index_of().as_query_engine(llm=tiny_llm).query(QUESTION)
    with pytest.raises(InvalidInput, match="if an AttributionPostprocessor is among"):
        AttributionPostprocessor().result(response)
