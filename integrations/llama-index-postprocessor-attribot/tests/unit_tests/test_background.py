"""Attribution that comes after its answer: in the background, streamed, stopped."""

import asyncio
from typing import Any

import pytest
from conftest import QUESTION, LocalLLM, Postprocessor, summary_of
from engines import engine_of, index_of, llm_of
from llama_index.postprocessor.attribot import AttributedQueryEngine, AttributionPostprocessor
from support.patience import scaled
from support.stubborn_methods import WaitingMethod
from support.summaries import EXACT, attribution_of

from attribot_rag import LocalModel


def test_scoring_does_not_block_the_event_loop(tiny_llm: LocalLLM) -> None:
    gate = WaitingMethod()
    postprocessor = AttributionPostprocessor(method=gate, verdicts=None)

    async def ask() -> Any:
        response = await engine_of(tiny_llm, postprocessor).aquery(QUESTION)
        assert await asyncio.to_thread(gate.begun.wait, 60)
        summary_of(response, "pending")  # and here other tasks have their turn
        gate.allowed.set()
        await postprocessor.aresult(response, timeout=scaled(60))
        return response

    summary_of(asyncio.run(ask()))


def test_awaited_queries_are_attributed_whatever_the_queue_may_hold(tiny_llm: LocalLLM) -> None:
    engine = AttributedQueryEngine(index_of().as_query_engine(llm=tiny_llm), max_pending=1, **EXACT)

    async def ask() -> list[Any]:
        return await asyncio.gather(*(engine.aquery(QUESTION) for _ in range(4)))

    for response in asyncio.run(ask()):
        summary_of(response)


@pytest.fixture
def long(tiny: LocalModel, postprocessor: Postprocessor) -> Any:
    """Streams an answer that nobody reads to its end."""
    return engine_of(llm_of(tiny, max_new_tokens=200), postprocessor, streaming=True)


def test_a_stopped_answer_is_attributed_as_far_as_it_was_shown(
    long: Any, postprocessor: Postprocessor
) -> None:
    response = long.query(QUESTION)
    shown = ""
    for piece in response.response_gen:
        shown += piece
        if len(shown.split()) > 3:
            break
    response.response_gen.close()
    attribution = attribution_of(postprocessor.result(response, timeout=scaled(120)))
    assert attribution.response == shown
    assert len(attribution.token_spans) < 100
    summary_of(response)


def test_a_cancelled_asynchronous_answer_too(long: Any, postprocessor: Postprocessor) -> None:
    async def ask() -> None:
        response: Any = await long.aquery(QUESTION)
        shown: list[str] = []
        enough = asyncio.Event()

        async def read() -> None:
            async for piece in response.response_gen:
                shown.append(piece)
                if len("".join(shown).split()) > 3:
                    enough.set()
                    await asyncio.sleep(60)

        reading = asyncio.create_task(read())
        await enough.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await response.response_gen.aclose()
        run = await postprocessor.aresult(response, timeout=scaled(120))
        assert attribution_of(run).response == "".join(shown)

    asyncio.run(ask())


def test_the_model_answers_again_without_a_node(tiny_llm: LocalLLM) -> None:
    postprocessor = AttributionPostprocessor(mode="background", **EXACT)
    response = engine_of(tiny_llm, postprocessor).query(QUESTION)
    without = postprocessor.answer_without(response, 0)
    assert without.documents == (0,)
    assert without.exact
    assert without.response
    assert "max_new_tokens" in without.notes[-1]  # as the first answer was asked for
