"""Whatever goes wrong is said, and neither the answer nor the program is lost to it."""

import asyncio
import copy
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import EXACT, QUESTION, index_of, llm_of, nodes, scored
from llama_index.core import get_response_synthesizer
from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import CustomLLM, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.schema import ImageNode, NodeWithScore, TextNode
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributedQueryEngine, AttributionPostprocessor
from llama_index.postprocessor.attribot.query_tracker import installed

from attribot_rag import LanguageModel, LeaveOneOut
from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.runtime import AttributionService


class Breaks(LeaveOneOut):
    def run(self, scorer: Any) -> Any:
        raise ZeroDivisionError("the scorer broke")


class Stops(LeaveOneOut):
    def run(self, scorer: Any) -> Any:
        raise KeyboardInterrupt


def engine_of(llm: Any, postprocessor: AttributionPostprocessor, **options: Any) -> Any:
    return index_of().as_query_engine(llm=llm, node_postprocessors=[postprocessor], **options)


def test_what_cannot_be_prepared_is_said(
    tiny_llm: HuggingFaceLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)

    def fails(_: object) -> None:
        raise ValueError("no room for it")

    monkeypatch.setattr(postprocessor._services, "service_for", fails)
    response = engine_of(tiny_llm, postprocessor).query(QUESTION)
    assert response.response
    assert response.metadata["attribution"]["error"]["message"] == "no room for it"


def test_a_stream_ends_as_ever(tiny_llm: HuggingFaceLLM) -> None:
    plain = index_of().as_query_engine(llm=tiny_llm, streaming=True).query(QUESTION)
    postprocessor = AttributionPostprocessor(method=Breaks())
    response = engine_of(tiny_llm, postprocessor, streaming=True).query(QUESTION)
    assert "".join(response.response_gen) == "".join(plain.response_gen)
    assert response.metadata["attribution"]["error"]["message"] == "the scorer broke"


