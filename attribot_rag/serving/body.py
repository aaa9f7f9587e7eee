"""The body of one request, with limits on its size and on the time to send it."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send


@dataclass(frozen=True)
class BodyLimits:
    """At most `bytes`, within `seconds` after the request's head."""

    bytes: int
    seconds: float

    @property
    def too_large(self) -> str:
        return f"the body is larger than {self.bytes:,} bytes"


class Body:
    """Limits what is received of a body, and closes the connection of one that was not read.

    Otherwise the server would go on taking what nobody reads, for as long as the client sends.
    `is_unread` says whether there is a body that was not read to its end.
    """

    def __init__(self, scope: Scope, limits: BodyLimits) -> None:
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        self._limits = limits
        self._length = int(length) if length.isdecimal() else 0
        self._size = 0
        self.is_unread = self._length > 0 or "transfer-encoding" in headers
        self._deadline = anyio.current_time() + limits.seconds

    @property
    def is_announced_too_large(self) -> bool:
        return self._length > self._limits.bytes

    def receiving(self, receive: Receive) -> Receive:
        """A channel that raises what is answered with 408 or 413 as soon as a limit is reached."""

        async def limited() -> Message:
            if not self.is_unread:
                return await receive()
            try:
                with anyio.fail_after(self._deadline - anyio.current_time()):
                    message = await receive()
            except TimeoutError as late:
                detail = f"the body did not come within {self._limits.seconds:g} seconds"
                raise HTTPException(408, detail) from late
            self._size += len(message.get("body", b""))
            if self._size > self._limits.bytes:
                raise HTTPException(413, self._limits.too_large)
            self.is_unread = message.get("more_body", False)
            return message

        return limited

    def sending(self, send: Send) -> Send:
        """A channel whose response ends the connection if the body was not read to its end."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and self.is_unread:
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        return sending
