"""Queries, chats and streams: the attributions of their responses."""

import asyncio
import logging
from typing import Any

import numpy as np
import pytest
from conftest import QUESTION, Engines, LocalLLM, Postprocessor, ids_of, summary_of
from engines import engine_of, index_of, llm_of, nodes
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import MetadataMode
from llama_index.postprocessor.attribot import AttributionPostprocessor
from support.stubborn_methods import Broken
from support.summaries import EXACT, attribution_of

from attribot_rag import Attributor, LocalModel
from attribot_rag.errors import InvalidInput, UnsupportedModel

BOTH = {"ferry", "lighthouse"}


@pytest.mark.parametrize("chat_model", [True, False])
def test_a_response_carries_its_attribution(
    tiny: LocalModel, postprocessor: Postprocessor, chat_model: bool
) -> None:
    llm = llm_of(tiny, max_new_tokens=4, is_chat_model=chat_model)
    attributor = Attributor(tiny, progress=False, **EXACT)
    with attributor.recorder:
        response = engine_of(llm, postprocessor).query(QUESTION)
    summary = summary_of(response)
    assert ids_of(response) == BOTH
    assert len(summary["sources"]) == 4
    assert not summary["retokenized"]
    assert any("limit of 4 tokens" in note for note in summary["notes"])
    attribution = attribution_of(postprocessor.result(response))
    (generation,) = attributor.recorder.generations
    assert attribution.provenance.prompt_tokens == len(generation.prompt_ids)
    assert len(attribution.token_spans) == len(generation.response_ids)
    truth = attributor.attribute_generation(generation, attribution.documents)
    np.testing.assert_allclose(attribution.matrix, truth.matrix, atol=1e-3)


def test_a_stream_has_it_after_its_end(engine_with: Engines, postprocessor: Postprocessor) -> None:
    response = engine_with(streaming=True).query(QUESTION)
    summary_of(response, "pending")
    with pytest.raises(InvalidInput, match="has not ended: read its stream to the end, or close"):
        postprocessor.result(response)
    text = "".join(response.response_gen)
    summary_of(response)
    attribution = attribution_of(postprocessor.result(response))
    assert attribution.response.strip() == text.strip()
    assert not attribution.provenance.retokenized


def test_two_interleaved_streams_have_their_own_nodes(engine_with: Engines) -> None:
    engines = [engine_with(texts=[node], streaming=True) for node in nodes()]
    responses = [engine.query(QUESTION) for engine in engines]
    streams = [response.response_gen for response in responses]
    while streams:
        streams = [stream for stream in streams if next(stream, None) is not None]
    assert [ids_of(response) for response in responses] == [{"ferry"}, {"lighthouse"}]


def test_an_asynchronous_stream_has_it(engine_with: Engines, postprocessor: Postprocessor) -> None:
    async def ask() -> Any:
        response = await engine_with(streaming=True).aquery(QUESTION)
        stream = response.response_gen
        if callable(getattr(response, "async_response_gen", None)):
            stream = response.async_response_gen()
        assert [piece async for piece in stream]
        await postprocessor.aresult(response)
        return response

    assert ids_of(asyncio.run(ask())) == BOTH


@pytest.mark.parametrize("kind", [ContextChatEngine, CondensePlusContextChatEngine])
def test_each_turn_of_a_chat_has_it(
    tiny_llm: LocalLLM, postprocessor: Postprocessor, kind: Any
) -> None:
    options: dict[str, Any] = {"llm": tiny_llm, "node_postprocessors": [postprocessor]}
    chat = kind.from_defaults(retriever=index_of().as_retriever(), **options)
    for question in (QUESTION, "And what does a ticket cost?"):
        response = chat.chat(question)
        assert ids_of(response) == BOTH
        attribution = attribution_of(postprocessor.result(response))
        assert attribution.response.strip() == response.response.strip()
    streamed = chat.stream_chat("Once more?")
    text = "".join(streamed.response_gen)
    assert ids_of(streamed) == BOTH
    assert attribution_of(postprocessor.result(streamed)).response.strip() == text.strip()
    chat = kind.from_defaults(retriever=index_of().as_retriever(), **options)

    async def ask() -> Any:
        response = await chat.achat(QUESTION)
        await postprocessor.aresult(response)
        return response

    assert ids_of(asyncio.run(ask())) == BOTH


@pytest.mark.parametrize("mode", ["tree_summarize", "simple_summarize"])
def test_modes_of_one_call(engine_with: Engines, mode: str) -> None:
    engine = engine_with(response_mode=mode)
    assert ids_of(engine.query(QUESTION)) == BOTH


