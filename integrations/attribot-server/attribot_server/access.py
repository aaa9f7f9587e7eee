"""Access control, and limits on the size and the time of each request's body."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

import anyio
from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attribot_rag.errors import QueueFull
from attribot_server.fair_queue import FairQueue


@dataclass(frozen=True)
class Limits:
    """The limits of a service.

    Args:
        waiting: How many requests may wait or run. One client may take all places, until another
            client with fewer requests needs one.
        bytes: The largest size of the body of a request.
        seconds: The time limit for an answer. Its attribution has the same limit, and is incomplete
            if it takes longer. Time in which the model works for other requests does not count.
        chunks: How many chunks of the files are retrieved for a question.
        clients: How many requests run at the same time; one client has at most half of them. They
            share the model by time, and each takes the memory of an attribution.
        read_seconds: The time limit for the head of a request, and again for its body.
        stall_seconds: How long a running request may make no progress: a batch of rows, a piece of
            a prompt, a token of an answer. After that, `/health` and the log report it.
    """

    waiting: int = 8
    bytes: int = 1_000_000
    seconds: float = 60.0
    chunks: int = 4
    clients: int = 4
    read_seconds: float = 30.0
    stall_seconds: float = 120.0


class Body:
    """Limits the size and the time of a request's body, and closes connections with unread bodies.

    Otherwise the server would receive what nobody reads for as long as the client sends. `receive`
    and `send` replace those of the request. `is_unread` says whether a body was not read to its
    end.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: Limits) -> None:
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        self._receive, self._send = receive, send
        self._limits = limits
        self._length = int(length) if length.isdecimal() else 0
        self._size = 0
        self._deadline = anyio.current_time() + limits.read_seconds
        self.is_unread = self._length > 0 or "transfer-encoding" in headers
        self.too_large = f"the body is larger than {limits.bytes:,} bytes"

    @property
    def is_announced_too_large(self) -> bool:
        return self._length > self._limits.bytes

    async def receive(self) -> Message:
        """Receive a part of the body. Beyond a limit, raises the response 408 or 413."""
        if not self.is_unread:
            return await self._receive()
        try:
            with anyio.fail_after(self._deadline - anyio.current_time()):
                message = await self._receive()
        except TimeoutError as late:
            detail = f"the body did not come within {self._limits.read_seconds:g} seconds"
            raise HTTPException(408, detail) from late
        self._size += len(message.get("body", b""))
        if self._size > self._limits.bytes:
            raise HTTPException(413, self.too_large)
        self.is_unread = message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a response, which closes the connection if the body was not read to its end."""
        if message["type"] == "http.response.start" and self.is_unread:
            MutableHeaders(scope=message)["Connection"] = "close"
        await self._send(message)


_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
}


@dataclass(eq=False, repr=False)
class AccessControl:
    """Refuses requests without a token (401), with a large body (413), and too many at once (429).

    `tokens` are compared in constant time with `Authorization: Bearer ...`; `open_paths` need none.
    A client is named by its token, or by its address if there is at most one token. Routes find the
    name in `request.state.client`. The `queue` admits requests with a body, except to open paths.
    The body of a refused request is not read. Every response forbids scripts and framing, unless it
    has its own content security policy.
    """

    app: ASGIApp
    tokens: tuple[str, ...]
    open_paths: frozenset[str]
    limits: Limits
    queue: FairQueue

    def __post_init__(self) -> None:
        # Starlette decodes header values, which are bytes, as Latin-1.
        self._tokens = [_comparable(token.encode().decode("latin-1")) for token in self.tokens]
        self._bearer = HTTPBearer(auto_error=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = Body(scope, receive, send, self.limits)
        receive, send = body.receive, _with_headers(body.send)
        number = await self._find_token(Request(scope))
        is_open = scope["path"] in self.open_paths
        if self._tokens and number is None and not is_open:
            refusal = _refusal(
                401, "a valid bearer token is needed", **{"WWW-Authenticate": "Bearer"}
            )
            await refusal(scope, receive, send)
        elif body.is_announced_too_large:
            await _refusal(413, body.too_large)(scope, receive, send)
        else:
            client = self._name_client(scope, number)
            scope.setdefault("state", {})["client"] = client
            if is_open or not body.is_unread:
                await self.app(scope, receive, send)
            else:
                await self._admitted(client, scope, receive, send)

    async def _find_token(self, request: Request) -> int | None:
        """The number of the client's token. All tokens are compared, in constant time."""
        sent = await self._bearer(request)
        if sent is None:
            return None
        credentials = _comparable(sent.credentials)
        equal = [hmac.compare_digest(credentials, token) for token in self._tokens]
        return equal.index(True) if any(equal) else None

    def _name_client(self, scope: Scope, number: int | None) -> str:
        if len(self._tokens) > 1:
            return f"token {number}"
        return scope["client"][0] if scope.get("client") else ""

    async def _admitted(self, client: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self.queue.admitted(client):
                await self.app(scope, receive, send)
        except QueueFull as full:
            scope["state"]["refusal"] = "client's limit"
            headers = {"Retry-After": str(self.queue.retry_after)}
            await _refusal(429, str(full), **headers)(scope, receive, send)


def _refusal(status: int, detail: str, **headers: str) -> JSONResponse:
    return JSONResponse({"detail": detail}, status, headers)


def _comparable(token: str) -> bytes:
    return token.strip().encode("latin-1")


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
