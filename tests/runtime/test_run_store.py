"""The runs that are kept, the callers that wait for them, and the errors of runs that ended."""

import asyncio
import pickle
import threading
from concurrent.futures import Future

import pytest
from support.attributions import ISLAND
from support.scripted_generation import ANSWER, DOCUMENTS, QUESTION, rendered, say
from support.tiny_models import byte_level

from attribot_rag import Document
from attribot_rag.errors import DocumentsNotLocated, InvalidInput, NotRecorded
from attribot_rag.runtime import (
    Answer,
    AttributedRun,
    AttributionService,
    RunStore,
    answer_without,
)

PENDING = AttributedRun("run", "root", Answer("It is old."), is_pending=True)
FINISHED = AttributedRun("run", "root", Answer("It is old."), ISLAND)


def test_as_many_runs_are_kept_as_were_asked_for() -> None:
    store = RunStore(max_results=2)
    for number in range(4):
        store.add(AttributedRun(f"run {number}", f"root {number}", Answer(""), ISLAND))
    assert list(store) == ["run 2", "run 3"]
    assert [f"root {number}" in store for number in range(4)] == [False, False, True, True]
    with pytest.raises(
        InvalidInput, match="no attribution of the run root 0: it retrieved nothing"
    ):
        store.wait("root 0")


def test_the_runs_of_a_root_and_of_the_keys_of_its_output() -> None:
    store = RunStore()
    first = Answer("It is old.", DOCUMENTS)
    made = [
        AttributedRun("left", "root", first, ISLAND),
        AttributedRun("other", "another root", first, ISLAND),
        AttributedRun("right", "root", first, ISLAND),
        AttributedRun("whole", "root", Answer("Old.", [Document("It is old.", "left")]), ISLAND),
        AttributedRun("grade", "root", Answer("yes"), error=DocumentsNotLocated("none")),
    ]
    for run in made:
        store.add(run)
    assert store.of_root("root") == (made[0], made[2], made[3], made[4])
    assert store.of_root("no root") == ()
    every = ["left", "right", "whole", "grade"]
    texts = {"a": "It is old.", "b": "It is old.", "c": "yes", "d": "no"}
    branches = {"a": ["left"], "b": every, "c": every, "d": every}
    assert store.by_key(texts, branches) == {"a": made[0], "b": made[2]}
    texts, branches = {"draft": "It is old.", "final": "Old."}, {"draft": ["left"], "final": every}
    assert store.by_key(texts, branches) == {"final": made[3]}


def test_a_run_holds_no_model_and_is_short_to_read() -> None:
    bound = threading.Lock()  # as what asks a model again, which cannot be pickled
    answer = Answer("It is old. " * 99, DOCUMENTS, ask=lambda prompt: str(bound))
    run = AttributedRun("run", "root", answer, ISLAND)
    again = pickle.loads(pickle.dumps(run))
    assert again.summary == run.summary and again.answer.ask is None
    assert "run" in repr(run) and len(repr(run)) < 200
    assert callable(answer.ask)  # the run itself is as it was


def test_a_run_is_waited_for_and_the_event_loop_goes_on_meanwhile() -> None:
    store, ended = RunStore(), Future[AttributedRun]()
    store.expect(PENDING, lambda: ended)
    with pytest.raises(TimeoutError):
        store.wait("run", timeout=0.01)

    async def ask() -> AttributedRun:
        with pytest.raises(asyncio.TimeoutError):
            await store.wait_async("root", timeout=0.01)
        waiting = asyncio.create_task(store.wait_async("root"))
        await asyncio.sleep(0)
        assert not waiting.done()
        ended.set_result(store.add(FINISHED))
        assert await waiting is await store.wait_async("run")
        with pytest.raises(InvalidInput, match="no attribution of the run other"):
            await store.wait_async("other")
        return await waiting

    assert asyncio.run(ask()) is store.wait("run") is store.last
    assert store.num_pending == 0


def test_a_run_without_attribution_is_not_answered_again() -> None:
    failed = AttributedRun("run", "root", Answer("It is old."), error=ValueError("it broke"))
    with pytest.raises(NotRecorded, match="the run run has no attribution: it broke"):
        answer_without([], failed, 0)


def test_a_listener_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(run: AttributedRun) -> None:
        raise OSError("the page is gone")

    model = byte_level()
    service = AttributionService(model, on_result=broken, method="leave_one_out")
    say(model, [rendered(model)], [ANSWER])
    run = service.attribute("run", "root", Answer(ANSWER, DOCUMENTS, [QUESTION]))
    service.close()
    assert run.attribution is not None
    assert "on_result failed for the run run" in caplog.text
    assert "the page is gone" in caplog.text
