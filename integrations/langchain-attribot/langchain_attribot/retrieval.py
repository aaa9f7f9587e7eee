"""What retrievers find within a tool that gives its text alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar
from uuid import UUID

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.tracers.context import register_configure_hook

from attribot_rag.runtime import texts_in_prompt
from langchain_attribot.run_tracker import RunTracker

Result = TypeVar("Result")


class ToolRetrieval(RunTracker):
    """Sees the documents that retrievers find while a tool runs."""

    def __init__(self) -> None:
        super().__init__()
        self.documents: list[Document] = []

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        run = self._end(run_id)
        if run is not None and run.parent is None:
            self.documents = run.documents()

    def attached(self, result: Result) -> Result:
        """A copy of a tool's message with those of the documents that its text holds as artifact.

        A message with an artifact, and anything else that tools give, stays as it is.
        """
        if not isinstance(result, ToolMessage) or result.artifact is not None:
            return result
        told = texts_in_prompt(result.text, [one.page_content for one in self.documents])
        documents = [one for one in self.documents if one.page_content in told]
        return result.model_copy(update={"artifact": documents}) if documents else result


_running: ContextVar[ToolRetrieval | None] = ContextVar("attribot_tool", default=None)
register_configure_hook(_running, inheritable=True)


@contextmanager
def observed_tool() -> Iterator[ToolRetrieval]:
    """See what is retrieved by the tool that runs within the block."""
    retrieval = ToolRetrieval()
    token = _running.set(retrieval)
    try:
        yield retrieval
    finally:
        _running.reset(token)
