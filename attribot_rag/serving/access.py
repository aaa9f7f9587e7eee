"""Access control: the token and the size of every request, before it is parsed."""

from __future__ import annotations

import hmac

from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class AccessControl:
    """Refuses bodies above `max_bytes` (413) and, with a `token`, requests without it (401).

    The token comes as `Authorization: Bearer ...` and is compared in constant time; `open_paths`
    need no token. Every response forbids scripts and framing, unless it has a content security
    policy of its own.
    """

    def __init__(
        self, app: ASGIApp, *, token: str | None, max_bytes: int, open_paths: frozenset[str]
    ) -> None:
        self._app = app
        # Header values are bytes, which Starlette decodes as Latin-1.
        self._token = None if token is None else _comparable(token.encode().decode("latin-1"))
        self._bearer = HTTPBearer(auto_error=False)
        self._max_bytes = max_bytes
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        app = self._app
        if not await self._is_allowed(Request(scope)):
            detail = "a valid bearer token is needed"
            app = JSONResponse({"detail": detail}, 401, {"WWW-Authenticate": "Bearer"})
        await app(scope, self._limited(receive), _with_headers(send))

    async def _is_allowed(self, request: Request) -> bool:
        if self._token is None or request.scope["path"] in self._open_paths:
            return True
        sent = await self._bearer(request)
        return sent is not None and hmac.compare_digest(_comparable(sent.credentials), self._token)

    def _limited(self, receive: Receive) -> Receive:
        """A channel that raises what FastAPI answers with 413 as soon as the body is too large."""
        size = 0

        async def receiving() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_bytes:
                detail = f"the body is larger than {self._max_bytes:,} bytes"
                raise HTTPException(413, detail, {"Connection": "close"})
            return message

        return receiving


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
