"""Attribution that comes after its answer: in the background, streamed, stopped."""

import asyncio
import threading
from typing import Any

import pytest
from conftest import EXACT, QUESTION, index_of, llm_of
from llama_index.core.query_engine import BaseQueryEngine
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributedQueryEngine, AttributionPostprocessor
from support.patience import scaled

from attribot_rag import LanguageModel, LeaveOneOut
from attribot_rag.runtime import AttributedRun


class Held(LeaveOneOut):
    """Begins to score when it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.allowed = threading.Event()

    def run(self, scorer: Any) -> Any:
        self.begun.set()
        assert self.allowed.wait(scaled(60))
        return super().run(scorer)


def engine_of(
    llm: HuggingFaceLLM, postprocessor: AttributionPostprocessor, **options: Any
) -> BaseQueryEngine:
    return index_of().as_query_engine(llm=llm, node_postprocessors=[postprocessor], **options)


def status(response: Any) -> str:
    found: str = response.metadata["attribution"]["status"]
    return found


@pytest.mark.slow
def test_the_answer_comes_before_its_attribution(tiny_llm: HuggingFaceLLM) -> None:
    gate, runs = Held(), list[AttributedRun]()
    postprocessor = AttributionPostprocessor(
        method=gate, mode="background", on_result=runs.append, verdicts=None
    )
    response = engine_of(tiny_llm, postprocessor).query(QUESTION)
    assert status(response) == "pending"
    with pytest.raises(TimeoutError):
        postprocessor.result(response, timeout=0.01)
    gate.allowed.set()
    run = postprocessor.result(response, timeout=scaled(60))
    assert status(response) == "complete"
    assert runs == [run]
    inline = engine_of(tiny_llm, AttributionPostprocessor(**EXACT)).query(QUESTION)
    assert inline.response == response.response
    assert inline.metadata["attribution"]["sources"] == response.metadata["attribution"]["sources"]


@pytest.mark.parametrize("mode", ["inline", "background"])
def test_scoring_does_not_block_the_event_loop(tiny_llm: HuggingFaceLLM, mode: Any) -> None:
    gate = Held()
    postprocessor = AttributionPostprocessor(method=gate, mode=mode, verdicts=None)

    async def ask() -> Any:
        response = await engine_of(tiny_llm, postprocessor).aquery(QUESTION)
        assert await asyncio.to_thread(gate.begun.wait, 60)
        assert status(response) == "pending"  # and here other tasks have their turn
        gate.allowed.set()
        await postprocessor.aresult(response, timeout=scaled(60))
        return response

    assert status(asyncio.run(ask())) == "complete"


def test_an_awaited_engine_lets_others_run(tiny_llm: HuggingFaceLLM) -> None:
    gate = Held()
    engine = AttributedQueryEngine(
        index_of().as_query_engine(llm=tiny_llm), method=gate, verdicts=None
    )

    async def ask() -> Any:
        asked = asyncio.create_task(engine.aquery(QUESTION))
        assert await asyncio.to_thread(gate.begun.wait, 60)
        assert not asked.done()
        gate.allowed.set()
        return await asked

    assert status(asyncio.run(ask())) == "complete"


def test_a_full_queue_is_told_and_breaks_nothing(
    tiny_llm: HuggingFaceLLM, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Held()
    postprocessor = AttributionPostprocessor(
        method=gate, mode="background", max_pending=2, verdicts=None
    )
    engine = engine_of(tiny_llm, postprocessor)
    responses = [engine.query(QUESTION)]
    assert gate.begun.wait(scaled(60))
    responses += [engine.query(QUESTION) for _ in range(2)]
    gate.allowed.set()
    for response in responses:
        postprocessor.result(response, timeout=scaled(60))
    assert [status(response) for response in responses] == ["complete", "complete", "error"]
    assert responses[2].metadata["attribution"]["error"]["type"] == "QueueFull"
    assert "no attribution" in caplog.text


def test_a_stopped_answer_is_attributed_as_far_as_it_was_shown(tiny: LanguageModel) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    llm = llm_of(tiny, max_new_tokens=200)
    response = engine_of(llm, postprocessor, streaming=True).query(QUESTION)
    shown = ""
    for piece in response.response_gen:
        shown += piece
        if len(shown.split()) > 3:
            break
    response.response_gen.close()
    attribution = postprocessor.result(response, timeout=scaled(120)).attribution
    assert attribution is not None
    assert attribution.response == shown
    assert len(attribution.token_spans) < 100
    assert status(response) == "complete"


@pytest.mark.parametrize("cancelled", [False, True])
def test_an_asynchronous_one_too(tiny: LanguageModel, cancelled: bool) -> None:
    postprocessor = AttributionPostprocessor(**EXACT)
    llm = llm_of(tiny, max_new_tokens=200)
    engine = engine_of(llm, postprocessor, streaming=True)

    async def ask() -> tuple[Any, str]:
        response: Any = await engine.aquery(QUESTION)
        shown: list[str] = []
        enough = asyncio.Event()

        async def read() -> None:
            async for piece in response.response_gen:
                shown.append(piece)
                if len("".join(shown).split()) > 3:
                    enough.set()
                    if not cancelled:
                        return
                    await asyncio.sleep(60)

        reading = asyncio.create_task(read())
        await enough.wait()
        reading.cancel() if cancelled else await reading
        await asyncio.gather(reading, return_exceptions=True)
        await response.response_gen.aclose()
        await postprocessor.aresult(response, timeout=scaled(120))
        return response, "".join(shown)

    response, shown = asyncio.run(ask())
    attribution = postprocessor.result(response).attribution
    assert attribution is not None
    assert attribution.response == shown


def test_the_model_answers_again_without_a_node(tiny_llm: HuggingFaceLLM) -> None:
    postprocessor = AttributionPostprocessor(mode="background", **EXACT)
    response = engine_of(tiny_llm, postprocessor).query(QUESTION)
    without = postprocessor.answer_without(response, 0)
    assert without.documents == (0,)
    assert without.exact
    assert without.response
    assert "(max_new_tokens)" in without.notes[-1]  # as the first answer was asked for