def test_an_error_in_the_middle_of_a_stream_is_the_user_s(tiny_llm: HuggingFaceLLM) -> None:
    class Cut(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(model_name="cut")

        @llm_completion_callback()
        def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
            return CompletionResponse(text="It")

        @llm_completion_callback()
        def stream_complete(
            self, prompt: str, formatted: bool = False, **_: Any
        ) -> CompletionResponseGen:
            def pieces() -> Iterator[CompletionResponse]:
                yield CompletionResponse(text="It", delta="It")
                raise ConnectionError("cut off")

            return pieces()

    postprocessor = AttributionPostprocessor(**EXACT)
    response = engine_of(Cut(), postprocessor, streaming=True).query(QUESTION)
    shown = []
    with pytest.raises(ConnectionError):
        shown.extend(response.response_gen)
    assert response.metadata["attribution"]["status"] == "error"
    assert isinstance(postprocessor.result(response).error, ConnectionError)


@pytest.mark.parametrize("wrapped", [False, True])
def test_ctrl_c_while_scoring_stops_the_program(tiny_llm: HuggingFaceLLM, wrapped: bool) -> None:
    plain = index_of().as_query_engine(llm=tiny_llm)
    postprocessor = AttributionPostprocessor(method=Stops())
    engine = AttributedQueryEngine(plain, method=Stops()) if wrapped else None
    with pytest.raises(KeyboardInterrupt):
        (engine or engine_of(tiny_llm, postprocessor)).query(QUESTION)
    results = engine.postprocessor.results if engine else postprocessor.results
    (run,) = results.values()
    assert isinstance(run.error, KeyboardInterrupt)
    assert "generate" not in vars(tiny_llm._model)
    assert plain.query(QUESTION).response  # which nobody attributes


def test_a_synthesizer_gets_one_callback_however_often_it_answers(
    tiny_llm: HuggingFaceLLM,
) -> None:
    callbacks = CallbackManager([])
    synthesizer = get_response_synthesizer(llm=tiny_llm, callback_manager=callbacks)
    postprocessor = AttributionPostprocessor(**EXACT)
    for _ in range(2):
        passed = postprocessor.postprocess_nodes(scored(nodes()))
        response = synthesizer.synthesize(QUESTION, passed)
        assert response.metadata["attribution"]["status"] == "complete"
    assert len(callbacks.handlers) == 1
    assert len(copy.deepcopy(callbacks.handlers)) == 1  # as users do with their settings


def test_the_reason_is_given_for_what_is_not_supported() -> None:
    llm = MockLLM(max_tokens=5)
    postprocessor = AttributionPostprocessor(**EXACT)
    response = engine_of(llm, postprocessor).query(QUESTION)
    assert response.metadata["attribution"]["status"] == "unsupported"
    with pytest.raises(UnsupportedModel, match="MockLLM is not a local"):
        postprocessor.cited_response(response)


def test_a_model_around_a_local_one_is_seen_through(tiny_llm: HuggingFaceLLM) -> None:
    class Around(CustomLLM):
        inner: Any

        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(model_name="around", context_window=2048)

        @llm_completion_callback()
        def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
            return self.inner.complete(prompt, formatted=True)  # type: ignore[no-any-return]

        def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
            raise NotImplementedError

    response = engine_of(Around(inner=tiny_llm), AttributionPostprocessor(**EXACT)).query(QUESTION)
    assert response.metadata["attribution"]["status"] == "complete"


def test_accumulated_answers_are_cited_with_one_numbering(llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(verdicts=None, method="leave_one_out")
    response = engine_of(llm, postprocessor, response_mode="accumulate").query(QUESTION)
    run = postprocessor.result(response)
    assert run.attribution is None
    for call in response.metadata["attribution"]["calls"]:
        assert postprocessor.results[call["run_id"]].attribution is not None
    text = postprocessor.cited_response(response, remarks=False)
    assert re.sub(r" \[\d\]", "", text) == response.response
    assert {"[1]", "[2]"} == set(re.findall(r"\[\d\]", text))
    _, *citations = postprocessor.cited_message(response).blocks
    assert {
        citation.source: citation.additional_location_info["number"] for citation in citations
    } == {  # type: ignore[union-attr]
        node.node_id: number for number, node in enumerate(map(_node, response.source_nodes), 1)
    }
    engine = AttributedQueryEngine(
        index_of().as_query_engine(llm=llm, response_mode="accumulate"),
        source_nodes="used",
        **EXACT,
    )
    assert len(engine.query(QUESTION).source_nodes) == 2


def _node(scored: NodeWithScore) -> Any:
    return scored.node


def test_a_streamed_refinement_is_not_passed_off_as_its_last_call(
    tiny_llm: HuggingFaceLLM,
) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    engine = engine_of(tiny_llm, postprocessor, response_mode="refine", streaming=True)
    response = engine.query(QUESTION)
    list(response.response_gen)
    summary = response.metadata["attribution"]
    assert summary["status"] == "unsupported"
    assert "2 calls, of which one was streamed to another" in summary["error"]["message"]


def test_places_are_those_of_the_response(tiny_llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    engine = index_of(nodes()[:1]).as_query_engine(
        llm=tiny_llm, node_postprocessors=[postprocessor], response_mode="accumulate"
    )
    response = engine.query(QUESTION)
    summary = response.metadata["attribution"]
    attribution = postprocessor.result(response).attribution
    assert attribution is not None
    assert summary["calls"] == summary["places"] == []
    assert (
        response.response[summary["start"] : summary["end"]].strip() == attribution.response.strip()
    )
    assert response.response.startswith("Response 1")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["compact", "tree_summarize", "accumulate", "compact_accumulate"])
def test_nodes_that_are_cut_over_several_calls(tiny: LanguageModel, mode: str) -> None:
    sentences = [f"House number {number} has a blue door and a red roof." for number in range(120)]
    long = TextNode(text=" ".join(sentences), id_="long")
    llm = llm_of(tiny, max_new_tokens=4, is_chat_model=False)
    llm.context_window = 1024
    postprocessor = AttributionPostprocessor(**EXACT)
    response = (
        index_of([*nodes(), long])
        .as_query_engine(
            llm=llm,
            node_postprocessors=[postprocessor],
            response_mode=mode,
            similarity_top_k=3,
        )
        .query(QUESTION)
    )
    summary = response.metadata["attribution"]
    assert summary["status"] == ("complete" if "accumulate" in mode else "composite")
    calls = [call["run_id"] for call in summary["calls"]]
    assert len(calls) + ("accumulate" not in mode) > 1
    seen = set()
    for run in (postprocessor.result(response), *(postprocessor.results[call] for call in calls)):
        if run.attribution is not None:
            assert not run.attribution.not_located
            seen |= {source.text for source in run.attribution.sources}
    assert len(seen & set(sentences)) > 100


def test_only_texts_are_compared() -> None:
    postprocessor = AttributionPostprocessor(deduplicate=True, **EXACT)
    images = [ImageNode(image_url=f"https://example.org/{number}.png") for number in range(3)]
    assert len(postprocessor.postprocess_nodes(scored(images))) == 3  # type: ignore[arg-type]
    retrieved = scored(
        [
            TextNode(text="Price: 18 crowns.", metadata={"product": product, "file_name": name})
            for product, name in (("ticket", "a"), ("pass", "b"), ("ticket", "c"))
        ]
    )
    kept = postprocessor.postprocess_nodes(retrieved)
    assert [one.node.metadata["product"] for one in kept] == ["ticket", "pass"]
    held = threading.Lock()  # which cannot be copied
    retrieved = scored([TextNode(text="One text.", metadata={"lock": held}) for _ in range(2)])
    (one,) = postprocessor.postprocess_nodes(retrieved)
    assert one.node.metadata["lock"] is held


def test_an_answer_may_come_from_metadata_lines(tiny_llm: HuggingFaceLLM) -> None:
    notes = {}
    for score_metadata in (False, True):
        postprocessor = AttributionPostprocessor(
            method="leave_one_out", score_metadata=score_metadata
        )
        summary = engine_of(tiny_llm, postprocessor).query(QUESTION).metadata["attribution"]
        assert summary["sentences"][0]["verdict"] in ("unsupported", "open")  # of random weights
        notes[score_metadata] = " ".join(summary["notes"])
    assert "score_metadata=True" in notes[False]
    assert "score_metadata" not in notes[True]


def test_what_ends_at_once_does_not_stay_pending(
    tiny_llm: HuggingFaceLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    attribute = AttributionService.attribute

    def late(service: AttributionService, *args: Any, **kwargs: Any) -> Any:
        run = attribute(service, *args, **kwargs)
        service.store.wait(run.run_id)
        return run

    monkeypatch.setattr(AttributionService, "attribute", late)
    postprocessor = AttributionPostprocessor(mode="background", **EXACT)
    response = engine_of(tiny_llm, postprocessor).query(QUESTION)
    assert response.metadata["attribution"]["status"] == "complete"


def test_only_what_is_asked_for_is_recorded(tiny_llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    for options in ({}, {"streaming": True}):
        response = engine_of(tiny_llm, postprocessor, **options).query(QUESTION)
        list(getattr(response, "response_gen", ()))
        tiny_llm.complete("Something else.")
        service = postprocessor._services.service_for(
            LanguageModel(tiny_llm._model, tiny_llm._tokenizer)
        )
        assert service.recorder.generations == ()
        assert "generate" not in vars(tiny_llm._model)


def test_who_awaits_waits_whatever_the_queue_may_hold(tiny_llm: HuggingFaceLLM) -> None:
    engine = AttributedQueryEngine(index_of().as_query_engine(llm=tiny_llm), max_pending=1, **EXACT)

    async def ask() -> list[Any]:
        return await asyncio.gather(*(engine.aquery(QUESTION) for _ in range(4)))

    for response in asyncio.run(ask()):
        assert response.metadata["attribution"]["status"] == "complete"


def test_retrieval_and_synthesis_as_steps_of_their_own(tiny_llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    engine = engine_of(tiny_llm, postprocessor)
    for passed in (
        postprocessor.postprocess_nodes(scored(nodes()), query_str=QUESTION),
        engine.retrieve(QUESTION),
    ):
        response = engine.synthesize(QUESTION, passed)
        assert response.metadata["attribution"]["status"] == "complete"
    again: list[NodeWithScore] = scored(nodes())  # the same nodes as other objects
    assert engine.synthesize(QUESTION, again).metadata["attribution"]["status"] == "complete"
    other = scored([TextNode(text="Another text.", id_="ferry")])
    assert "attribution" not in engine.synthesize(QUESTION, other).metadata
    assert installed().num_open == 0


def test_a_workflow_of_one_s_own(tiny_llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    retriever = index_of().as_retriever()
    synthesizer = get_response_synthesizer(llm=tiny_llm)

    class Retrieved(Event):
        nodes: list[NodeWithScore]

    class Rag(Workflow):
        @step
        async def retrieve(self, event: StartEvent) -> Retrieved:
            nodes = await retriever.aretrieve(event.question)
            return Retrieved(nodes=postprocessor.postprocess_nodes(nodes))

        @step
        async def synthesize(self, event: Retrieved) -> StopEvent:
            return StopEvent(result=await synthesizer.asynthesize(QUESTION, event.nodes))

    async def ask() -> Any:
        response = await Rag().run(question=QUESTION)
        await postprocessor.aresult(response)
        return response

    assert asyncio.run(ask()).metadata["attribution"]["status"] == "complete"


def test_a_response_without_any_is_told(tiny_llm: HuggingFaceLLM) -> None:
    response = index_of().as_query_engine(llm=tiny_llm).query(QUESTION)
    with pytest.raises(InvalidInput, match="no AttributionPostprocessor was among"):
        AttributionPostprocessor().result(response)
