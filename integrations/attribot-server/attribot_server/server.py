"""The HTTP server: uvicorn, with limits on the size and time of connections."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from attribot_server.fair_queue import FairQueue

_MAX_CONNECTIONS = 512


def run_server(app: FastAPI, *, host: str, port: int, read_seconds: int, stop_seconds: int) -> None:
    """Serve until Ctrl-C or SIGTERM; a client has `read_seconds` for each request's head.

    Then running requests are answered, for at most `stop_seconds`, and waiting ones are refused.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=HeadTimeout,  # h11 bounds the size of a head, the other parsers don't
        ws="none",
        timeout_keep_alive=read_seconds,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=stop_seconds,
        server_header=False,
        log_level="info",
    )
    with suppress(KeyboardInterrupt):
        _Server(config, app.state.queue).run()


class _Server(uvicorn.Server):
    """Closes the queue before it waits for open requests."""

    def __init__(self, config: uvicorn.Config, queue: FairQueue) -> None:
        super().__init__(config)
        self._queue = queue

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._queue.close()
        await super().shutdown(sockets)


class HeadTimeout(H11Protocol):
    """Closes a connection that sends no complete head within `timeout_keep_alive` seconds.

    uvicorn does so only until the first byte after a response. The time for the body is
    `body.Limits`.
    """

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._await_head()
        super().on_response_complete()

    def _await_head(self) -> None:
        self._stop_waiting()
        self._head_timer = self.loop.call_later(self.timeout_keep_alive, self._close_without_head)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()

    def _close_without_head(self) -> None:
        if self.conn.their_state is h11.IDLE:
            self.transport.close()
