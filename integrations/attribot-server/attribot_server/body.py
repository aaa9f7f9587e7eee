"""The limits of a service, and the body of a request that keeps to them."""

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
        waiting: Requests in the queue or in progress, and requests of one client at once.
        bytes: The size of a body.
        seconds: For an answer, and again for its attribution, which is then partial; the time in
            which other requests have the model does not count.
        chunks: Chunks of the files that are retrieved for a question.
        clients: Requests that are worked on at the same time, of which one client has half at
            most. They share the model by time, and each takes the memory of an attribution.
        read_seconds: For the head of a request, and again for its body.
        stall_seconds: Within which a request at work has to make progress: a batch of rows, a piece
            of a prompt, a token of an answer. `/health` and the log tell of one that does not.
    """

    waiting: int = 8
    bytes: int = 1_000_000
    seconds: float = 60.0
    chunks: int = 4
    clients: int = 4
    read_seconds: float = 30.0
    stall_seconds: float = 120.0


class Body:
    """Limits the size and the time of a request's body, and closes unread connections.

    Otherwise the server would go on taking what nobody reads, for as long as the client sends.
    `receive` and `send` stand for those of the request; `is_unread` says whether there is a body
    that was not read to its end.
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
        """Receive a message of the body; raises the answer 408 or 413 beyond a limit."""
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
        """Has the response end the connection if the body was not read to its end."""
        if message["type"] == "http.response.start" and self.is_unread:
            MutableHeaders(scope=message)["Connection"] = "close"
        await self._send(message)
