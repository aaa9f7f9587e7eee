"""The text of a response that is streamed, until its stream has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager

from llama_index.postprocessor.attribot.query import TrackedQuery, streaming

End = Callable[[str, BaseException | None], None]
"""Is told of the text that was shown, and of what ended the stream if it did not end itself."""


def observed(
    stream: Generator[str, None, None], query: TrackedQuery, end: End
) -> Generator[str, None, None]:
    """The stream of a query's response."""
    with _watched(end) as shown:
        try:
            while True:
                with streaming(query):
                    piece = next(stream, None)
                if piece is None:
                    break
                shown.append(piece)
                yield piece
        except GeneratorExit:
            stream.close()
            raise


async def aobserved(
    stream: AsyncGenerator[str, None], query: TrackedQuery, end: End
) -> AsyncGenerator[str, None]:
    """The same of an asynchronous one."""
    try:
        with _watched(end) as shown:
            while True:
                with streaming(query):
                    piece = await anext(stream, None)
                if piece is None:
                    break
                shown.append(piece)
                yield piece
    except (GeneratorExit, asyncio.CancelledError):
        await stream.aclose()
        raise


@contextmanager
def _watched(end: End) -> Iterator[list[str]]:
    shown: list[str] = []
    try:
        yield shown
    except BaseException as error:
        end("".join(shown), error)
        raise
    end("".join(shown), None)
