"""A question with its context, as a data set has it."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.context import Document, DocumentSpan
from attribot_rag.context.splitter import Splitter


@dataclass(frozen=True)
class Example:
    """A question with its documents, in the order in which they stand in the prompt.

    `key` is the data set's name, a slash, and the example's id. `pieces` are the sources of each
    document as the data set cuts it, which joined are its text; None leaves that to our splitter.
    `evidence` is what people marked as holding the answer. `response`, if the data set is a log,
    is what a model answered.
    """

    key: str
    question: str
    documents: tuple[Document, ...]
    pieces: tuple[tuple[str, ...], ...] | None = None
    evidence: tuple[DocumentSpan, ...] = ()
    response: str | None = None

    @property
    def source_unit(self) -> str | Splitter:
        """What cuts these documents into sources, for ContextOptions."""
        if self.pieces is None:
            return "sentence"
        cut = {"".join(held): held for held in self.pieces}
        return cut.__getitem__
