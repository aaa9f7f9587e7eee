"""Admits requests, gives clients turns, and watches running requests."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, zip_longest
from statistics import fmean
from typing import Any, TypeVar

from attribot_rag.errors import AttributionError, QueueFull
from attribot_server.requests import QueuePlace

Result = TypeVar("Result")

_NUM_DURATIONS = 20

logger = logging.getLogger(__name__)


class ServiceStopping(AttributionError):
    """The service is stopping, so it refuses new and waiting requests."""


@dataclass(eq=False)
class _Request:
    client: str
    task: Callable[[], Any]
    result: asyncio.Future[Any]
    began: float = field(default=0.0, init=False)
    stepped: float = field(default=0.0, init=False)  # when the last step of its work was done
    thread: int = field(default=0, init=False)


class FairQueue:
    """Gives clients turns, round robin. Each client's requests are served in their order.

    `at_once` requests run at the same time, each in a thread. No client has more than half of these
    places. At most `max_requests` wait or run, and as many of one client are received at once. If
    the queue is full, a client with fewer requests replaces the newest request of the client with
    most. Running work calls `step` as it goes on. If it does not for `stall_seconds`, it is
    stalled, and its stack is logged. For one event loop.
    """

    def __init__(self, max_requests: int, *, at_once: int, stall_seconds: float = 120.0) -> None:
        self._max_requests = max_requests
        self._at_once = at_once
        self._of_one_client = max(1, at_once // 2)
        self._stall_seconds = stall_seconds
        self._own = threading.local()
        self._num_received: Counter[str] = Counter()
        self._name = f"attribot-rag-{id(self):x}"  # of its threads, not of another queue's
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix=self._name)
        self._waiting: dict[str, deque[_Request]] = {}  # the client whose turn is next comes first
        self._running: list[_Request] = []
        self._durations: deque[float] = deque(maxlen=_NUM_DURATIONS)
        self._is_closed = False

    def __len__(self) -> int:
        """How many requests wait or run."""
        return sum(map(len, self._waiting.values())) + len(self._running)

    @contextmanager
    def admitted(self, client: str) -> Iterator[None]:
        """Admit a client's request, before its body is read.

        Raises QueueFull if there are too many.
        """
        if self._num_received[client] >= self._max_requests:
            raise self._full(f"you have {self._max_requests} requests here already")
        self._num_received[client] += 1
        try:
            yield
        finally:
            self._num_received[client] -= 1
            self._num_received += Counter()  # forgets clients without requests

    async def run(self, client: str, task: Callable[[], Result]) -> Result:
        """The task's result.

        If this is cancelled, the task does not begin, or ends at its next step.

        Raises QueueFull if there is no place or another client takes it, and ServiceStopping.
        """
        if self._is_closed:
            raise ServiceStopping("the service is stopping; ask again when it is back")
        if len(self) >= self._max_requests:
            self._make_room(client)
        request = _Request(client, task, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(client, deque()).append(request)
        self._start_next()
        try:
            return await request.result  # type: ignore[no-any-return]
        finally:
            if request in self._waiting.get(client, ()):
                self._remove(request)

    def step(self) -> None:
        """Record progress of a task.

        Raises ServiceStopping in it if nobody waits for its result.
        """
        request: _Request | None = getattr(self._own, "request", None)
        if request is None:
            return
        request.stepped = time.monotonic()
        if request.result.done():
            raise ServiceStopping("nobody waits for this request any more")

    @property
    def num_stalled(self) -> int:
        """How many running requests have made no progress for too long."""
        return sum(map(self._is_stalled, self._running))

    def places(self, client: str) -> list[QueuePlace]:
        """The places of a client's waiting requests, in the order in which they will be served."""
        return [
            QueuePlace(before=before, seconds=self._seconds_until(before))
            for before, request in enumerate(self._order(), start=len(self._running))
            if request.client == client
        ]

    @property
    def retry_after(self) -> int:
        """Seconds until a request is expected to leave the queue, or 5."""
        return max(1, round(self._seconds_until(1) or 0)) if self._durations else 5

    def close(self) -> None:
        """Refuse waiting and new requests; running ones finish."""
        self._is_closed = True
        for request in self._order():
            self._refuse(request, ServiceStopping("the service is stopping; it was not your turn"))

    def abort(self) -> None:
        """Close, and end the running requests at their next steps."""
        self.close()
        for request in self._running:
            if not request.result.done():
                message = "the service is stopping, and did not finish your request"
                request.result.set_exception(ServiceStopping(message))

    def has_ended(self, seconds: float) -> bool:
        """Wait for the threads, at most so many seconds. Returns whether all have ended."""
        self._threads.shutdown(wait=False)
        end = time.monotonic() + seconds
        for thread in threading.enumerate():
            if thread.name.startswith(f"{self._name}_"):
                thread.join(max(0.0, end - time.monotonic()))
                if thread.is_alive():
                    return False
        return True

    def _order(self) -> list[_Request]:
        rounds = zip_longest(*(self._waiting[client] for client in self._rotation()))
        return [request for request in chain.from_iterable(rounds) if request is not None]

    def _rotation(self) -> list[str]:
        """The waiting clients. Clients that are being served come last."""
        return sorted(self._waiting, key=self._num_running)

    def _num_running(self, client: str) -> int:
        return sum(request.client == client for request in self._running)

    def _seconds_until(self, num_served: int) -> float | None:
        if not self._durations:
            return None
        mean = fmean(self._durations)
        now = time.monotonic()
        done = sum(min(now - request.began, mean) for request in self._running)
        return max(0.0, num_served * mean - done)

    def _make_room(self, client: str) -> None:
        counts = Counter(request.client for request in self._running)
        counts.update({name: len(requests) for name, requests in self._waiting.items()})
        most = max(counts, key=counts.__getitem__)
        if counts[client] + 1 >= counts[most]:
            raise self._full(f"the queue is full (it takes {self._max_requests})")
        full = self._full("the queue is full, and another client has fewer requests in it")
        self._refuse(self._waiting[most][-1], full)

    def _full(self, reason: str) -> QueueFull:
        return QueueFull(f"{reason}; try again in {self.retry_after} s")

    def _refuse(self, request: _Request, error: Exception) -> None:
        self._remove(request)
        if not request.result.done():
            request.result.set_exception(error)

    def _remove(self, request: _Request) -> None:
        self._waiting[request.client].remove(request)
        if not self._waiting[request.client]:
            del self._waiting[request.client]

    def _to_the_end(self, client: str) -> None:
        if client in self._waiting:
            self._waiting[client] = self._waiting.pop(client)

    def _start_next(self) -> None:
        """Start queued requests while there are places, first of the clients with the fewest."""
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._running) < self._at_once:
            client = self._rotation()[0]
            if self._num_running(client) >= self._of_one_client:
                return
            request = self._waiting[client][0]
            self._remove(request)
            self._to_the_end(client)
            self._running.append(request)
            request.began = request.stepped = time.monotonic()
            done = loop.run_in_executor(self._threads, self._work, request)
            done.add_done_callback(partial(self._finish, request))
            loop.call_later(self._stall_seconds, self._watch, request)

    def _work(self, request: _Request) -> Any:
        request.thread = threading.get_ident()
        self._own.request = request
        try:
            self.step()
            return request.task()
        finally:
            self._own.request = None

    def _is_stalled(self, request: _Request) -> bool:
        return time.monotonic() - request.stepped >= self._stall_seconds

    def _watch(self, request: _Request, logged: float = 0.0) -> None:
        """Log a request that is stalled, once until it goes on."""
        if request not in self._running:
            return
        stepped = request.stepped
        still = time.monotonic() - stepped
        if still >= self._stall_seconds and stepped != logged:
            logged = stepped
            frame = sys._current_frames().get(request.thread)
            logger.error(
                "a request of %r has made no progress for %.0f seconds; it is at\n%s",
                request.client,
                still,
                "".join(traceback.format_stack(frame)) if frame else "its end",
            )
        rest = self._stall_seconds - (still if still < self._stall_seconds else 0.0)
        asyncio.get_running_loop().call_later(rest, self._watch, request, logged)

    def _finish(self, request: _Request, done: asyncio.Future[Any]) -> None:
        self._durations.append(time.monotonic() - request.began)
        self._running.remove(request)
        self._to_the_end(request.client)
        error = done.exception()
        if not request.result.done():  # else the client has gone
            if error is None:
                request.result.set_result(done.result())
            else:
                request.result.set_exception(error)
        self._start_next()
