"""A run of LangChain, with the documents that are seen in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from langchain_core.documents import Document

from langchain_attribot.documents import by_everything, by_text, merged

Kind = Literal["chain", "parser", "tool", "retriever", "model"]


@dataclass(eq=False)
class Run:
    """A run that has begun, with its name and tags.

    `inputs` are the documents in its input, `outputs` those in its output; a retriever's outputs
    replace those of the retrievers within it. An `orphan` names a parent that was not seen;
    `parsed` is the last output of an output parser within a root; `settled` says that its answer
    was told before it ended. `begun` and `ended` are ticks of its tracker's clock. A run `yields`
    if another handler attached the attribution of its answer.
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
    begun: int = 0
    ended: int | None = None
    yields: bool = False
    children: list[Run] = field(default_factory=list)

    def documents(self, before: int | None = None) -> list[Document]:
        """All documents of the run and the runs within it, if so those seen `before` a tick.

        Those of retrievers and tools, and further ones in inputs and outputs: new documents that a
        step made of those.
        """
        retrieved, passed_on = self._documents(before)
        return merged([merged(retrieved, by_everything), *passed_on], by_text)

    def retrieved(self) -> list[Document]:
        """Those of retrievers and tools alone."""
        return merged(self._documents(None)[0], by_text)

    def within(self) -> Iterator[Run]:
        """The run and all runs within it."""
        yield self
        for child in self.children:
            yield from child.within()

    def outermost(self) -> Run:
        """The run without parent around it."""
        return self if self.parent is None else self.parent.outermost()

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

    def _documents(
        self, before: int | None
    ) -> tuple[list[Sequence[Document]], list[Sequence[Document]]]:
        """The lists of documents that were retrieved, and those in other inputs and outputs."""
        retrieved: list[Sequence[Document]] = []
        passed_on: list[Sequence[Document]] = []
        self._collect(retrieved, passed_on, before)
        return retrieved, passed_on

    def _collect(
        self,
        retrieved: list[Sequence[Document]],
        passed_on: list[Sequence[Document]],
        before: int | None,
    ) -> None:
        if before is not None and self.begun >= before:
            return
        passed_on.append(self.inputs)
        is_ended = before is None or (self.ended is not None and self.ended < before)
        if self.outputs is not None and is_ended:
            (retrieved if self.kind in ("tool", "retriever") else passed_on).append(self.outputs)
            if self.kind == "retriever":
                return
        for child in self.children:
            child._collect(retrieved, passed_on, before)


def names_of(metadata: Mapping[str, Any]) -> frozenset[str]:
    """The name, the tags and the LangGraph node of a run, as its callback is told of them."""
    node = (metadata.get("metadata") or {}).get("langgraph_node")
    return frozenset(filter(None, (metadata.get("name"), node, *(metadata.get("tags") or ()))))
