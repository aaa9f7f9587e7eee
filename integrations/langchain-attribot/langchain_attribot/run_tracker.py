"""The runs and documents that LangChain's callbacks tell of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from langchain_attribot.documents import documents_in
from langchain_attribot.run_tree import Kind, Run, RunTree


class RunTracker(BaseCallbackHandler):
    """Keeps the tree of the runs that have not ended, with their documents."""

    def __init__(self) -> None:
        self._tree = RunTree()

    def root_ended(self, root: Run, outputs: Any) -> None:
        """A run without parent has given its outputs."""

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        run_type: str | None = None,
        **_: Any,
    ) -> None:
        kind: Kind = "parser" if run_type == "parser" else "chain"
        self._tree.begin(run_id, parent_run_id, kind, tuple(documents_in(inputs)))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        run = self._tree.end(run_id, tuple(documents_in(outputs)), outputs)
        if run is not None and run.parent is None:
            self.root_ended(run, outputs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._tree.end(run_id)

    on_tool_error = on_retriever_error = on_chain_error

    def on_tool_start(
        self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any
    ) -> None:
        self._tree.begin(run_id, parent_run_id, "tool")

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        self._tree.end(run_id, tuple(documents_in(output)))

    def on_retriever_start(
        self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any
    ) -> None:
        self._tree.begin(run_id, parent_run_id, "retriever")

    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **_: Any) -> None:
        self._tree.end(run_id, tuple(documents))
