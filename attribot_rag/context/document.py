"""The nouns of a located context: documents, sources and where they stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attribot_rag.errors import InvalidInput


@dataclass(frozen=True)
class Document:
    """One retrieved chunk: its text, and whatever its owner wants to find in the result again."""

    text: str
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, value: str | Document | Mapping[str, Any]) -> Document:
        """A document from a plain text, a mapping with the same fields, or a Document itself."""
        if isinstance(value, Document):
            return value
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, Mapping) and isinstance(value.get("text"), str):
            unknown = set(value) - {"text", "id", "metadata"}
            if unknown:
                raise InvalidInput(
                    f"unknown document fields {sorted(map(str, unknown))}; a document has text, "
                    "id and metadata"
                )
            metadata = value.get("metadata") or {}
            if not isinstance(metadata, Mapping):
                raise InvalidInput(f"metadata={metadata!r} of a document; pass a mapping")
            return cls(value["text"], value.get("id"), dict(metadata))
        raise InvalidInput(
            f"a document of type {type(value).__name__} cannot be read; pass a str, a Document, or "
            "a mapping with a 'text'"
        )


@dataclass(frozen=True)
class DocumentSpan:
    """Characters [start, end) of the document with this index."""

    document: int
    start: int
    end: int


@dataclass(frozen=True)
class Occurrence:
    """One place where a source's text stands in the prompt: characters [start, end).

    `spans` name the documents that hold this very place; none for a copy outside of them.
    """

    start: int
    end: int
    spans: tuple[DocumentSpan, ...]


@dataclass(frozen=True)
class Source:
    """The unit that is scored: a piece of text with all the places where it stands.

    Equal and near-equal texts are one source, ablated everywhere at once.
    """

    id: int
    text: str
    occurrences: tuple[Occurrence, ...]

    @property
    def documents(self) -> tuple[int, ...]:
        """Indices of the documents that hold this source, ascending."""
        spans = (span for occurrence in self.occurrences for span in occurrence.spans)
        return tuple(sorted({span.document for span in spans}))
