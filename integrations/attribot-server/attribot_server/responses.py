"""Responses: JSON, errors with their `detail`, and streamed answers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from transformers import TextStreamer

from attribot_rag import Attribution, AttributionError
from attribot_rag.display import summary_data
from attribot_rag.errors import InvalidInput, ScoringOutOfMemory, ServerFailed
from attribot_server.fair_queue import ServiceStopping
from attribot_server.requests import NO_OBJECT, Problem

REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem} for code in (400, 401, 408, 413, 422, 429, 502, 503)
}
_STATUSES: dict[type[AttributionError], int] = {
    InvalidInput: 422,
    ServerFailed: 502,
    ScoringOutOfMemory: 503,
    ServiceStopping: 503,
}


def detail_of(error: AttributionError) -> str:
    """The error's message for clients.

    If the model's server failed, it also tells the operator a fix.
    """
    if isinstance(error, ServerFailed):
        return (
            f"the model of this service did not answer: {error}; see that its server runs and "
            "answers, then ask again"
        )
    return str(error)


async def refused(request: Request, error: Exception) -> Response:
    """The response for an error: 422 if it cannot be attributed, 502 or 503 for now, else 500."""
    assert isinstance(error, AttributionError)
    status = next((code for kind, code in _STATUSES.items() if isinstance(error, kind)), 500)
    if isinstance(error, ServiceStopping):
        request.state.refusal = "stopping"
    return json_response({"detail": detail_of(error)}, status)


async def malformed(_: Request, error: Exception) -> Response:
    """422 for a body that was not sent as JSON."""
    assert isinstance(error, RequestValidationError)
    return json_response({"detail": NO_OBJECT}, 422)


def json_response(data: Any, status: int = 200) -> Response:
    return Response(ascii_json(data), status, media_type="application/json")


def ascii_json(data: Any) -> str:
    """JSON in ASCII, because texts may contain halves of surrogate pairs."""
    return json.dumps(data, allow_nan=False)


LINES = "application/x-ndjson"
_PAUSE = 0.1  # seconds
_PENDING: dict[str, Any] = {"status": "pending", "sentences": []}


class Pieces(TextStreamer):
    """Passes the pieces of an answer from the worker thread to the event loop.

    They become `lines`, and None ends them. With `data`, a piece has the element's data for the
    answer so far, at most ten times a second.
    """

    def __init__(self, tokenizer: Any, *, data: bool = False) -> None:
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)
        self._data = data
        self._said = ""
        self._shown = 0.0
        self._loop = asyncio.get_running_loop()
        self.lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        self._said += text
        now = time.monotonic()
        if self._data and text and now - self._shown >= _PAUSE:
            self._shown = now
            data = summary_data(_PENDING, answer=self._said, stage="writing")
            self.tell({"piece": text, "data": data})
        elif text:
            self.tell({"piece": text})

    def tell(self, line: dict[str, Any]) -> None:
        """Send a line, from any thread."""
        self._loop.call_soon_threadsafe(self.lines.put_nowait, line)

    def close(self, attributing: asyncio.Future[Attribution]) -> None:
        """The attribution has ended: no more pieces follow. Its error may stay unread."""
        self.lines.put_nowait(None)
        if not attributing.cancelled():
            attributing.exception()


async def streamed(
    pieces: Pieces,
    attributing: asyncio.Future[Attribution],
    answered: Callable[[Attribution], dict[str, Any]],
) -> Response:
    """Lines of JSON as they come, then the final answer, or `detail` after an error.

    An error before the first piece is raised, so that it gets its own status.
    """
    attributing.add_done_callback(pieces.close)
    first = await pieces.lines.get()
    if first is None:
        await attributing

    async def lines() -> AsyncIterator[str]:
        line = first
        try:
            while line is not None:
                yield ascii_json(line) + "\n"
                line = await pieces.lines.get()
            yield ascii_json(answered(await attributing)) + "\n"
        except AttributionError as error:
            yield ascii_json({"detail": detail_of(error)}) + "\n"
        except HTTPException as error:
            yield ascii_json({"detail": error.detail}) + "\n"
        finally:
            attributing.cancel()  # the client may have disconnected

    return StreamingResponse(lines(), media_type=LINES)
