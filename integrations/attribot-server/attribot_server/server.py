"""The HTTP server: uvicorn, with limits on the size and time of connections."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from attribot_server.fair_queue import FairQueue

_MAX_CONNECTIONS = 512
_LAST_SECONDS = 5  # for the responses to ended requests, and for steps that still run

logger = logging.getLogger(__name__)


def run_server(app: FastAPI, *, host: str, port: int, read_seconds: int, stop_seconds: int) -> None:
    """Serve until Ctrl-C or SIGTERM. A client has `read_seconds` for the head of each request.

    Then running requests have at most `stop_seconds` to finish, and waiting ones are refused. A
    second Ctrl-C also ends the running ones. If the work of a request does not end, the process
    ends it. Queries are not logged, because a client may have put its token there.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=HeadTimeout,  # only h11 limits the size of a head
        ws="none",
        lifespan="off",  # nothing to start; a second Ctrl-C would log its end as an error
        timeout_keep_alive=read_seconds,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=stop_seconds + _LAST_SECONDS,
        server_header=False,
        log_level="info",
    )
    logging.getLogger("uvicorn.access").addFilter(_without_query)
    queue: FairQueue = app.state.queue
    with suppress(KeyboardInterrupt):
        _Server(config, queue, stop_seconds).run()
    if not queue.has_ended(_LAST_SECONDS):
        logger.error("a request does not end; the process ends without it")
        logging.shutdown()
        os._exit(1)


class _Server(uvicorn.Server):
    """Closes the queue before it waits for open requests, and ends those that do not end."""

    def __init__(self, config: uvicorn.Config, queue: FairQueue, stop_seconds: float) -> None:
        super().__init__(config)
        self._queue = queue
        self._stop_seconds = stop_seconds
        self._abort: Callable[[], object] = queue.close

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        self._abort = lambda: loop.call_soon_threadsafe(self._queue.abort)
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit and sig == signal.SIGINT:
            self._abort()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._queue.close()
        asyncio.get_running_loop().call_later(self._stop_seconds, self._queue.abort)
        await super().shutdown(sockets)


def _without_query(record: logging.LogRecord) -> bool:
    """A log filter that removes the query from the path in the access log."""
    if isinstance(record.args, tuple) and len(record.args) == 5:  # client, method, path, ...
        client, method, path, *rest = record.args
        record.args = (client, method, str(path).partition("?")[0], *rest)
    return True


class HeadTimeout(H11Protocol):
    """Closes a connection that sends no complete head within `timeout_keep_alive` seconds.

    uvicorn does so only before the first byte after a response. `access.Limits` limits the time for
    the body.
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
