"""The nouns of a located context: documents, sources and where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attribot_rag.errors import InvalidInput

# What holds a document's text, with the fields that stand beside it and say nothing: LangChain
# writes the name of the class.
_TEXT_FIELDS: Mapping[str, tuple[str, ...]] = {"text": (), "page_content": ("type",)}
_TITLES = ("title", "source", "file", "file_name", "file_path")
_URLS = ("url", "link", "source")
_SCHEMES = ("http://", "https://")


@dataclass(frozen=True)
class Document:
    """One retrieved chunk: its text, and whatever its owner wants to find in the result again."""

    text: str
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What its metadata calls it, or where that says it is from; '' if it does neither."""
        return next(self._texts(_TITLES), "")

    @property
    def url(self) -> str:
        """Where its metadata says that it can be read, '' if nowhere."""
        return next((one for one in self._texts(_URLS) if one.startswith(_SCHEMES)), "")

    @property
    def page(self) -> str:
        """The number that is printed on its page, or its place counted from 1; '' if unknown.

        This is `page_label`, which readers of PDF files give; their `page` may count from 0.
        """
        label = self.metadata.get("page_label")
        return str(label).strip() if isinstance(label, str | int) else ""

    def _texts(self, keys: Sequence[str]) -> Iterator[str]:
        given = (self.metadata.get(key) for key in keys)
        return (one for one in given if isinstance(one, str) and one.strip())

    @classmethod
    def of(cls, value: str | Document | Mapping[str, Any] | Any) -> Document:
        """A document from a plain text, a Document, or what a framework calls one.

        That is a mapping or an object with its text under `text` or `page_content`, and perhaps
        `id` and `metadata`. Raises InvalidInput for anything else.
        """
        if isinstance(value, Document):
            return value
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, Mapping):
            return cls._of_fields(value)
        for name in _TEXT_FIELDS:
            if isinstance(getattr(value, name, None), str):
                fields = {key: getattr(value, key, None) for key in (name, "id", "metadata")}
                return cls._of_fields(fields)
        raise InvalidInput(
            f"a document of type {type(value).__name__} cannot be read; pass a str, a Document, or "
            "a mapping or object with a 'text' or 'page_content'"
        )

    @classmethod
    def _of_fields(cls, fields: Mapping[str, Any]) -> Document:
        name = next((name for name in _TEXT_FIELDS if isinstance(fields.get(name), str)), None)
        if name is None:
            raise InvalidInput(
                f"a document with the fields {sorted(map(str, fields))} has no text; pass it as a "
                "str under 'text' or 'page_content'"
            )
        unknown = set(fields) - {name, "id", "metadata", *_TEXT_FIELDS[name]}
        if unknown:
            raise InvalidInput(
                f"unknown document fields {sorted(map(str, unknown))}; a document has {name}, "
                "id and metadata"
            )
        metadata = fields.get("metadata") or {}
        if not isinstance(metadata, Mapping):
            raise InvalidInput(f"metadata={metadata!r} of a document; pass a mapping")
        return cls(fields[name], fields.get("id"), dict(metadata))


@dataclass(frozen=True)
class DocumentSpan:
    """Characters [start, end) of the document with this index."""

    document: int
    start: int
    end: int


@dataclass(frozen=True)
class Occurrence:
    """One place where a source's text stands in the prompt.

    `start` and `end` are characters [start, end) of the decoded prompt, which a result does not
    hold: decode the prompt's ids, special tokens included, to look there. `spans` name the
    documents that hold this very place, in their characters; none for a copy outside of them.
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
