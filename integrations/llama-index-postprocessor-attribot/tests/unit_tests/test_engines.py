"""Queries, chats and streams: what their responses carry."""

import asyncio
import json
import logging
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import jsonschema
import numpy as np
import pytest
from conftest import EXACT, QUESTION, index_of, llm_of, nodes
from llama_index.core.chat_engine import CondensePlusContextChatEngine, ContextChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import MetadataMode, TextNode
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributionPostprocessor
from llama_index.postprocessor.attribot.options import language_model_of
from llama_index.postprocessor.attribot.query_tracker import installed

from attribot_rag import Attributor, LanguageModel, LeaveOneOut
from attribot_rag.attribution.schema import summary_schema
from attribot_rag.errors import InvalidInput

SCHEMA = summary_schema()


def attributed(response: Any, status: str) -> dict[str, Any]:
    """The summary of the response, which follows the schema and is no larger than it may be."""
    summary: dict[str, Any] = response.metadata["attribution"]
    assert summary["status"] == status, summary
    jsonschema.validate(summary, SCHEMA)
    assert len(json.dumps(summary)) <= 16_384
    return summary


def complete(response: Any) -> dict[str, Any]:
    return attributed(response, "complete")


def ids(summary: dict[str, Any]) -> set[str]:
    return {document["id"] for document in summary["documents"]}


@pytest.fixture
def postprocessor() -> AttributionPostprocessor:
    return AttributionPostprocessor(**EXACT)


@pytest.mark.parametrize("chat_model", [True, False])
def test_a_query_carries_what_caused_its_answer(
    tiny: LanguageModel, postprocessor: AttributionPostprocessor, chat_model: bool
) -> None:
    llm = llm_of(tiny, max_new_tokens=4, is_chat_model=chat_model)
    engine = index_of().as_query_engine(llm=llm, node_postprocessors=[postprocessor])
    attributor = Attributor(tiny.model, tiny.tokenizer, progress=False, verdicts=None)
    with attributor.recorder:
        response = engine.query(QUESTION)
    summary = complete(response)
    assert ids(summary) == {"ferry", "lighthouse"}
    assert len(summary["sources"]) == 4
    assert not summary["retokenized"]
    assert "The answer was cut at 4 tokens (max_new_tokens)." in summary["notes"]
    run = postprocessor.result(response)
    assert run.attribution is not None
    (generation,) = attributor.recorder.generations
    assert run.attribution.provenance.prompt_tokens == len(generation.prompt_ids)
    assert len(run.attribution.token_spans) == len(generation.response_ids)
    attributor = Attributor(
        tiny.model, tiny.tokenizer, method="leave_one_out", progress=False, verdicts=None
    )
    truth = attributor.attribute_generation(generation, run.attribution.documents)
    np.testing.assert_allclose(run.attribution.matrix, truth.matrix, atol=1e-3)


def test_an_engine_without_it_is_untouched(
    tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor
) -> None:
    index = index_of()
    with_it = index.as_query_engine(llm=tiny_llm, node_postprocessors=[postprocessor])
    without = index.as_query_engine(llm=tiny_llm)
    complete(with_it.query(QUESTION))
    assert "attribution" not in without.query(QUESTION).metadata


def test_a_streamed_answer_has_it_after_its_end(
    tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor
) -> None:
    engine = index_of().as_query_engine(
        llm=tiny_llm, node_postprocessors=[postprocessor], streaming=True
    )
    response = engine.query(QUESTION)
    attributed(response, "pending")
    with pytest.raises(InvalidInput, match="has not ended: read its stream to the end, or close"):
        postprocessor.result(response)
    text = "".join(response.response_gen)
    complete(response)
    run = postprocessor.result(response)
    assert run.attribution is not None
    assert run.attribution.response.strip() == text.strip()
    assert not run.attribution.provenance.retokenized


