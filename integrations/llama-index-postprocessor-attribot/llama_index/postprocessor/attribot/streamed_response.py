"""The text of a response that is streamed, until its stream has ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import aclosing, closing, contextmanager

from llama_index.postprocessor.attribot.query import TrackedQuery, streaming

End = Callable[[str, BaseException | None], None]
"""Is told of the text that was shown, and of what ended the stream if it did not end itself."""


def observed(
    stream: Generator[str, None, None], query: TrackedQuery, end: End
) -> Generator[str, None, None]:
    """The stream of a query's response."""
    with _watched(end) as shown, closing(stream):
        while True:
            with streaming(query):
                piece = next(stream, None)
            if piece is None:
                return
            shown.append(piece)
            yield piece


async def aobserved(
    stream: AsyncGenerator[str, None], query: TrackedQuery, end: End
) -> AsyncGenerator[str, None]:
    """The same of an asynchronous one."""
    async with aclosing(stream):
        with _watched(end) as shown:
            while True:
                with streaming(query):
                    piece = await anext(stream, None)
                if piece is None:
                    return
                shown.append(piece)
                yield piece


@contextmanager
def _watched(end: End) -> Iterator[list[str]]:
    shown: list[str] = []
    try:
        yield shown
    except BaseException as error:
        end("".join(shown), error)
        raise
    end("".join(shown), None)
