"""HTTP with one server: many requests at once, retried, and given up at a deadline."""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, TypeVar
from uuid import uuid4

import httpx

from attribot_rag.errors import InvalidInput, Refused, Rejected, ServerFailed
from attribot_rag.model.forking import ForkSafe

KEY = "ATTRIBOT_RAG_SERVER_KEY"
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_REJECTED = frozenset({400, 413, 422})
_CONNECT_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds
_SHOWN = 200  # characters of a server's own words

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Options of the requests to a server; raises InvalidInput for another value.

    Args:
        concurrency: The most sequences under way at once, over all threads; a request holds up to
            half of them.
        timeout: Seconds after which a request is sent again, as it is after 429 or 5xx, or when the
            connection breaks.
        attempts: Times that a request is sent at most, with growing random pauses between.
        protocol: 'vllm', 'vllm-generate' or 'sglang'; by default that of the server, and of vLLM's
            two the faster one that it has.
        replica_header: A header that has the same value in all requests of an attribution, by which
            a router can send them to the replica whose prefix cache serves.
    """

    concurrency: int = 16
    timeout: float = 120.0
    attempts: int = 6
    protocol: Literal["vllm", "vllm-generate", "sglang"] | None = None
    replica_header: str | None = None

    def __post_init__(self) -> None:
        for name in ("concurrency", "timeout", "attempts"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name}={getattr(self, name)!r}; use more than 0")
        if self.protocol not in (None, "vllm", "vllm-generate", "sglang"):
            raise InvalidInput(
                f"protocol={self.protocol!r}; choose 'vllm', 'vllm-generate', 'sglang' or None"
            )


class NoAnswerInTime(ServerFailed):
    """The deadline came before the answers."""


class _Again(Exception):
    """A request that may succeed later, after a `pause` in seconds."""

    def __init__(self, problem: str, pause: float = 0.0) -> None:
        super().__init__(problem)
        self.pause = pause


_replica: ContextVar[str | None] = ContextVar("replica", default=None)


@contextmanager
def on_one_replica() -> Iterator[None]:
    """The requests within have the same value in the header by which replicas are chosen."""
    token = _replica.set(uuid4().hex)
    try:
        yield
    finally:
        _replica.reset(token)


class Client(ForkSafe):
    """Requests to one server, from any number of threads; all of them run in one event loop.

    The API key is read from the environment and only ever sent to this server.
    """

    def __init__(self, url: str, options: ServerOptions) -> None:
        self.url = _base(url)
        self.options = options
        super().__init__()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def ask(self, path: str, body: Any = None) -> Any:
        """The JSON that answers a body, or is at a path, asked for once; None where there is none.

        Raises ServerFailed if the server cannot be reached or refuses the key.
        """
        return self._run(self._try_once(path, body))

    def post(
        self,
        path: str,
        bodies: Sequence[Any],
        deadline: float | None = None,
        sizes: Sequence[int] | None = None,
    ) -> list[Any]:
        """The JSON that answers each body, in their order.

        `sizes` are the numbers of sequences that they hold, 1 by default, at most `concurrency`.
        `deadline` is a time of `time.perf_counter`: then, and if the caller is interrupted, what is
        under way is cancelled. Raises NoAnswerInTime, and ServerFailed for a request that failed
        for good, after which the others are cancelled.
        """
        replica, name = _replica.get(), self.options.replica_header
        headers = {name: replica} if name and replica else {}
        sizes = [1] * len(bodies) if sizes is None else sizes
        return self._run(self._post_all(path, bodies, sizes, deadline, headers))

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of this client's thread."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._http = self._connections()
                self._turns = asyncio.Semaphore(self.options.concurrency)
                self._next = asyncio.Lock()
                threading.Thread(
                    target=_run_until_stopped,
                    args=(self._loop, self._http),
                    name="attribot-rag server",
                    daemon=True,
                ).start()
                weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)
            return self._loop

    def _connections(self) -> httpx.AsyncClient:
        most = self.options.concurrency
        key = os.environ.get(KEY)
        return httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
            timeout=httpx.Timeout(self.options.timeout, connect=_CONNECT_SECONDS, pool=None),
        )

    async def _try_once(self, path: str, body: Any) -> Any:
        try:
            return await self._send(path, body, {})
        except _Again as error:
            raise ServerFailed(f"the server at {self.url} {error}") from error

    async def _post_all(
        self,
        path: str,
        bodies: Sequence[Any],
        sizes: Sequence[int],
        deadline: float | None,
        headers: dict[str, str],
    ) -> Any:
        tasks = [
            asyncio.ensure_future(self._persist(path, body, size, headers))
            for body, size in zip(bodies, sizes, strict=True)
        ]
        seconds = None if deadline is None else max(0.0, deadline - time.perf_counter())
        try:
            return await asyncio.wait_for(asyncio.gather(*tasks), seconds)
        except asyncio.TimeoutError as error:
            raise NoAnswerInTime(f"the server at {self.url} has not answered in time") from error
        finally:
            for task in tasks:
                task.cancel()

    async def _persist(self, path: str, body: Any, size: int, headers: dict[str, str]) -> Any:
        for attempt in count():
            try:
                answer = await self._send(path, body, headers, size)
                break
            except _Again as error:
                if attempt + 1 >= self.options.attempts:
                    raise ServerFailed(
                        f"the server at {self.url} {error} (attempt {attempt + 1} at {path})"
                    ) from error
                longest = min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE)
                await asyncio.sleep(max(error.pause, random.uniform(0, longest)))
        if answer is None:
            raise Refused(f"the server at {self.url} has no {path}")
        return answer

    @asynccontextmanager
    async def _turn(self, size: int) -> AsyncIterator[None]:
        """The block of a request, once it holds so many of the turns."""
        taken = 0
        try:
            async with self._next:  # who waits for several turns keeps them from no one else
                while taken < size:
                    await self._turns.acquire()
                    taken += 1
            yield
        finally:
            for _ in range(taken):
                self._turns.release()

    async def _send(self, path: str, body: Any, headers: dict[str, str], size: int = 1) -> Any:
        """The JSON of the answer, None for 404 and 405; raises _Again and ServerFailed.

        In the order of asking, which httpx's pool of connections does not keep.
        """
        method = "GET" if body is None else "POST"
        try:
            async with self._turn(size):
                response = await self._http.request(method, path, json=body, headers=headers)
        except httpx.TransportError as error:
            raise _Again(f"did not answer ({type(error).__name__}: {error})") from error
        status = response.status_code
        if status in (404, 405):
            return None
        problem = f"answered {status}: {response.text[:_SHOWN]}"
        if status in _AGAIN:
            raise _Again(problem, _retry_after(response))
        if status in (401, 403):
            raise ServerFailed(f"the server at {self.url} {problem}; put its API key into {KEY}")
        if not response.is_success:
            kind = Rejected if status in _REJECTED else Refused
            raise kind(f"the server at {self.url} {problem} ({method} {path})")
        try:
            return response.json()
        except json.JSONDecodeError as error:
            raise ServerFailed(
                f"the server at {self.url} answered {path} with no JSON: {response.text[:_SHOWN]}"
            ) from error


def _run_until_stopped(loop: asyncio.AbstractEventLoop, http: httpx.AsyncClient) -> None:
    loop.run_forever()
    loop.run_until_complete(http.aclose())
    loop.close()


def _retry_after(response: httpx.Response) -> float:
    """The Retry-After header in seconds, if it is a number of them."""
    seconds = response.headers.get("retry-after", "")
    return min(float(seconds), _LONGEST_PAUSE) if seconds.isdecimal() else 0.0


def _base(url: str) -> str:
    """The URL without the `/v1` that OpenAI's clients need."""
    invalid = InvalidInput(f"{url!r} is not the URL of a server; pass http://HOST:PORT")
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise invalid from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise invalid
    if parsed.userinfo:
        raise InvalidInput(f"the URL of a server holds no user or password; put a key into {KEY}")
    return str(parsed.copy_with(query=None, fragment=None)).rstrip("/").removesuffix("/v1")
