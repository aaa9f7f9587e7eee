"""HTTP requests to a server of models, and the forms of its requests and replies."""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
import weakref
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import BytesIO
from itertools import count
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar
from uuid import uuid4

import httpx
import numpy as np

from attribot_rag.errors import InvalidInput, Refused, Rejected, ServerFailed
from attribot_rag.model.threads import ForkSafe

KEY = "ATTRIBOT_RAG_SERVER_KEY"
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_REJECTED = frozenset({400, 413, 422})
_CONNECT_SECONDS = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds
_SHOWN = 200  # characters of a server's message

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Options of the requests to a server. Raises InvalidInput for other values.

    Args:
        concurrency: The most sequences in requests at once, over all threads. A request has up to
            half of them.
        timeout: Seconds after which a request is sent again. This also happens after 429 or 5xx, or
            when the connection breaks.
        attempts: How often a request is sent at most, with growing random pauses.
        protocol: 'vllm', 'vllm-generate' or 'sglang'. By default it is detected; with vLLM, the
            faster one that it has.
        replica_header: A header with the same value in all requests of an attribution. A router can
            use it to send them to one replica, which has their prefix in its cache.
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
    """The deadline passed before the answers arrived."""


class _Again(Exception):
    """A request that may succeed later, after a `pause` in seconds."""

    def __init__(self, problem: str, pause: float = 0.0) -> None:
        super().__init__(problem)
        self.pause = pause


_replica: ContextVar[str | None] = ContextVar("replica", default=None)


@contextmanager
def on_one_replica() -> Iterator[None]:
    """All requests within the block have the same value in the replica header."""
    token = _replica.set(uuid4().hex)
    try:
        yield
    finally:
        _replica.reset(token)


class Client(ForkSafe):
    """Requests to one server, from any number of threads. All run in one event loop.

    The API key is read from the environment, and only sent to this server.
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
        """The JSON reply to a body, or at a path, requested once; None if there is none.

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
        """The JSON reply to each body, in order.

        `sizes` are the numbers of sequences in the bodies, by default 1, at most `concurrency`.
        `deadline` is a time of `time.perf_counter`. After it, and if the caller is interrupted,
        running requests are cancelled. Raises NoAnswerInTime, and ServerFailed when a request fails
        for good; the others are then cancelled.
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
        """The block of a request, which begins when it holds enough turns."""
        taken = 0
        try:
            async with self._next:  # only one request at a time collects turns
                while taken < size:
                    await self._turns.acquire()
                    taken += 1
            yield
        finally:
            for _ in range(taken):
                self._turns.release()

    async def _send(self, path: str, body: Any, headers: dict[str, str], size: int = 1) -> Any:
        """The JSON of the reply; None for 404 and 405. Raises _Again and ServerFailed.

        Requests keep their order, which httpx's connection pool does not guarantee.
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
    """The Retry-After header in seconds, if it is a number."""
    seconds = response.headers.get("retry-after", "")
    return min(float(seconds), _LONGEST_PAUSE) if seconds.isdecimal() else 0.0


def _base(url: str) -> str:
    """The URL without the `/v1` for OpenAI's clients."""
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


_OTHER_TOKENS = "{} gave log-probabilities of other tokens than it was given"


class ScoredSequence(NamedTuple):
    """Log-probabilities of the last tokens of a sequence, in nats.

    `num_tokens` tokens went through the model for them.
    """

    log_probabilities: tuple[float, ...]
    num_tokens: int


class ServedAnswer(NamedTuple):
    """An answer: its ids if the server gives them, its text, and whether it was cut."""

    ids: tuple[int, ...] | None
    text: str
    is_cut: bool


