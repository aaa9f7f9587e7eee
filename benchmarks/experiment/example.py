"""Questions with their contexts, from a data set."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.context import Document, DocumentSpan
from attribot_rag.context.splitting.splitter import Splitter


@dataclass(frozen=True)
class Example:
    """A question with its documents, in the order in which they are in the prompt.

    `key` is the data set's name, a slash, and the example's id. `source_texts` are the sources of
    each document as the data set has them (joined, they are the document's text); None: sentences.
    `evidence` are the spans that annotators marked as holding the answer. `response` is the
    recorded answer of a log, None if the model is to generate it.
    """

    key: str
    question: str
    documents: tuple[Document, ...]
    source_texts: tuple[tuple[str, ...], ...] | None = None
    evidence: tuple[DocumentSpan, ...] = ()
    response: str | None = None

    @property
    def source_unit(self) -> str | Splitter:
        """The splitter of these documents into sources, for ContextOptions."""
        if self.source_texts is None:
            return "sentence"
        sources = {"".join(texts): texts for texts in self.source_texts}
        return sources.__getitem__


@dataclass(frozen=True)
class Loaded:
    """The examples of a file, and the problem of each line that is no example.

    `ignored` are the fields of a log's lines that are not read.
    """

    examples: tuple[Example, ...]
    problems: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
