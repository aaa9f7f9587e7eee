"""A streamed answer, and its attribution sentence by sentence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import HTTPException, Response
from fastapi.responses import StreamingResponse
from transformers import TextStreamer

from attribot_rag import Attribution, AttributionError
from attribot_rag.display import summary_data
from attribot_server.problems import ascii_json, detail_of

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
