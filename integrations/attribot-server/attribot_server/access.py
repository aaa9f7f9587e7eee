"""Access control: the client and the token of each request, before its body is read."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attribot_rag.errors import QueueFull
from attribot_server.body import Body, Limits
from attribot_server.fair_queue import FairQueue

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
