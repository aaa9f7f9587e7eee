"""Answers that are not a model's text, or were not given by a synthesizer."""

import logging
from typing import Any

import jsonschema
import pytest
from conftest import EXACT, QUESTION, index_of
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.base.response.schema import Response
from llama_index.core.llms import CustomLLM
from llama_index.core.query_engine import CitationQueryEngine, CustomQueryEngine
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributedQueryEngine, AttributionPostprocessor
from pydantic import BaseModel
from scripted import says

from attribot_rag import LanguageModel
from attribot_rag.attribution.schema import summary_schema
from attribot_rag.runtime import AttributedRun

SCHEMA = summary_schema()


class Lighthouse(BaseModel):
    """The subject of the answer."""

    sentence: str
    lit: int


JSON = '{"sentence": "The lighthouse is 38 metres high.", "lit": 1844}'


def summary_of(response: Any, status: str = "complete") -> dict[str, Any]:
    found: dict[str, Any] = response.metadata["attribution"]
    jsonschema.validate(found, SCHEMA)
    assert found["status"] == status, found
    return found


@pytest.mark.parametrize("way", ["output_cls", "tree_summarize", "as_structured_llm"])
def test_structured_answers_are_one_call(smollm2: LanguageModel, way: str) -> None:
    llm = says(smollm2, f"Here it is: {JSON}")
    postprocessor = AttributionPostprocessor(**EXACT)
    options: dict[str, Any] = {"llm": llm, "output_cls": Lighthouse}
    if way == "tree_summarize":
        options["response_mode"] = way
    if way == "as_structured_llm":
        options = {"llm": llm.as_structured_llm(Lighthouse)}
    engine = index_of().as_query_engine(node_postprocessors=[postprocessor], **options)
    response = engine.query(QUESTION)
    assert response.response == Lighthouse(sentence="The lighthouse is 38 metres high.", lit=1844)
    summary = summary_of(response)
    assert summary["calls"] == []
    assert summary["offsets"] == "shown"
    (sentence, *_) = summary["sentences"]
    shown = str(response)
    assert shown[sentence["start"] : sentence["end"]] == sentence["text"]
    assert sentence["text"] in shown
    best, *_ = summary["sources"]
    assert best["text"] == "The lighthouse is 38 metres high."
    sources = {
        sentence["text"]: sentence["sources"]
        for sentence in summary["sentences"]
        if sentence["sources"]
    }
    assert list(sources) == ['"The lighthouse is 38 metres high."', "1844"], summary["sentences"]
    texts = {source["id"]: source["text"] for source in summary["sources"]}
    assert [texts[of[0]] for of in sources.values()] == [
        "The lighthouse is 38 metres high.",
        "Its lamp was lit for the first time in 1844.",
    ]
    run = postprocessor.result(response)
    assert run.attribution is not None
    start, end = run.attribution.find("1844")
    (ranked,) = run.attribution.top(1, start, end)
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


@pytest.mark.parametrize("as_text", [True, False])
def test_a_custom_engine_that_calls_the_model_itself(
    tiny_llm: HuggingFaceLLM, as_text: bool
) -> None:
    runs: list[AttributedRun] = []
    postprocessor = AttributionPostprocessor(on_result=runs.append, **EXACT)
    retriever = index_of().as_retriever()
    engine = Asking(
        retriever=retriever, postprocessors=[postprocessor], llm=tiny_llm, as_text=as_text
    )
    response = engine.query(QUESTION)
    summary = summary_of(response)
    assert {document["id"] for document in summary["documents"]} == {"ferry", "lighthouse"}
    assert summary["query"] == QUESTION
    assert runs == [postprocessor.result(response)]
    plain = Asking(retriever=retriever, postprocessors=[], llm=tiny_llm)
    assert plain.query(QUESTION).metadata is None
    summary_of(AttributedQueryEngine(plain, **EXACT).query(QUESTION))


def test_an_answer_that_no_model_was_seen_to_give_says_so(
    tiny_llm: HuggingFaceLLM, caplog: pytest.LogCaptureFixture
) -> None:
    class Unseen:
        def complete(self, prompt: str) -> str:
            return "It is high."

    postprocessor = AttributionPostprocessor(**EXACT)
    engine = Asking(
        retriever=index_of().as_retriever(), postprocessors=[postprocessor], llm=Unseen()
    )
    with caplog.at_level(logging.WARNING):
        response = engine.query(QUESTION)
    assert response.response == "It is high."
    summary = summary_of(response, "unsupported")
    assert "no call of a model of LlamaIndex was seen" in summary["error"]["message"]
    assert "no call of a model of LlamaIndex was seen" in caplog.text
    assert postprocessor.result(response).query == QUESTION


def test_a_model_that_is_not_known_is_scored_by_a_copy(tiny_llm: HuggingFaceLLM) -> None:
    class Served(CustomLLM):
        """Answers as its own model does, which nobody sees."""

        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(model_name="served", context_window=2048)

        def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
            return CompletionResponse(text="It is 38 metres high.")

        def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
            raise NotImplementedError

    postprocessor = AttributionPostprocessor(language_model=tiny_llm, **EXACT)
    engine = index_of().as_query_engine(llm=Served(), node_postprocessors=[postprocessor])
    response = engine.query(QUESTION)
    summary = summary_of(response)
    assert summary["retokenized"]
    assert {document["id"] for document in summary["documents"]} == {"ferry", "lighthouse"}


@pytest.fixture(scope="module")
def falsely_cited(smollm2: LanguageModel) -> HuggingFaceLLM:
    """It names the first chunk, and says what stands in the second."""
    return says(smollm2, "The lighthouse is 38 metres high [1].", is_chat_model=False)


def citing_engine(llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor) -> Any:
    return CitationQueryEngine.from_args(index_of(), llm=llm, node_postprocessors=[postprocessor])


def test_an_engine_s_own_numbers_are_kept_audited_or_replaced(
    falsely_cited: HuggingFaceLLM,
) -> None:
    postprocessor = AttributionPostprocessor()
    response = citing_engine(falsely_cited, postprocessor).query(QUESTION)
    texts = [node.node.get_content() for node in response.source_nodes]
    (number,) = [i for i, text in enumerate(texts, 1) if "38 metres" in text]
    assert number == 2
    summary = summary_of(response)
    assert not any("Source " in source["text"] for source in summary["sources"])
    (cited,) = [document for document in summary["documents"] if document["number"] is not None]
    assert (cited["index"], cited["number"]) == (1, 2)
    assert postprocessor.cited_response(response) == "The lighthouse is 38 metres high [1]. [2]"
    replaced = postprocessor.cited_response(response, markers=False)
    assert replaced == "The lighthouse is 38 metres high. [2]"
    run = postprocessor.result(response)
    assert run.attribution is not None
    (marker,) = run.attribution.markers
    assert (marker.number, marker.document, marker.supported) == (1, 0, False)


def test_numbers_follow_the_first_citation_if_they_shall(falsely_cited: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(numbering="by_citation")
    response = citing_engine(falsely_cited, postprocessor).query(QUESTION)
    (cited,) = [
        document for document in summary_of(response)["documents"] if document["number"] is not None
    ]
    assert (cited["index"], cited["number"]) == (1, 1)
    replaced = postprocessor.cited_response(response, markers=False)
    assert replaced == "The lighthouse is 38 metres high. [1]"
