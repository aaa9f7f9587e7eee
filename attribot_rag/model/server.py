"""HTTP requests to a server of models, and the forms of its requests and replies."""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
import weakref
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import httpx

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
        concurrency: The most requests at once, over all threads.
        timeout: Seconds after which a request is sent again. This also happens after 429 or 5xx, or
            when the connection breaks.
        attempts: How often a request is sent at most, with growing random pauses.
        protocol: 'vllm' or 'sglang'. By default it is detected.
    """

    concurrency: int = 16
    timeout: float = 120.0
    attempts: int = 6
    protocol: Literal["vllm", "sglang"] | None = None

    def __post_init__(self) -> None:
        for name in ("concurrency", "timeout", "attempts"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name}={getattr(self, name)!r}; use more than 0")
        if self.protocol not in (None, "vllm", "sglang"):
            raise InvalidInput(f"protocol={self.protocol!r}; choose 'vllm', 'sglang' or None")


class NoAnswerInTime(ServerFailed):
    """The deadline passed before the answers arrived."""


class _Again(Exception):
    """A request that may succeed later, after a `pause` in seconds."""

    def __init__(self, problem: str, pause: float = 0.0) -> None:
        super().__init__(problem)
        self.pause = pause


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
        return self._run(self._persist(path, body, attempts=1))

    def post(self, path: str, bodies: Sequence[Any], deadline: float | None = None) -> list[Any]:
        """The JSON reply to each body, in order.

        `deadline` is a time of `time.perf_counter`. After it, and if the caller is interrupted,
        running requests are cancelled. Raises NoAnswerInTime, and ServerFailed when a request fails
        for good; the others are then cancelled.
        """
        answers: list[Any] = self._run(self._post_all(path, bodies, deadline))
        if None in answers:
            raise Refused(f"the server at {self.url} has no {path}")
        return answers

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of this client's thread."""
        most, key = self.options.concurrency, os.environ.get(KEY)
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._http = httpx.AsyncClient(
                    base_url=self.url,
                    headers={"Authorization": f"Bearer {key}"} if key else {},
                    limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
                    timeout=httpx.Timeout(
                        self.options.timeout, connect=_CONNECT_SECONDS, pool=None
                    ),
                )
                self._turns = asyncio.Semaphore(most)
                threading.Thread(
                    target=_run_until_stopped,
                    args=(self._loop, self._http),
                    name="attribot-rag server",
                    daemon=True,
                ).start()
                weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)
            return self._loop

    async def _post_all(self, path: str, bodies: Sequence[Any], deadline: float | None) -> Any:
        attempts = self.options.attempts
        tasks = [asyncio.ensure_future(self._persist(path, body, attempts)) for body in bodies]
        seconds = None if deadline is None else max(0.0, deadline - time.perf_counter())
        try:
            return await asyncio.wait_for(asyncio.gather(*tasks), seconds)
        except asyncio.TimeoutError as error:
            raise NoAnswerInTime(f"the server at {self.url} has not answered in time") from error
        finally:
            for task in tasks:
                task.cancel()

    async def _persist(self, path: str, body: Any, attempts: int) -> Any:
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._send(path, body)
            except _Again as error:
                if attempt >= attempts:
                    raise ServerFailed(
                        f"the server at {self.url} {error} (attempt {attempt} at {path})"
                    ) from error
                longest = min(_FIRST_PAUSE * 2 ** (attempt - 1), _LONGEST_PAUSE)
                await asyncio.sleep(max(error.pause, random.uniform(0, longest)))

    async def _send(self, path: str, body: Any) -> Any:
        """The JSON of the reply; None for 404 and 405. Raises _Again and ServerFailed.

        Requests keep their order, which httpx's connection pool does not guarantee.
        """
        method = "GET" if body is None else "POST"
        try:
            async with self._turns:
                response = await self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            raise _Again(f"did not answer ({type(error).__name__}: {error})") from error
        status = response.status_code
        if status in (404, 405):
            return None
        problem = f"answered {status}: {response.text[:_SHOWN]}"
        if status in _AGAIN:
            pause = response.headers.get("retry-after", "")  # seconds, or a date
            raise _Again(problem, min(float(pause), _LONGEST_PAUSE) if pause.isdecimal() else 0.0)
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


@dataclass(frozen=True)
class VllmCompletions:
    """Any vLLM: OpenAI's completions with vLLM's `prompt_logprobs`.

    vLLM encodes the whole prompt for it, and generates one token that nobody needs.

    `scoring` is the request for the log-probabilities of the last tokens of a sequence, and
    `scored` reads its reply. It returns None if there are none, and raises ServerFailed for other
    tokens. `completing` is the request for an answer, whose `options` go to the server's sampling
    unchanged, and `completion` reads its reply. Both raise LookupError and TypeError for a reply of
    another form. `reads_cache` says that the common beginning of sequences is encoded once.
    """

    name: ClassVar[str] = "vllm"
    path: ClassVar[str] = "/v1/completions"
    reads_cache: ClassVar[bool] = False

    model: str

    def scoring(self, token_ids: Sequence[int], num_scored: int) -> dict[str, Any]:
        return self._asking(token_ids, 1, prompt_logprobs=0)

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


@dataclass(frozen=True)
class SglangGenerate:
    """SGLang's own endpoint, which encodes only the tokens that its radix cache lacks.

    The methods are those of `VllmCompletions`.
    """

    name: ClassVar[str] = "sglang"
    path: ClassVar[str] = "/generate"
    reads_cache: ClassVar[bool] = True

    model: str

    def scoring(self, token_ids: Sequence[int], num_scored: int) -> dict[str, Any]:
        return {
            "input_ids": list(token_ids),
            "sampling_params": {"max_new_tokens": 0, "temperature": 0},
            "return_logprob": True,
            "logprob_start_len": len(token_ids) - num_scored - 1,
        }

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


Protocol = VllmCompletions | SglangGenerate
PROTOCOLS: dict[str, type[Protocol]] = {
    kind.name: kind for kind in (VllmCompletions, SglangGenerate)
}
