"""Turns of clients, in the queue itself and in a running service."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from support.patience import scaled
from support.service_process import LONG, REQUEST

from attribot_rag.errors import QueueFull
from attribot_server.fair_queue import FairQueue, ServiceStopping

logger = logging.getLogger(__name__)
pytestmark = pytest.mark.anyio

HOSTILE, SMALL = ({"Authorization": f"Bearer {token}"} for token in ("hostile", "small"))
SENTENCES = [f"Ferry {number}." for number in range(200)]
LARGE = {"prompt": " ".join(SENTENCES), "response": "84.", "documents": SENTENCES}


class Crowd:
    """Requests of several clients behind one that runs until `opened`."""

    def __init__(self, max_requests: int = 100, at_once: int = 1) -> None:
        self.queue = FairQueue(max_requests, at_once=at_once)
        self.begun: list[str] = []
        self.served: list[str] = []
        self.opened = threading.Event()

    async def enter(self, *names: str) -> list[asyncio.Task[None]]:
        """One request for each name, whose first letter is the client."""
        tasks = []
        for name in names:
            tasks.append(asyncio.create_task(self.queue.run(name[0], self._task(name))))
            await asyncio.sleep(0)
        return tasks

    def _task(self, name: str) -> Callable[[], None]:
        def task() -> None:
            self.begun.append(name)
            assert self.opened.wait(scaled(60))
            self.served.append(name)

        return task


async def test_clients_take_turns() -> None:
    crowd = Crowd()
    tasks = await crowd.enter("a1", "a2", "a3", "b1", "c1", "b2")
    assert [place.before for place in crowd.queue.places("a")] == [3, 5]
    assert [place.before for place in crowd.queue.places("b")] == [1, 4]
    crowd.opened.set()
    await asyncio.gather(*tasks)
    assert crowd.served == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert len(crowd.queue) == 0
    assert crowd.queue.places("a") == []


async def begun(crowd: Crowd, count: int) -> list[str]:
    limit = time.monotonic() + scaled(60)
    while len(crowd.begun) < count:
        assert time.monotonic() < limit
        await asyncio.sleep(0.01)
    return sorted(crowd.begun)


async def test_requests_of_several_clients_run_at_once() -> None:
    crowd = Crowd(at_once=2)
    tasks = await crowd.enter("a1", "a2", "b1", "c1", "b2")
    assert [place.before for place in crowd.queue.places("c")] == [2]
    assert [place.before for place in crowd.queue.places("a")] == [3]
    assert await begun(crowd, 2) == ["a1", "b1"]
    crowd.opened.set()
    await asyncio.gather(*tasks)
    assert sorted(crowd.served) == ["a1", "a2", "b1", "b2", "c1"]


async def test_a_client_has_half_of_the_places_and_those_with_fewer_at_work_are_next() -> None:
    crowd = Crowd(at_once=4)
    tasks = await crowd.enter("a1", "a2", "a3", "a4")
    assert await begun(crowd, 2) == ["a1", "a2"]
    tasks += await crowd.enter("b1", "b2", "c1")
    assert await begun(crowd, 4) == ["a1", "a2", "b1", "b2"]
    assert [place.before for place in crowd.queue.places("c")] == [4]
    crowd.opened.set()
    await asyncio.gather(*tasks)
    assert crowd.begun[4] == "c1"


class Steps:
    """Work of several steps, each of which waits for `go`; `done` counts them."""

    def __init__(self, queue: FairQueue) -> None:
        self._queue = queue
        self.go = threading.Semaphore(0)
        self.done = 0
        self.ended = threading.Event()

    def __call__(self) -> None:
        try:
            while True:
                assert self.go.acquire(timeout=scaled(60))
                self._queue.step()
                self.done += 1
        finally:
            self.ended.set()


@pytest.mark.parametrize("ending", ["cancel", "abort"])
async def test_work_that_nobody_waits_for_ends_at_its_next_step(ending: str) -> None:
    queue = FairQueue(4, at_once=1)
    steps = Steps(queue)
    task = asyncio.create_task(queue.run("a", steps))
    steps.go.release()
    while not steps.done:
        await asyncio.sleep(0.01)
    if ending == "cancel":
        task.cancel()
    else:
        queue.abort()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError | ServiceStopping)
    steps.go.release(9)
    assert await asyncio.to_thread(steps.ended.wait, scaled(60))
    assert steps.done == 1
    while len(queue):
        await asyncio.sleep(0.01)
    assert await asyncio.to_thread(queue.has_ended, scaled(60))


async def test_a_request_without_a_step_is_stalled_until_it_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = FairQueue(4, at_once=1, stall_seconds=0.2)
    steps = Steps(queue)
    task = asyncio.create_task(queue.run("a", steps))
    while not caplog.records:
        await asyncio.sleep(0.01)
    assert queue.num_stalled == 1
    assert "request of 'a'" in caplog.text
    assert "self.go.acquire(timeout=scaled(60))" in caplog.text  # where it stands
    steps.go.release()
    while queue.num_stalled:
        steps.go.release()
        await asyncio.sleep(0.01)
    task.cancel()
    steps.go.release()
    assert await asyncio.to_thread(steps.ended.wait, scaled(60))


async def test_a_full_queue_makes_room_for_a_client_with_fewer_requests() -> None:
    crowd = Crowd(max_requests=3)
    *tasks, dropped = await crowd.enter("a1", "a2", "a3")
    with pytest.raises(QueueFull, match=r"it takes 3.*try again in 5 s"):
        await crowd.queue.run("a", print)
    tasks += await crowd.enter("b1")
    with pytest.raises(QueueFull, match="another client has fewer"):
        await dropped
    with pytest.raises(QueueFull, match="it takes 3"):  # b would have as many as a
        await crowd.queue.run("b", print)
    crowd.opened.set()
    await asyncio.gather(*tasks)
    assert crowd.served == ["a1", "b1", "a2"]


async def test_a_client_that_leaves_is_not_served() -> None:
    crowd = Crowd()
    running, waiting, last = await crowd.enter("a1", "a2", "b1")
    waiting.cancel()
    running.cancel()
    await asyncio.gather(waiting, running, return_exceptions=True)
    assert len(crowd.queue) == 2  # a task that runs is finished
    crowd.opened.set()
    await last
    assert crowd.served == ["a1", "b1"]


async def test_a_closed_queue_finishes_what_runs() -> None:
    crowd = Crowd()
    running, waiting = await crowd.enter("a1", "b1")
    crowd.queue.close()
    with pytest.raises(ServiceStopping):
        await waiting
    with pytest.raises(ServiceStopping):
        await crowd.queue.run("b", print)
    crowd.opened.set()
    await running
    assert crowd.served == ["a1"]


async def until(holds: Callable[[dict[str, Any]], bool], client: httpx.AsyncClient) -> None:
    """Wait until this holds of the queue as a client sees it."""
    limit = time.monotonic() + scaled(60)
    while not holds((await client.get("/queue", headers=SMALL)).json()):
        assert time.monotonic() < limit
        await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_a_small_request_is_answered_while_a_hostile_client_s_large_one_runs(
    shared_service: str,
) -> None:
    """Six large requests wait or run from one client; the first is attributed for long."""
    async with httpx.AsyncClient(base_url=shared_service, timeout=scaled(120)) as client:

        async def seconds_of(request: dict[str, Any], headers: dict[str, str]) -> float:
            started = time.monotonic()
            answer = await client.post("/attribute", json=request, headers=headers)
            assert answer.status_code == 200, answer.text
            return time.monotonic() - started

        alone = [await seconds_of(REQUEST, SMALL) for _ in range(3)][-1]  # the first one warms up
        large = [asyncio.create_task(seconds_of(LARGE, HOSTILE)) for _ in range(6)]
        await until(lambda queue: queue["waiting"] == 6, client)
        beside = [await seconds_of(REQUEST, SMALL) for _ in range(3)]
        assert not any(task.done() for task in large)
        took = await large[0]
        for task in large[1:]:
            task.cancel()
    logger.info("alone %.2f s, beside %s of %.1f s", alone, [f"{s:.2f}" for s in beside], took)


@pytest.mark.long
@pytest.mark.slow
async def test_a_waiting_client_gets_its_own_places_only(two_clients: str) -> None:
    async with httpx.AsyncClient(base_url=two_clients, timeout=scaled(60)) as client:
        requests = [client.post("/ask", json=LONG, headers=HOSTILE) for _ in range(4)]
        many = [asyncio.create_task(request) for request in requests]
        await until(lambda queue: queue["waiting"] == 4, client)  # two of them are at work
        own = (await client.get("/queue", headers=HOSTILE)).json()
        other = (await client.get("/queue", headers=SMALL)).json()
        assert [place["before"] for place in own["places"]] == [2, 3]
        assert other["places"] == []
        for task in many:
            task.cancel()  # hangs up
        await until(lambda queue: queue["waiting"] == 0, client)
    assert httpx.get(f"{two_clients}/queue").status_code == 401


@pytest.mark.slow
async def test_a_refusal_says_when_to_come_back(two_clients: str) -> None:
    async with httpx.AsyncClient(base_url=two_clients, timeout=scaled(60)) as client:
        requests = (client.post("/ask", json=LONG, headers=HOSTILE) for _ in range(5))
        answers = await asyncio.gather(*requests)
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(refused) == 1
        assert int(refused[0].headers["Retry-After"]) > 0
