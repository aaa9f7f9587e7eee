"""Which run is part of which, and which documents came up where."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from langchain_core.documents import Document

from attribot_rag.adapting import standing_in
from langchain_attribot.documents import by_everything, by_text, merged

Kind = Literal["chain", "parser", "tool", "retriever", "model"]

_MAX_TREES = 1024


@dataclass(eq=False)
class Run:
    """One run that has begun.

    `given` are documents in its input, `found` those that it gave; a retriever's stand for all that
    other retrievers gave it. `orphan` says that it names a parent that was not seen; `parsed` is
    what an output parser within a root gave last.
    """

    id: UUID
    root: UUID
    kind: Kind
    parent: Run | None
    orphan: bool
    given: Sequence[Document] = ()
    found: Sequence[Document] | None = None
    parsed: Any = None
    children: list[Run] = field(default_factory=list)

    def documents(self) -> list[Document]:
        """All that came up within it.

        What retrievers and tools gave, and what else is seen in inputs and outputs: new documents
        that a step made of those.
        """
        made: list[Sequence[Document]] = []
        seen: list[Sequence[Document]] = []
        self._collect(made, seen)
        return merged([merged(made, by_everything), *seen], by_text)

    def kinds(self) -> Iterator[Kind]:
        """Its own, and those of all within it."""
        yield self.kind
        for child in self.children:
            yield from child.kinds()

    def _collect(self, made: list[Sequence[Document]], seen: list[Sequence[Document]]) -> None:
        seen.append(self.given)
        if self.found is not None:
            (made if self.kind in ("tool", "retriever") else seen).append(self.found)
            if self.kind == "retriever":
                return
        for child in self.children:
            child._collect(made, seen)


class RunTree:
    """Runs that have not ended yet, by id; a root takes everything within it along when it ends.

    Runs of a root that never ends are forgotten after a thousand others have begun.
    """

    def __init__(self) -> None:
        self._runs: dict[UUID, Run] = {}
        self._trees: dict[UUID, list[UUID]] = {}
        self._used: dict[UUID, set[str]] = {}
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._runs) + len(self._trees) + len(self._used)

    def begin(
        self, run_id: UUID, parent_id: UUID | None, kind: Kind, given: Sequence[Document] = ()
    ) -> Run:
        with self._lock:
            parent = None if parent_id is None else self._runs.get(parent_id)
            root = run_id if parent is None else parent.root
            orphan = parent is None and parent_id is not None
            run = Run(run_id, root, kind, parent, orphan, given)
            if parent is not None:
                parent.children.append(run)
            self._runs[run_id] = run
            self._trees.setdefault(root, []).append(run_id)
            if len(self._trees) > _MAX_TREES:
                self.forget(next(iter(self._trees)))
            return run

    def end(
        self, run_id: UUID, found: Sequence[Document] | None = None, output: Any = None
    ) -> Run | None:
        """The run, if it is known, with what it gave; a root is forgotten."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is not None:
                run.found = found
                if run.kind == "parser":
                    self._runs[run.root].parsed = output
                if run.parent is None:
                    self.forget(run_id)
            return run

    def forget(self, root: UUID) -> None:
        with self._lock:
            for run_id in self._trees.pop(root, ()):
                self._runs.pop(run_id, None)
            self._used.pop(root, None)

    def documents_for(self, run: Run, prompt: str) -> list[Document]:
        """Those that can stand in a model's prompt: its own, and its nearest ancestor's with any.

        Documents that came up farther away count if they stand in it. Left out, unless they do, are
        those that an earlier answer within the same root used, and those of which a version does
        that has the same id.
        """
        with self._lock:
            reached: list[Sequence[Document]] = [run.given]
            nearest: list[Document] = []
            ancestor = run.parent
            while ancestor is not None:
                found = ancestor.documents()
                if nearest:  # what is farther away has to be in the prompt
                    found = _standing_in(prompt, found)
                else:
                    nearest = found
                reached.append(found)
                ancestor = ancestor.parent
            candidates = merged(reached, by_text)
            here = _standing_in(prompt, candidates)
            versions = {one.id for one in here if one.id}
            used = self._used.get(run.root, set())
            kept = [
                one
                for one in candidates
                if one in here or (by_text(one) not in used and one.id not in versions)
            ]
            return kept or candidates

    def use(self, run: Run, documents: Sequence[Document]) -> None:
        """Remember that an answer was attributed to these."""
        with self._lock:
            if run.root in self._trees:
                self._used.setdefault(run.root, set()).update(map(by_text, documents))


def _standing_in(prompt: str, documents: Sequence[Document]) -> list[Document]:
    texts = standing_in(prompt, [one.page_content for one in documents])
    return [one for one in documents if one.page_content in texts]