def test_two_interleaved_streams_have_their_own_nodes(
    tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor
) -> None:
    responses = []
    for node in nodes():
        engine = index_of([node]).as_query_engine(
            llm=tiny_llm, node_postprocessors=[postprocessor], streaming=True
        )
        responses.append(engine.query(QUESTION))
    streams = [response.response_gen for response in responses]
    while streams:
        streams = [stream for stream in streams if next(stream, None) is not None]
    assert [ids(complete(response)) for response in responses] == [{"ferry"}, {"lighthouse"}]


def test_an_asynchronous_query_does_not_block_its_loop(
    tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor
) -> None:
    engines = [
        index_of([node]).as_query_engine(llm=tiny_llm, node_postprocessors=[postprocessor])
        for node in nodes()
    ]

    async def ask() -> list[Any]:
        responses = await asyncio.gather(
            *(engine.aquery(QUESTION) for engine in [*engines, *engines])
        )
        for response in responses:
            assert response.metadata["attribution"]["status"] in ("pending", "complete")
            run = await postprocessor.aresult(response)
            assert run.attribution is not None
        return responses

    names = [ids(complete(response)) for response in asyncio.run(ask())]
    assert names == [{"ferry"}, {"lighthouse"}] * 2


def test_an_asynchronous_stream_has_it_in_the_end(
    tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor
) -> None:
    engine = index_of().as_query_engine(
        llm=tiny_llm, node_postprocessors=[postprocessor], streaming=True
    )

    async def ask() -> Any:
        response = await engine.aquery(QUESTION)
        stream = response.response_gen
        if callable(getattr(response, "async_response_gen", None)):
            stream = response.async_response_gen()
        pieces = [piece async for piece in stream]
        assert pieces
        await postprocessor.aresult(response)
        return response

    assert ids(complete(asyncio.run(ask()))) == {"ferry", "lighthouse"}


@pytest.mark.parametrize("kind", [ContextChatEngine, CondensePlusContextChatEngine])
def test_a_chat_attributes_every_turn(
    tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor, kind: Any
) -> None:
    chat = kind.from_defaults(
        retriever=index_of().as_retriever(), llm=tiny_llm, node_postprocessors=[postprocessor]
    )
    for question in (QUESTION, "And what does a ticket cost?"):
        response = chat.chat(question)
        assert ids(complete(response)) == {"ferry", "lighthouse"}
        run = postprocessor.result(response)
        assert run.attribution is not None
        assert run.attribution.response.strip() == response.response.strip()
    streamed = chat.stream_chat("Once more?")
    text = "".join(streamed.response_gen)
    assert ids(complete(streamed)) == {"ferry", "lighthouse"}
    run = postprocessor.result(streamed)
    assert run.attribution is not None
    assert run.attribution.response.strip() == text.strip()


@pytest.mark.parametrize("kind", [ContextChatEngine, CondensePlusContextChatEngine])
def test_an_asynchronous_chat_too(
    tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor, kind: Any
) -> None:
    chat = kind.from_defaults(
        retriever=index_of().as_retriever(), llm=tiny_llm, node_postprocessors=[postprocessor]
    )

    async def ask() -> Any:
        response = await chat.achat(QUESTION)
        await postprocessor.aresult(response)
        return response

    assert ids(complete(asyncio.run(ask()))) == {"ferry", "lighthouse"}


@pytest.mark.parametrize("mode", ["compact", "tree_summarize", "simple_summarize"])
def test_modes_of_one_call(
    tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor, mode: str
) -> None:
    engine = index_of().as_query_engine(
        llm=tiny_llm, node_postprocessors=[postprocessor], response_mode=mode
    )
    assert ids(complete(engine.query(QUESTION))) == {"ferry", "lighthouse"}


def test_accumulated_answers_are_attributed_one_by_one(
    tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor
) -> None:
    engine = index_of().as_query_engine(
        llm=tiny_llm, node_postprocessors=[postprocessor], response_mode="accumulate"
    )
    response = engine.query(QUESTION)
    summary = complete(response)
    assert sorted(map(ids, summary["calls"]), key=sorted) == [{"ferry"}, {"lighthouse"}]
    for (start, end), call in zip(summary["places"], summary["calls"], strict=True):
        run = postprocessor.results[call["run_id"]]
        assert run.attribution is not None
        assert response.response[start:end] == run.attribution.response.strip()