def test_accumulated_answers_are_not_passed_off_as_one(engine_with: Engines) -> None:
    summary = summary_of(
        engine_with(response_mode="accumulate").query(QUESTION), "not_attributable"
    )
    assert "answers of 2 calls one after the other" in summary["error"]["message"]


def test_a_refined_answer_is_attributed_to_nodes_and_to_the_answer_before_it(
    engine_with: Engines, postprocessor: Postprocessor
) -> None:
    response = engine_with(response_mode="refine").query(QUESTION)
    summary = summary_of(response, "composite")
    assert {document["id"] for document in summary["documents"]} == BOTH
    (first,) = summary["calls"]
    attribution = attribution_of(postprocessor.result(response))
    assert attribution.response.strip() == response.response.strip()
    node, answer = attribution.documents
    assert {node.id, *(document["id"] for document in first["documents"])} == BOTH
    assert (answer.id, answer.text) == (first["run_id"], first["answer"].strip())
    attribution_of(postprocessor.results[first["run_id"]])


def test_nothing_to_attribute_breaks_nothing(
    engine_with: Engines, tiny_llm: LocalLLM, postprocessor: Postprocessor
) -> None:
    engine = engine_with(response_mode="no_text")
    assert "attribution" not in engine.query(QUESTION).metadata
    cutoff = SimilarityPostprocessor(similarity_cutoff=2.0)
    response = engine_of(tiny_llm, cutoff, postprocessor).query(QUESTION)
    assert "attribution" not in (response.metadata or {})
    with pytest.raises(InvalidInput, match="carries no attribution"):
        postprocessor.result(response)


def test_a_model_elsewhere_is_unsupported_and_the_log_names_it_once(
    postprocessor: Postprocessor, caplog: pytest.LogCaptureFixture
) -> None:
    engine = engine_of(MockLLM(max_tokens=5), postprocessor)
    for _ in range(2):
        response = engine.query(QUESTION)
        error = summary_of(response, "not_attributable")["error"]
        assert "MockLLM" in error["message"]
        with pytest.raises(UnsupportedModel, match="MockLLM is not a local"):
            postprocessor.cited_response(response)
    (record,) = [record for record in caplog.records if "no attribution" in record.message]
    assert "pass a copy of its weights as language_model=" in record.message


def test_a_failure_of_attribution_leaves_the_answer_intact(
    tiny_llm: LocalLLM, caplog: pytest.LogCaptureFixture
) -> None:
    broken = AttributionPostprocessor(method=Broken())
    plain = engine_of(tiny_llm).query(QUESTION)
    with caplog.at_level(logging.WARNING):
        response = engine_of(tiny_llm, broken).query(QUESTION)
    assert response.response == plain.response
    assert summary_of(response, "error")["error"]["message"] == "the scorer broke"
    assert "the scorer broke" in caplog.text


def test_nodes_and_prompts_stay_as_they_are(
    tiny_llm: LocalLLM, postprocessor: Postprocessor
) -> None:
    index = index_of()

    def stored() -> dict[str, str]:
        return {key: node.model_dump_json() for key, node in index.docstore.docs.items()}

    def shown(response: Any) -> list[Any]:
        return [
            (node.node_id, node.score, node.node.get_content(MetadataMode.ALL))
            for node in response.source_nodes
        ]

    before = stored()
    engine = index.as_query_engine(llm=tiny_llm, node_postprocessors=[postprocessor])
    attributor = Attributor(tiny_llm._model, tiny_llm._tokenizer, progress=False)
    with attributor.recorder:
        first, second = (engine.query(QUESTION) for _ in range(2))
        prompts = [generation.prompt_ids for generation in attributor.recorder.generations]
    assert len(prompts) == 2
    assert prompts[0] == prompts[1]
    assert stored() == before
    assert shown(first) == shown(second)


@pytest.mark.parametrize("score_metadata", [False, True])
def test_metadata_lines_are_scored_or_an_answer_may_come_from_them(
    tiny_llm: LocalLLM, score_metadata: bool
) -> None:
    options: dict[str, Any] = {"method": "leave_one_out", "score_metadata": score_metadata}
    response = engine_of(tiny_llm, AttributionPostprocessor(**options)).query(QUESTION)
    summary = summary_of(response)
    texts = " ".join(source["text"] for source in summary["sources"])
    assert ("file_name: ferry.md" in texts) == ("file_name" in texts) == score_metadata
    assert ("score_metadata=True" in " ".join(summary["notes"])) == (not score_metadata)
    assert summary["sentences"][0]["verdict"] in ("unsupported", "open")  # of random weights
