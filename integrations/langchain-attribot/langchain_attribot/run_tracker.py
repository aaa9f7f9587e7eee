"""LangChain's runs as a tree, with the documents of each, as its callbacks tell of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from attribot_rag.runtime import texts_in_prompt
from langchain_attribot.documents import are_versions, by_everything, by_text, documents_in, merged

Kind = Literal["chain", "parser", "tool", "retriever", "model"]

_MAX_TREES = 1024


@dataclass(eq=False)
class Run:
    """A run that has begun, with its name and tags.

    `inputs` are the documents in its input, `outputs` those in its output; a retriever's outputs
    replace those of the retrievers within it. An `orphan` names a parent that was not seen;
    `parsed` is the last output of an output parser within a root; `settled` says that its answer
    was told before it ended.
    """

    id: UUID
    root: UUID
    kind: Kind
    parent: Run | None
    orphan: bool
    names: frozenset[str] = frozenset()
    inputs: Sequence[Document] = ()
    outputs: Sequence[Document] | None = None
    parsed: Any = None
    settled: bool = False
    children: list[Run] = field(default_factory=list)

    def documents(self) -> list[Document]:
        """All documents of the run and the runs within it.

        Those of retrievers and tools, and further ones in inputs and outputs: new documents that a
        step made of those.
        """
        retrieved: list[Sequence[Document]] = []
        passed_on: list[Sequence[Document]] = []
        self._collect(retrieved, passed_on)
        return merged([merged(retrieved, by_everything), *passed_on], by_text)

    def all_names(self) -> frozenset[str]:
        """Names and tags of the run and of the runs around it."""
        around = frozenset() if self.parent is None else self.parent.all_names()
        return self.names | around

    @property
    def name(self) -> str:
        """A name to tell a reader which run this is."""
        return f"the {self.kind} {min(self.names, default='without a name')!r}"

    def shape(self) -> frozenset[tuple[Kind, frozenset[str]]]:
        """Equal for the runs of one chain: the kinds and names of the run and those within it."""
        within = (child.shape() for child in self.children)
        return frozenset({(self.kind, self.names)}).union(*within)

    def _collect(
        self, retrieved: list[Sequence[Document]], passed_on: list[Sequence[Document]]
    ) -> None:
        passed_on.append(self.inputs)
        if self.outputs is not None:
            (retrieved if self.kind in ("tool", "retriever") else passed_on).append(self.outputs)
            if self.kind == "retriever":
                return
        for child in self.children:
            child._collect(retrieved, passed_on)


class RunTracker(BaseCallbackHandler):
    """Keeps the runs that have not ended, by id; those of a root are forgotten when it ends.

    The runs of a root that never ends are forgotten after a thousand other roots have begun.
    """

    def __init__(self) -> None:
        self._runs: dict[UUID, Run] = {}
        self._trees: dict[UUID, list[UUID]] = {}
        self._used: dict[UUID, set[str]] = {}
        self._lock = threading.RLock()

    @property
    def num_open(self) -> int:
        """The number of entries of runs that have not ended."""
        return len(self._runs) + len(self._trees) + len(self._used)

    def root_ended(self, root: Run, outputs: Any) -> None:
        """A chain without parent has given its outputs."""

    def root_retrieved(self, root: Run) -> None:
        """A tool or a retriever without parent has given its outputs."""

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        run_type: str | None = None,
        **named: Any,
    ) -> None:
        kind: Kind = "parser" if run_type == "parser" else "chain"
        self._begin(run_id, parent_run_id, kind, tuple(documents_in(inputs)), names_of(named))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        run = self._end(run_id, tuple(documents_in(outputs)), outputs)
        if run is not None and run.parent is None:
            self.root_ended(run, outputs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id)

    on_tool_error = on_retriever_error = on_chain_error

    def on_tool_start(
        self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any
    ) -> None:
        self._begin(run_id, parent_run_id, "tool")

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        self._end_retrieval(run_id, tuple(documents_in(output)))

    def on_retriever_start(
        self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any
    ) -> None:
        self._begin(run_id, parent_run_id, "retriever")

    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **_: Any) -> None:
        self._end_retrieval(run_id, tuple(documents))

    def _end_retrieval(self, run_id: UUID, documents: Sequence[Document]) -> None:
        run = self._end(run_id, documents)
        if run is not None and run.parent is None:
            self.root_retrieved(run)

    def _begin(
        self,
        run_id: UUID,
        parent_id: UUID | None,
        kind: Kind,
        inputs: Sequence[Document] = (),
        names: frozenset[str] = frozenset(),
    ) -> Run:
        with self._lock:
            parent = None if parent_id is None else self._runs.get(parent_id)
            root = run_id if parent is None else parent.root
            orphan = parent is None and parent_id is not None
            run = Run(run_id, root, kind, parent, orphan, names, inputs)
            if parent is not None:
                parent.children.append(run)
            self._runs[run_id] = run
            self._trees.setdefault(root, []).append(run_id)
            if len(self._trees) > _MAX_TREES:
                self._forget(next(iter(self._trees)))
            return run

    def _end(
        self, run_id: UUID, outputs: Sequence[Document] | None = None, output: Any = None
    ) -> Run | None:
        """The run with its output, if it is known; a root is forgotten."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is not None:
                run.outputs = outputs
                if run.kind == "parser":
                    self._runs[run.root].parsed = output
                if run.parent is None:
                    self._forget(run_id)
            return run

    def _forget(self, root: UUID) -> None:
        with self._lock:
            for run_id in self._trees.pop(root, ()):
                self._runs.pop(run_id, None)
            self._used.pop(root, None)

    def _documents_for(self, run: Run, prompt: str) -> list[Document]:
        """The documents that can stand in a model's prompt.

        Those of its own input and of its nearest ancestor with any, and documents of ancestors
        farther away that the prompt contains. Left out, unless the prompt contains them, are
        documents that an earlier answer within the same root used, and other versions of documents
        that it contains.
        """
        with self._lock:
            reached: list[Sequence[Document]] = [run.inputs]
            nearest: list[Document] = []
            ancestor = run.parent
            while ancestor is not None:
                documents = ancestor.documents()
                reached.append(in_prompt(prompt, documents) if nearest else documents)
                nearest = nearest or documents
                ancestor = ancestor.parent
            candidates = merged(reached, by_text)
            contained = in_prompt(prompt, candidates)
            used = self._used.get(run.root, set())

            def is_replaced(document: Document) -> bool:
                return by_text(document) in used or any(
                    are_versions(document, other) for other in contained
                )

            kept = [
                candidate
                for candidate in candidates
                if candidate in contained or not is_replaced(candidate)
            ]
            return kept or candidates

    def _use(self, run: Run, documents: Sequence[Document]) -> None:
        with self._lock:
            if run.root in self._trees:
                self._used.setdefault(run.root, set()).update(map(by_text, documents))


def names_of(metadata: Mapping[str, Any]) -> frozenset[str]:
    """The name, the tags and the LangGraph node of a run, as its callback is told of them."""
    node = (metadata.get("metadata") or {}).get("langgraph_node")
    return frozenset(filter(None, (metadata.get("name"), node, *(metadata.get("tags") or ()))))


def in_prompt(prompt: str, documents: Sequence[Document]) -> list[Document]:
    texts = texts_in_prompt(prompt, [document.page_content for document in documents])
    return [document for document in documents if document.page_content in texts]
