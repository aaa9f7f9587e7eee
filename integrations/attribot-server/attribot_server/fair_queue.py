"""Admission of requests, and turns of clients: one request of each at a time."""

from __future__ import annotations

import asyncio
import time
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
from attribot_server.request_models import QueuePlace

Result = TypeVar("Result")

_NUM_DURATIONS = 20


class ServiceStopping(AttributionError):
    """A request that came, or still waited, when the service was told to stop."""


@dataclass(eq=False)
class _Request:
    client: str
    task: Callable[[], Any]
    result: asyncio.Future[Any]
    began: float = field(default=0.0, init=False)


class FairQueue:
    """Clients take turns, round robin; each client's requests are served in their order.

    The requests of `at_once` clients are worked on at the same time, each in a thread, and one of a
    client. At most `max_requests` wait or are worked on, and as many of a client's are received at
    once. If the queue is full, a client with fewer requests replaces the newest request of the
    client with most. For one event loop.
    """

    def __init__(self, max_requests: int, *, at_once: int) -> None:
        self._max_requests = max_requests
        self._at_once = at_once
        self._num_received: Counter[str] = Counter()
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="attribot-rag")
        self._waiting: dict[str, deque[_Request]] = {}  # the client whose turn is next comes first
        self._running: dict[str, _Request] = {}
        self._durations: deque[float] = deque(maxlen=_NUM_DURATIONS)
        self._is_closed = False

    def __len__(self) -> int:
        """The number of waiting and running requests."""
        return sum(map(len, self._waiting.values())) + len(self._running)

    @contextmanager
    def admitted(self, client: str) -> Iterator[None]:
        """A client's request, from before its body is read; raises QueueFull for one too many."""
        if self._num_received[client] >= self._max_requests:
            raise QueueFull(f"you have {self._max_requests} requests here already; try again later")
        self._num_received[client] += 1
        try:
            yield
        finally:
            self._num_received[client] -= 1
            self._num_received += Counter()  # forgets clients without requests

    async def run(self, client: str, task: Callable[[], Result]) -> Result:
        """The task's result; if this is cancelled, a task that waits does not run.

        Raises QueueFull if there is no place, or another client takes it, and ServiceStopping.
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

    def places(self, client: str) -> list[QueuePlace]:
        """The places of a client's waiting requests, in the order of their service."""
        return [
            QueuePlace(before=before, seconds=self._seconds_until(before))
            for before, request in enumerate(self._order(), start=len(self._running))
            if request.client == client
        ]

    @property
    def retry_after(self) -> int:
        """Seconds until a request will have left the queue, 5 if nothing tells."""
        return max(1, round(self._seconds_until(1) or 0)) if self._durations else 5

    def close(self) -> None:
        """Refuse waiting and new requests; running ones finish."""
        self._is_closed = True
        for request in self._order():
            self._refuse(request, ServiceStopping("the service is stopping; it was not your turn"))

    def _order(self) -> list[_Request]:
        rounds = zip_longest(*(self._waiting[client] for client in self._rotation()))
        return [request for request in chain.from_iterable(rounds) if request is not None]

    def _rotation(self) -> list[str]:
        """The waiting clients; clients that are being served come last."""
        return sorted(self._waiting, key=self._running.__contains__)

    def _seconds_until(self, num_served: int) -> float | None:
        if not self._durations:
            return None
        mean = fmean(self._durations)
        now = time.monotonic()
        done = sum(min(now - request.began, mean) for request in self._running.values())
        return max(0.0, num_served * mean - done)

    def _make_room(self, client: str) -> None:
        counts = Counter(self._running.keys())
        counts.update({name: len(requests) for name, requests in self._waiting.items()})
        most = max(counts, key=counts.__getitem__)
        if counts[client] + 1 >= counts[most]:
            raise QueueFull(f"the queue is full (it takes {self._max_requests}); try again later")
        message = "the queue is full, and another client has fewer requests in it; try again later"
        self._refuse(self._waiting[most][-1], QueueFull(message))

    def _refuse(self, request: _Request, error: Exception) -> None:
        self._remove(request)
        if not request.result.done():
            request.result.set_exception(error)

    def _remove(self, request: _Request) -> None:
        self._waiting[request.client].remove(request)
        if not self._waiting[request.client]:
            del self._waiting[request.client]

    def _start_next(self) -> None:
        """Start queued requests while threads are free, a client at a time."""
        for client in self._rotation():
            if client in self._running or len(self._running) == self._at_once:
                return
            request = self._waiting[client][0]
            self._remove(request)
            self._running[client] = request
            request.began = time.monotonic()
            done = asyncio.get_running_loop().run_in_executor(self._threads, request.task)
            done.add_done_callback(partial(self._finish, request))

    def _finish(self, request: _Request, done: asyncio.Future[Any]) -> None:
        self._durations.append(time.monotonic() - request.began)
        del self._running[request.client]
        if request.client in self._waiting:  # to the end
            self._waiting[request.client] = self._waiting.pop(request.client)
        error = done.exception()
        if not request.result.done():  # else the client has gone
            if error is None:
                request.result.set_result(done.result())
            else:
                request.result.set_exception(error)
        self._start_next()
