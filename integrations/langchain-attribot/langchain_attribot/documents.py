"""Documents in the inputs, outputs and messages of LangChain."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage

from attribot_rag.runtime import told_document

METADATA_KEY = "attribot_documents"
"""Where a run's configuration may name documents that are in the prompt as plain text."""

_MAX_DEPTH = 4
_PIECE = 8  # characters, of which white space is none
_VERSION_SHARE = 0.7
_MIN_VALUE = 4
_METADATA_READ = (
    "The model also read metadata of the documents, which were not scored: an answer may come from "
    "them."
)


def documents_in(value: Any, depth: int = _MAX_DEPTH) -> Iterator[Document]:
    """Documents in dicts, lists and artifacts of tool messages, in their order."""
    if isinstance(value, Document):
        yield value
    elif depth and isinstance(value, BaseMessage):
        yield from documents_in(getattr(value, "artifact", None), depth - 1)
    elif depth and isinstance(value, Mapping):
        if isinstance(value.get("page_content"), str):  # as JSON and checkpoints give it back
            yield _told_document(value)
            return
        for item in value.values():
            yield from documents_in(item, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for item in value:
            yield from documents_in(item, depth - 1)


def retrieved_documents(messages: Sequence[BaseMessage]) -> list[Document]:
    """Documents in the artifacts of messages; those that several tools or turns found, once."""
    return merged((list(documents_in(message)) for message in messages), by_everything)


def named_documents(metadata: Mapping[str, Any] | None) -> list[Document]:
    """Documents that a run's configuration names, as Documents, mappings or texts."""
    return list(told_documents((metadata or {}).get(METADATA_KEY) or ()))


def told_documents(values: Iterable[Any]) -> Iterator[Document]:
    """Documents as an application has them: LangChain's, with scores or not, texts or mappings.

    A single document needs no list.
    """
    is_single = isinstance(values, str | Document | Mapping)
    for value in [values] if is_single else values:
        parts = value if isinstance(value, tuple) else (value,)
        own = [part for part in parts if isinstance(part, Document)]
        yield from own or [_told_document(value)]


def _told_document(value: Any) -> Document:
    document = told_document(value)
    return Document(page_content=document.text, id=document.id, metadata=dict(document.metadata))


def merged(lists: Iterable[Sequence[Document]], key: Callable[[Document], str]) -> list[Document]:
    """All documents of all lists, each as often as the list that has it most often.

    Documents with equal keys are the same document.
    """
    unique: dict[tuple[str, int], Document] = {}
    for documents in lists:
        counts: Counter[str] = Counter()
        for document in documents:
            name = key(document)
            counts[name] += 1
            unique.setdefault((name, counts[name]), document)
    return list(unique.values())


def are_versions(document: Document, other: Document) -> bool:
    """Whether two documents with one id are one document, of which a step cut or changed the text.

    Chunks of a file may share its id: they are versions only if most of the shorter text, in pieces
    of eight characters, stands in the other.
    """
    if not document.id or document.id != other.id:
        return False
    small, large = sorted((_pieces(side.page_content) for side in (document, other)), key=len)
    return len(small & large) >= _VERSION_SHARE * len(small)


def _pieces(text: str) -> frozenset[str]:
    plain = "".join(text.split()).casefold()
    return frozenset(plain[i : i + _PIECE] for i in range(max(1, len(plain) - _PIECE + 1)))


def metadata_note(documents: Sequence[Document], prompt: str) -> str:
    """A note where a prompt also holds what the documents' metadata say, or ''.

    As a chain's `document_prompt` writes it there; texts of less than four characters are no sign.
    """
    texts = "\n".join(document.page_content for document in documents)
    values = (value for document in documents for value in document.metadata.values())
    readable = (value for value in values if isinstance(value, str) and len(value) >= _MIN_VALUE)
    return (
        _METADATA_READ if any(value in prompt and value not in texts for value in readable) else ""
    )


def by_text(document: Document) -> str:
    """Equal for a document and its copy to which a step added metadata, such as a rank."""
    return json.dumps([document.id, document.page_content])


def by_everything(document: Document) -> str:
    """Equal for unchanged copies only."""
    metadata = sorted((str(key), repr(value)) for key, value in document.metadata.items())
    return json.dumps([document.id, document.page_content, metadata])
