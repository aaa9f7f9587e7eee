"""The limits of a service, and request bodies that keep to them."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send


@dataclass(frozen=True)
class Limits:
    """The limits of a service.

    Args:
        waiting: How many requests may wait or run, in all and at once for one client.
        bytes: The size of a body.
        seconds: For an answer, and again for its attribution, which is then partial. Time in which
            other requests have the model does not count.
        chunks: How many chunks of the files are retrieved for a question.
        clients: How many requests run at the same time; one client has at most half of them. They
            share the model by time, and each takes the memory of an attribution.
        read_seconds: For the head of a request, and again for its body.
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