class Protocol(ABC):
    """An endpoint of a server, with the form of its requests and replies.

    `reads_cache` says that the common beginning of sequences is encoded once, as far as the
    server's prefix cache has it. `refuses_lists` says that the server took no list of sequences.
    """

    name: ClassVar[str]
    path: ClassVar[str]
    reads_cache: ClassVar[bool]
    refuses_lists: bool = False

    def __init__(self, model: str) -> None:
        self.model = model

    @abstractmethod
    def scoring(self, token_ids: Sequence[int], num_scored: int) -> dict[str, Any]:
        """The request for the log-probabilities of the last tokens of a sequence."""

    def uncached(self, scoring: dict[str, Any]) -> dict[str, Any] | None:
        """The request without the prefix cache; None if replies have all tokens with it."""
        return None

    def joined(self, scorings: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """One request for several sequences; None if the endpoint takes only one."""
        return None

    def parted(self, answer: Any, scorings: Sequence[dict[str, Any]]) -> list[Any]:
        """The reply to each joined request, in order.

        Raises LookupError or TypeError if one is missing, or belongs to another request.
        """
        return [answer]

    @abstractmethod
    def scored(
        self, answer: Any, token_ids: Sequence[int], num_scored: int
    ) -> ScoredSequence | None:
        """The prompt's log-probabilities, or None. Raises ServerFailed for other tokens."""

    @abstractmethod
    def completing(
        self, prompt_ids: Sequence[int], max_new_tokens: int, options: dict[str, Any]
    ) -> dict[str, Any]:
        """The request for an answer. `options` go to the server's sampling unchanged."""

    @abstractmethod
    def completion(self, answer: Any) -> ServedAnswer:
        """The answer in a reply."""


class VllmCompletions(Protocol):
    """Any vLLM: OpenAI's completions with vLLM's `prompt_logprobs`.

    vLLM encodes the whole prompt for it, and generates one token that nobody needs.
    """

    name = "vllm"
    path = "/v1/completions"
    reads_cache = False

    def scoring(self, token_ids: Sequence[int], num_scored: int) -> dict[str, Any]:
        return self._asking(token_ids, 1, prompt_logprobs=0)

    def joined(self, scorings: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {**scorings[0], "prompt": [scoring["prompt"] for scoring in scorings]}

    def parted(self, answer: Any, scorings: Sequence[dict[str, Any]]) -> list[Any]:
        choices = {choice["index"]: choice for choice in answer["choices"]}
        return [{"choices": [choices[index]]} for index in range(len(scorings))]

    def scored(
        self, answer: Any, token_ids: Sequence[int], num_scored: int
    ) -> ScoredSequence | None:
        positions = answer["choices"][0].get("prompt_logprobs")
        if not positions:
            return None
        pairs = zip(positions[-num_scored:], token_ids[-num_scored:], strict=True)
        entries = [(position or {}).get(str(token_id)) for position, token_id in pairs]
        if len(positions) != len(token_ids) or not all(entries):
            raise ServerFailed(_OTHER_TOKENS.format(self.path))
        return ScoredSequence(
            tuple(float(entry["logprob"]) for entry in entries if entry), len(token_ids)
        )

    def completing(
        self, prompt_ids: Sequence[int], max_new_tokens: int, options: dict[str, Any]
    ) -> dict[str, Any]:
        return self._asking(prompt_ids, max_new_tokens, return_token_ids=True) | options

    def completion(self, answer: Any) -> ServedAnswer:
        choice = answer["choices"][0]
        ids = choice.get("token_ids")
        is_cut = choice.get("finish_reason") == "length"
        return ServedAnswer(None if ids is None else tuple(ids), choice["text"], is_cut)

    def _asking(self, token_ids: Sequence[int], max_tokens: int, **options: Any) -> dict[str, Any]:
        request = {"model": self.model, "prompt": list(token_ids), "max_tokens": max_tokens}
        return {**request, "temperature": 0, **options}


class VllmGenerate(Protocol):
    """vLLM's endpoint for ids, which takes the ids to score (Model Runner V2; not on CPUs).

    The head runs only on the answer's rows, and the prefix cache is read: a hit ends where a source
    was removed. If a hit goes into the answer, which was scored or generated there before, vLLM
    gives no log-probabilities at all.
    """

    name = "vllm-generate"
    path = "/inference/v1/generate"
    reads_cache = True

    def scoring(self, token_ids: Sequence[int], num_scored: int) -> dict[str, Any]:
        return self._asking(
            token_ids,
            max_tokens=1,
            prompt_logprob_token_ids=[[token_id] for token_id in token_ids[-num_scored:]],
            prompt_logprob_start=len(token_ids) - num_scored - 1,
            skip_reading_prefix_cache=False,
        )

    def uncached(self, scoring: dict[str, Any]) -> dict[str, Any] | None:
        sampling = {**scoring["sampling_params"], "skip_reading_prefix_cache": True}
        return {**scoring, "sampling_params": sampling}

    def scored(
        self, answer: Any, token_ids: Sequence[int], num_scored: int
    ) -> ScoredSequence | None:
        encoded = answer.get("prompt_token_id_logprobs")
        if encoded is None:
            return None
        matrix = np.lib.format.read_array(BytesIO(b64decode(encoded)), allow_pickle=False)
        if matrix.shape != (num_scored, 1):
            raise ServerFailed(_OTHER_TOKENS.format(self.path))
        return ScoredSequence(tuple(map(float, matrix[:, 0])), len(token_ids))

    def completing(
        self, prompt_ids: Sequence[int], max_new_tokens: int, options: dict[str, Any]
    ) -> dict[str, Any]:
        return self._asking(prompt_ids, max_tokens=max_new_tokens, **options)

    def completion(self, answer: Any) -> ServedAnswer:
        choice = answer["choices"][0]
        return ServedAnswer(tuple(choice["token_ids"]), "", choice.get("finish_reason") == "length")

    def _asking(self, token_ids: Sequence[int], **sampling: Any) -> dict[str, Any]:
        return {
            "model": self.model,
            "token_ids": list(token_ids),
            "sampling_params": {"temperature": 0, **sampling},
        }


class SglangGenerate(Protocol):
    """SGLang's own endpoint, which encodes only the tokens that its radix cache lacks."""

    name = "sglang"
    path = "/generate"
    reads_cache = True

    def scoring(self, token_ids: Sequence[int], num_scored: int) -> dict[str, Any]:
        return {
            "input_ids": list(token_ids),
            "sampling_params": {"max_new_tokens": 0, "temperature": 0},
            "return_logprob": True,
            "logprob_start_len": len(token_ids) - num_scored - 1,
        }

    def joined(self, scorings: Sequence[dict[str, Any]]) -> dict[str, Any]:
        own = ("input_ids", "logprob_start_len")
        return {**scorings[0], **{name: [scoring[name] for scoring in scorings] for name in own}}

    def parted(self, answer: Any, scorings: Sequence[dict[str, Any]]) -> list[Any]:
        if not isinstance(answer, list) or len(answer) != len(scorings):
            raise TypeError(f"no list of {len(scorings)} replies")
        # All replies score the same tokens, so only the lengths identify the request.
        for reply, scoring in zip(answer, scorings, strict=True):
            if reply["meta_info"]["prompt_tokens"] != len(scoring["input_ids"]):
                raise LookupError("a reply belongs to another sequence")
        return answer

    def scored(
        self, answer: Any, token_ids: Sequence[int], num_scored: int
    ) -> ScoredSequence | None:
        details = answer["meta_info"]
        entries = (details.get("input_token_logprobs") or ())[-num_scored:]
        if not entries:
            return None
        if [entry[1] for entry in entries] != list(token_ids[-num_scored:]):
            raise ServerFailed(_OTHER_TOKENS.format(self.path))
        num_tokens = len(token_ids) - int(details.get("cached_tokens") or 0)
        return ScoredSequence(tuple(float(entry[0]) for entry in entries), num_tokens)

    def completing(
        self, prompt_ids: Sequence[int], max_new_tokens: int, options: dict[str, Any]
    ) -> dict[str, Any]:
        sampling = {"max_new_tokens": max_new_tokens, "temperature": 0, **options}
        return {"input_ids": list(prompt_ids), "sampling_params": sampling}

    def completion(self, answer: Any) -> ServedAnswer:
        ids = answer.get("output_ids")
        is_cut = answer["meta_info"]["finish_reason"]["type"] == "length"
        return ServedAnswer(None if ids is None else tuple(ids), answer["text"], is_cut)
