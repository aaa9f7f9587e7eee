"""Answers that are not a model's text, or were not given by a synthesizer."""

import logging
from typing import Any

import pytest
from conftest import QUESTION, LocalLLM, Postprocessor, ids_of, summary_of
from engines import engine_of, index_of
from llama_index.core.base.llms.types import CompletionResponse
from llama_index.core.base.response.schema import Response
from llama_index.core.query_engine import CitationQueryEngine, CustomQueryEngine
from llama_index.postprocessor.attribot import AttributedQueryEngine, AttributionPostprocessor
from pydantic import BaseModel
from scripted import Around, says
from support.summaries import EXACT, attribution_of

from attribot_rag import LocalModel
from attribot_rag.runtime import AttributedRun

BOTH = {"ferry", "lighthouse"}
SENTENCE = "The lighthouse is 38 metres high."


class Lighthouse(BaseModel):
    """The subject of the answer."""

    sentence: str
    lit: int


@pytest.mark.parametrize("way", ["output_cls", "as_structured_llm"])
def test_structured_answers_are_one_call(
    smollm2: LocalModel, postprocessor: Postprocessor, way: str
) -> None:
    expected = Lighthouse(sentence=SENTENCE, lit=1844)
    llm: Any = says(smollm2, f'Here it is: {{"sentence": "{SENTENCE}", "lit": 1844}}')
    options: dict[str, Any] = {"output_cls": Lighthouse}
    if way == "as_structured_llm":
        llm, options = llm.as_structured_llm(Lighthouse), {}
    response = engine_of(llm, postprocessor, **options).query(QUESTION)
    assert response.response == expected
    summary = summary_of(response)
    assert summary["calls"] == []
    assert summary["offsets"] == "shown"
    (sentence, *_) = summary["sentences"]
    shown = str(response)
    assert shown[sentence["start"] : sentence["end"]] == sentence["text"]
    best, *_ = summary["sources"]
    assert best["text"] == SENTENCE
    texts = {source["id"]: source["text"] for source in summary["sources"]}
    caused = [
        (sentence["text"], texts[sentence["source_ids"][0]])
        for sentence in summary["sentences"]
        if sentence["source_ids"]
    ]
    assert caused == [
        (f'"{SENTENCE}"', SENTENCE),
        ("1844", "Its lamp was lit for the first time in 1844."),
    ]
    attribution = attribution_of(postprocessor.result(response))
    start, end = attribution.find("1844")
    (ranked,) = attribution.top(1, start, end)
    assert "1844" in ranked.source.text


class Asking(CustomQueryEngine):
    """Retrieves, and calls a model without a synthesizer."""

    retriever: Any
    postprocessors: list[Any]
    llm: Any
    as_text: bool = True

    def custom_query(self, query_str: str) -> str | Response:  # type: ignore[override]
        nodes = self.retriever.retrieve(query_str)
        for postprocessor in self.postprocessors:
            nodes = postprocessor.postprocess_nodes(nodes, query_str=query_str)
        context = "\n".join(node.text for node in nodes)
        answer = str(self.llm.complete(f"{context}\n{query_str}"))
        return answer if self.as_text else Response(answer, source_nodes=nodes)


def asking(llm: Any, *postprocessors: Any, **options: Any) -> Asking:
    retriever = index_of().as_retriever()
    return Asking(retriever=retriever, postprocessors=postprocessors, llm=llm, **options)


@pytest.mark.parametrize("as_text", [True, False])
def test_a_custom_engine_that_calls_the_model_itself(tiny_llm: LocalLLM, as_text: bool) -> None:
    runs: list[AttributedRun] = []
    postprocessor = AttributionPostprocessor(on_result=runs.append, **EXACT)
    response = asking(tiny_llm, postprocessor, as_text=as_text).query(QUESTION)
    assert ids_of(response) == BOTH
    assert summary_of(response)["question"] == QUESTION
    assert runs == [postprocessor.result(response)]
    plain = asking(tiny_llm)
    assert plain.query(QUESTION).metadata is None
    summary_of(AttributedQueryEngine(plain, **EXACT).query(QUESTION))


def test_an_answer_without_an_observed_model_call_says_so(
    postprocessor: Postprocessor, caplog: pytest.LogCaptureFixture
) -> None:
    class Unseen:
        def complete(self, prompt: str) -> str:
            return "It is high."

    with caplog.at_level(logging.WARNING):
        response = asking(Unseen(), postprocessor).query(QUESTION)
    assert response.response == "It is high."
    error = summary_of(response, "not_attributable")["error"]
    assert "no call of a model of LlamaIndex was seen" in error["message"]
    assert "no call of a model of LlamaIndex was seen" in caplog.text
    assert postprocessor.result(response).question == QUESTION


class Served(Around):
    """Answers as its own model does, which nobody sees."""

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text="It is 38 metres high.")


def test_a_model_that_is_not_known_is_scored_by_a_copy(tiny_llm: LocalLLM) -> None:
    postprocessor = AttributionPostprocessor(language_model=tiny_llm, **EXACT)
    response = engine_of(Served(), postprocessor).query(QUESTION)
    assert summary_of(response)["retokenized"]
    assert ids_of(response) == BOTH


@pytest.fixture(scope="module")
def falsely_cited(smollm2: LocalModel) -> LocalLLM:
    """It cites the first chunk for a text of the second."""
    return says(smollm2, "The lighthouse is 38 metres high [1].", is_chat_model=False)


def citing(llm: LocalLLM, postprocessor: Postprocessor) -> tuple[Any, Any]:
    """The response of an engine that numbers its sources, and the only document that is cited."""
    engine = CitationQueryEngine.from_args(index_of(), llm=llm, node_postprocessors=[postprocessor])
    response = engine.query(QUESTION)
    documents = summary_of(response)["documents"]
    (cited,) = [document for document in documents if document["number"] is not None]
    assert "38 metres" in response.source_nodes[1].node.get_content()
    assert cited["index"] == 1
    return response, cited


def test_an_engine_s_own_numbers_are_kept_audited_or_replaced(falsely_cited: LocalLLM) -> None:
    postprocessor = AttributionPostprocessor()
    response, cited = citing(falsely_cited, postprocessor)
    assert not any("Source " in source["text"] for source in summary_of(response)["sources"])
    assert cited["number"] == 2
    written = postprocessor.cited_response(response, markers="written")
    assert written == "The lighthouse is 38 metres high [1]. [2]"
    assert postprocessor.cited_response(response) == (
        "The lighthouse is 38 metres high. [2] (the model cites [1], which has no effect on it)"
    )
    replaced = postprocessor.cited_response(response, markers="removed")
    assert replaced == "The lighthouse is 38 metres high. [2]"
    (marker,) = attribution_of(postprocessor.result(response)).markers
    assert (marker.number, marker.document, marker.supported) == (1, 0, False)