def test_a_refined_answer_is_attributed_to_nodes_and_to_the_answer_before_it(
    tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor
) -> None:
    engine = index_of().as_query_engine(
        llm=tiny_llm, node_postprocessors=[postprocessor], response_mode="refine"
    )
    response = engine.query(QUESTION)
    summary = attributed(response, "composite")
    assert ids(summary) == {"ferry", "lighthouse"}
    (first,) = summary["calls"]
    run = postprocessor.result(response)
    assert run.attribution is not None
    assert run.attribution.response.strip() == response.response.strip()
    node, answer = run.attribution.documents
    assert {node.id, *ids(first)} == {"ferry", "lighthouse"}
    assert (answer.id, answer.text) == (first["run_id"], first["answer"].strip())
    assert postprocessor.results[first["run_id"]].attribution is not None


def test_nothing_to_attribute_breaks_nothing(
    tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor
) -> None:
    engine = index_of().as_query_engine(
        llm=tiny_llm, node_postprocessors=[postprocessor], response_mode="no_text"
    )
    assert "attribution" not in engine.query(QUESTION).metadata
    cutoff = SimilarityPostprocessor(similarity_cutoff=2.0)
    engine = index_of().as_query_engine(llm=tiny_llm, node_postprocessors=[cutoff, postprocessor])
    response = engine.query(QUESTION)
    assert "attribution" not in (response.metadata or {})
    with pytest.raises(InvalidInput, match="carries no attribution"):
        postprocessor.result(response)


def test_a_model_that_is_not_local_is_said_to_be_and_the_log_says_it_once(
    postprocessor: AttributionPostprocessor, caplog: pytest.LogCaptureFixture
) -> None:
    engine = index_of().as_query_engine(
        llm=MockLLM(max_tokens=5), node_postprocessors=[postprocessor]
    )
    for _ in range(2):
        summary = attributed(engine.query(QUESTION), "unsupported")
        assert "MockLLM is not a local Hugging Face model" in summary["error"]["message"]
    (record,) = [record for record in caplog.records if "no attribution" in record.message]
    assert "pass a local copy of the model as language_model=" in record.message


