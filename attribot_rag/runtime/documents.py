"""Retrieved documents of applications: how they are read, merged, and found in a prompt."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from attribot_rag.context import Document, texts_in_prompt
from attribot_rag.errors import InvalidInput

_TEXT_FIELDS = ("page_content", "text")


def told_document(value: Any) -> Document:
    """A Document from a search result: what `Document.of` takes, a pair with a score, or a mapping.

    The text of a mapping is its `page_content` or `text`, or else its longest text. Its other
    fields become metadata. Raises InvalidInput if there is no text.
    """
    if isinstance(value, tuple):
        parts = [part for part in value if not isinstance(part, Real)]
        return told_document(parts[0]) if len(parts) == 1 else Document.of(value)
    if not isinstance(value, Mapping):
        return Document.of(value)
    texts = {name: text for name, text in value.items() if isinstance(text, str)}
    name = next((name for name in _TEXT_FIELDS if name in texts), None)
    if name is None:
        name = max(texts, key=lambda name: len(texts[name]), default=None)
    if name is None:
        raise InvalidInput(
            f"a document with the fields {sorted(map(str, value))} has no text; pass it as a str "
            "under 'text'"
        )
    attached = value.get("metadata")
    metadata = {str(key): field for key, field in value.items() if key not in (name, "id")}
    if isinstance(attached, Mapping):
        del metadata["metadata"]
        metadata.update(attached)
    if name == "page_content":
        metadata.pop("type", None)  # the class, which LangChain adds
    id_ = value.get("id")
    return Document(texts[name], None if id_ is None else str(id_), metadata)


_PIECE = 8  # characters, without white space
_VERSION_SHARE = 0.7
_MIN_VALUE = 4
_METADATA_READ = (
    "The model also read metadata of the documents, which were not scored: an answer may come from "
    "them."
)


def by_text(document: Any) -> str:
    """A key that is equal for a document and its copy with more metadata, such as a rank."""
    read = Document.of(document)
    return json.dumps([read.id, read.text])


def merge_documents(lists: Iterable[Sequence[Any]], *, exact: bool = False) -> list[Any]:
    """All documents of all lists, each as often as in the list with most copies.

    Two documents are the same if their texts are equal, unless their ids differ. With `exact`, the
    metadata that both have must be equal too. The copy with most information is kept.
    """
    lists = [documents for documents in lists if documents]
    if len(lists) < 2:
        return [document for documents in lists for document in documents]
    merged: list[Any] = []
    kept: list[Document] = []  # the same, as they are read
    places: defaultdict[str, list[int]] = defaultdict(list)  # of a text's documents
    for documents in lists:
        free = {text: list(indices) for text, indices in places.items()}
        for document, read in zip(documents, [*map(Document.of, documents)], strict=True):
            alike = [
                index
                for index in free.get(read.text, ())
                if _are_same(read, kept[index], exact=exact)
            ]
            if not alike:
                places[read.text].append(len(merged))
                merged.append(document)
                kept.append(read)
                continue
            equal = (index for index in alike if repr(read) == repr(kept[index]))
            index = next(equal, alike[0])
            free[read.text].remove(index)
            known = kept[index]
            if (bool(read.id), len(read.metadata)) > (bool(known.id), len(known.metadata)):
                merged[index], kept[index] = document, read
    return merged


def _are_same(document: Document, other: Document, *, exact: bool) -> bool:
    if document.id and other.id and document.id != other.id:
        return False
    shared = document.metadata.keys() & other.metadata.keys() if exact else ()
    return all(repr(document.metadata[key]) == repr(other.metadata[key]) for key in shared)


def are_versions(document: Any, other: Any) -> bool:
    """Whether two documents share an id, and one is a shorter or changed text of the other.

    Chunks of a file may share its id. So most of the shorter text, in pieces of eight characters,
    must stand in the other text.
    """
    first, second = Document.of(document), Document.of(other)
    if not first.id or first.id != second.id:
        return False
    small, large = sorted(map(_pieces, (first.text, second.text)), key=len)
    return len(small & large) >= _VERSION_SHARE * len(small)


def _pieces(text: str) -> frozenset[str]:
    plain = "".join(text.split()).casefold()
    return frozenset(plain[i : i + _PIECE] for i in range(max(1, len(plain) - _PIECE + 1)))


def in_prompt(prompt: str, documents: Sequence[Any]) -> list[Any]:
    """The documents whose text is in the prompt."""
    texts = [Document.of(document).text for document in documents]
    present = texts_in_prompt(prompt, texts)
    return [document for document, text in zip(documents, texts, strict=True) if text in present]


def metadata_note(documents: Sequence[Any], prompt: str) -> str:
    """A note if the prompt also contains values of the documents' metadata, or ''.

    Values of less than four characters are ignored.
    """
    read = list(map(Document.of, documents))
    texts = "\n".join(document.text for document in read)
    values = (value for document in read for value in document.metadata.values())
    readable = (value for value in values if isinstance(value, str) and len(value) >= _MIN_VALUE)
    return (
        _METADATA_READ if any(value in prompt and value not in texts for value in readable) else ""
    )
