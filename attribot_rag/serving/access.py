"""What every request has to pass before it is read: its size and its token."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.responses import JSONResponse

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_POLICY = b"content-security-policy"
_NOTHING = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


class Guard:
    """Refuses bodies above `max_bytes` (413) and, with a `token`, requests without it (401).

    The token comes as `Authorization: Bearer ...` and is compared in constant time; paths in
    `open_to_all` need none. Every response says that nothing in it may run or be framed, unless it
    has a policy of its own.
    """

    def __init__(
        self, app: App, *, token: str | None, max_bytes: int, open_to_all: frozenset[str]
    ) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._max_bytes = max_bytes
        self._open_to_all = open_to_all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        headers = dict(scope["headers"])
        if not self._allowed(scope["path"], headers.get(b"authorization", b"")):
            refused = _problem(
                401, "a valid bearer token is needed", {"WWW-Authenticate": "Bearer"}
            )
            await refused(scope, receive, send)
            return
        body = await self._read(headers, receive)
        if body is None:
            detail = f"the body is larger than {self._max_bytes:,} bytes"
            await _problem(413, detail, {"Connection": "close"})(scope, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)

    def _allowed(self, path: str, authorization: bytes) -> bool:
        if self._token is None or path in self._open_to_all:
            return True
        scheme, _, given = authorization.partition(b" ")
        same = hmac.compare_digest(given.strip(), self._token)
        return same and scheme.lower() == b"bearer"

    async def _read(self, headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
        """The whole body, None as soon as it is too large."""
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._max_bytes:
            return None
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return bytes(body)
            body += message.get("body", b"")
            if len(body) > self._max_bytes:
                return None
            if not message.get("more_body", False):
                return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more, and then whatever comes after it."""
    given = False

    async def replay() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            known = {name.lower() for name, _ in message["headers"]}
            policy = () if _POLICY in known else ((_POLICY, _NOTHING),)
            message["headers"] = [*message["headers"], *_HEADERS, *policy]
        await send(message)

    return sending


def _problem(status: int, detail: str, headers: dict[str, str]) -> JSONResponse:
    return JSONResponse({"detail": detail}, status, headers)