def test_a_failure_of_attribution_leaves_the_answer_intact(
    tiny_llm: HuggingFaceLLM, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(LeaveOneOut):
        def run(self, scorer):  # type: ignore[no-untyped-def]
            raise ZeroDivisionError("the scorer broke")

    broken = AttributionPostprocessor(method=Broken())
    index = index_of()
    plain = index.as_query_engine(llm=tiny_llm).query(QUESTION)
    with caplog.at_level(logging.WARNING):
        response = index.as_query_engine(llm=tiny_llm, node_postprocessors=[broken]).query(QUESTION)
    assert response.response == plain.response
    assert response.metadata["attribution"]["error"]["message"] == "the scorer broke"
    assert "the scorer broke" in caplog.text


def test_nodes_and_prompts_stay_as_they_are(
    tiny_llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor
) -> None:
    prompts: list[tuple[int, ...]] = []
    given = nodes()
    index = index_of(given)
    before = {key: doc.model_dump_json() for key, doc in index.docstore.docs.items()}
    engine = index.as_query_engine(llm=tiny_llm, node_postprocessors=[postprocessor])
    attributor = Attributor(tiny_llm._model, tiny_llm._tokenizer, progress=False)
    with attributor.recorder:
        responses = [engine.query(QUESTION) for _ in range(2)]
        prompts = [generation.prompt_ids for generation in attributor.recorder.generations]
    assert len(prompts) == 2
    assert prompts[0] == prompts[1]
    assert {k: doc.model_dump_json() for k, doc in index.docstore.docs.items()} == before
    first, second = (
        [
            (node.node_id, node.score, node.node.get_content(MetadataMode.ALL))
            for node in r.source_nodes
        ]
        for r in responses
    )
    assert first == second


def test_duplicates_are_gone_before_the_prompt_is_built(tiny_llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(deduplicate=True, **EXACT)
    twin = TextNode(text=nodes()[0].text, id_="mirror", metadata={"file_name": "mirror.md"})
    index = index_of([*nodes(), twin])
    engine = index.as_query_engine(
        llm=tiny_llm, node_postprocessors=[postprocessor], similarity_top_k=3
    )
    response = engine.query(QUESTION)
    assert len(complete(response)["documents"]) == 2
    (kept,) = [node for node in response.source_nodes if "attribot_merged" in node.node.metadata]
    assert {kept.node_id, kept.node.metadata["attribot_merged"][0]["id"]} == {"ferry", "mirror"}
    assert "mirror" not in kept.node.get_content(MetadataMode.LLM).replace("mirror.md", "")
    both = AttributionPostprocessor(**EXACT)
    engine = index.as_query_engine(llm=tiny_llm, node_postprocessors=[both], similarity_top_k=3)
    summary = complete(engine.query(QUESTION))
    assert len(summary["documents"]) == 3
    assert max(len(source["documents"]) for source in summary["sources"]) == 2


def test_metadata_lines_are_scored_only_if_asked_for(tiny_llm: HuggingFaceLLM) -> None:
    index = index_of()
    texts = {}
    for score_metadata in (False, True):
        postprocessor = AttributionPostprocessor(score_metadata=score_metadata, **EXACT)
        engine = index.as_query_engine(llm=tiny_llm, node_postprocessors=[postprocessor])
        sources = complete(engine.query(QUESTION))["sources"]
        texts[score_metadata] = " ".join(source["text"] for source in sources)
    assert "file_name" not in texts[False]
    assert "file_name: ferry.md" in texts[True]


@pytest.mark.slow
def test_a_hundred_queries_leave_nothing_behind(
    tiny_llm: HuggingFaceLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = ""

    class Breaks(SimilarityPostprocessor):
        def _postprocess_nodes(self, nodes, query_bundle=None):  # type: ignore[no-untyped-def]
            if broken == "reranker":
                raise ConnectionError(broken)
            return nodes

    class Scoring(LeaveOneOut):
        def run(self, scorer):  # type: ignore[no-untyped-def]
            if broken == "scorer":
                raise ZeroDivisionError(broken)
            return super().run(scorer)

    generate = tiny_llm._model.generate

    def generates(*args: Any, **kwargs: Any) -> Any:
        if broken == "model":
            raise ConnectionError(broken)
        return generate(*args, **kwargs)

    monkeypatch.setattr(tiny_llm._model, "generate", generates)
    postprocessor = AttributionPostprocessor(method=Scoring(), verdicts=None)
    engine = index_of().as_query_engine(llm=tiny_llm, node_postprocessors=[postprocessor, Breaks()])
    found = []
    for number in range(100):
        broken = "" if number % 3 else ("reranker", "scorer", "model")[number // 3 % 3]
        try:
            response = engine.query(QUESTION)
        except ConnectionError as error:
            found.append(str(error))
        else:
            found.append(response.metadata["attribution"]["status"])
    assert {outcome: found.count(outcome) for outcome in found} == {
        "reranker": 12,
        "error": 11,
        "model": 11,
        "complete": 66,
    }
    assert installed().num_open == 0
    assert postprocessor.results.num_pending == 0
    service = postprocessor._services.service_for(language_model_of(tiny_llm))
    assert service.recorder.generations == ()


def test_a_plain_answer_passes_four_files(tiny_llm: HuggingFaceLLM) -> None:
    """One call of one model takes the direct way; other answers are built on it."""
    postprocessor = AttributionPostprocessor(**EXACT)
    engine = index_of().as_query_engine(llm=tiny_llm, node_postprocessors=[postprocessor])
    engine.query(QUESTION)
    files: set[str] = set()

    def called(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.parent.parts[-2:] == ("postprocessor", "attribot"):
            files.add(path.name)

    sys.setprofile(called)
    try:
        response = engine.query(QUESTION)
    finally:
        sys.setprofile(None)
    assert response.metadata["attribution"]["status"] == "complete"
    assert files == {"base.py", "completion.py", "query_tracker.py", "tracked_query.py"}
    assert len(postprocessor.results) == 2  # an id each
    postprocessor.close()
