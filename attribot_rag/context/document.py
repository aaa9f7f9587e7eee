"""Documents, their sources, and the places of these in the prompt."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attribot_rag.cached_property import cached_property
from attribot_rag.errors import InvalidInput

# Fields that contain a document's text, and fields that are then ignored: LangChain writes
# the name of the class.
_TEXT_FIELDS: Mapping[str, tuple[str, ...]] = {"text": (), "page_content": ("type",)}
_TITLES = ("title", "source", "file", "file_name", "file_path")
_URLS = ("url", "link", "source")
_SCHEMES = ("http://", "https://")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True)
class Document:
    """A retrieved chunk: its text, its id and its metadata."""

    text: str
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_blank(self) -> bool:
        """Whether it has only white space and control characters."""
        return all(
            character.isspace() or unicodedata.category(character)[0] == "C"
            for character in self.text
        )

    @cached_property
    def title(self) -> str:
        """The title or file in its metadata; '' without either."""
        return next(self._texts(_TITLES), "")

    @property
    def url(self) -> str:
        """The link in its metadata; '' without a link."""
        return next((url for url in self._texts(_URLS) if url.startswith(_SCHEMES)), "")

    @property
    def page(self) -> str:
        """The page number in its metadata; '' if unknown.

        It is the `page_label` of PDF readers. Their `page` may count from 0.
        """
        label = self.metadata.get("page_label")
        return str(label).strip() if isinstance(label, str | int) else ""

    @property
    def section(self) -> str:
        """The heading above it in its file, by its metadata; '' if unknown."""
        return next(self._texts(["section"]), "")

    def _texts(self, keys: Sequence[str]) -> Iterator[str]:
        values = (self.metadata.get(key) for key in keys)
        return (text for text in values if isinstance(text, str) and text.strip())

    @classmethod
    def of(cls, value: str | Document | Mapping[str, Any] | Any) -> Document:
        """A Document from a text, a Document, or a framework's document.

        A framework's document is a mapping or an object. It has its text as `text` or
        `page_content`, and perhaps `id` and `metadata`. Raises InvalidInput for other values.
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


def label_of(document: Document, index: int) -> str:
    """A document's title (or its file), page and id; without these, its index from 1.

    A UUID is left out if there is a title.
    """
    title = document.title
    identifier = str(document.id) if document.id is not None else ""
    named = title if title not in identifier else ""
    if title and _UUID.fullmatch(identifier):
        identifier = ""
    page = f"p. {document.page}" if document.page else ""
    name = ", ".join(filter(None, [named or identifier, page]))
    if named and identifier:
        return f"{name} ({identifier})"
    return name or f"document {index + 1}"


# Any: the documents of frameworks, as Document.of reads them.
Documents = Sequence[str | Document | Mapping[str, Any] | Any]


def documents_of(documents: Documents) -> tuple[Document, ...]:
    """The documents of a list. Raises InvalidInput for anything else, and for an empty list."""
    if isinstance(documents, str | Mapping | Document) or not documents:
        raise InvalidInput(f"documents={documents!r}; pass a list of at least one document")
    return tuple(map(Document.of, documents))


@dataclass(frozen=True)
class DocumentSpan:
    """Characters [start, end) of the document with this index."""

    document: int
    start: int
    end: int


@dataclass(frozen=True)
class Occurrence:
    """A place of a source in the prompt.

    `start` and `end` are characters [start, end) of the decoded prompt, with special tokens;
    results do not contain that text. `spans` are the characters of the documents at this place. A
    copy outside of documents has none.
    """

    start: int
    end: int
    spans: tuple[DocumentSpan, ...]


@dataclass(frozen=True)
class Source:
    """The unit that is scored: a piece of text with all its places in the prompt.

    Equal and nearly equal texts are one source, which is ablated everywhere at once.
    """

    id: int
    text: str
    occurrences: tuple[Occurrence, ...]

    @cached_property
    def documents(self) -> tuple[int, ...]:
        """Indices of the documents that contain this source, ascending."""
        spans = (span for occurrence in self.occurrences for span in occurrence.spans)
        return tuple(sorted({span.document for span in spans}))
