"""Lists of retrieved documents, as an application passes them on from step to step."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from attribot_rag.context import Document, texts_in_prompt

_PIECE = 8  # characters, of which white space is none
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

    Documents with one text are the same document, unless they have different ids, or, if `exact`,
    another value of the same metadata. Of the same document, the copy that says most is kept.
    """
    merged: list[Any] = []
    places: defaultdict[str, list[int]] = defaultdict(list)  # of a text's documents
    for documents in lists:
        free = {text: list(indices) for text, indices in places.items()}
        for document in documents:
            read = Document.of(document)
            alike = [
                index
                for index in free.get(read.text, ())
                if _are_same(read, Document.of(merged[index]), exact=exact)
            ]
            if not alike:
                places[read.text].append(len(merged))
                merged.append(document)
                continue
            index = max(alike, key=lambda index: _equals(read, Document.of(merged[index])))
            free[read.text].remove(index)
            if _told(read) > _told(Document.of(merged[index])):
                merged[index] = document
    return merged


def _are_same(document: Document, other: Document, *, exact: bool) -> bool:
    if document.id and other.id and document.id != other.id:
        return False
    shared = document.metadata.keys() & other.metadata.keys() if exact else ()
    return all(repr(document.metadata[key]) == repr(other.metadata[key]) for key in shared)


def _equals(document: Document, other: Document) -> bool:
    return document.id == other.id and repr(document.metadata) == repr(other.metadata)


def _told(document: Document) -> tuple[bool, int]:
    """More for a document of which more is known."""
    return bool(document.id), len(document.metadata)


def are_versions(document: Any, other: Any) -> bool:
    """Whether two documents share an id and differ by a cut or a change of text.

    Chunks of a file may share its id: they are versions only if most of the shorter text, in pieces
    of eight characters, stands in the other.
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
    """A note if the prompt also holds values of the documents' metadata, or ''.

    Texts of less than four characters are no sign.
    """
    read = list(map(Document.of, documents))
    texts = "\n".join(document.text for document in read)
    values = (value for document in read for value in document.metadata.values())
    readable = (value for value in values if isinstance(value, str) and len(value) >= _MIN_VALUE)
    return (
        _METADATA_READ if any(value in prompt and value not in texts for value in readable) else ""
    )
