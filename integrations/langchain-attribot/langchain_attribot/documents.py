"""Documents in the inputs, outputs and messages of LangChain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage

from attribot_rag.runtime import merge_documents, told_document

METADATA_KEY = "attribot_documents"
"""The key in a run's metadata that may name documents of the prompt."""

_MAX_DEPTH = 4


def documents_in(value: Any, depth: int = _MAX_DEPTH) -> Iterator[Document]:
    """Documents in dicts, lists and artifacts of tool messages, in their order."""
    if isinstance(value, Document):
        yield value
    elif depth and isinstance(value, BaseMessage):
        yield from documents_in(getattr(value, "artifact", None), depth - 1)
    elif depth and isinstance(value, Mapping):
        if isinstance(value.get("page_content"), str):  # from JSON, or from a checkpoint
            yield _as_document(value)
            return
        for item in value.values():
            yield from documents_in(item, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for item in value:
            yield from documents_in(item, depth - 1)


def structured_response(outputs: Any) -> Any:
    """The structured response that an agent or its node returns, or None."""
    for output in outputs if isinstance(outputs, list) else [outputs]:
        update = output if isinstance(output, Mapping) else getattr(output, "update", None)
        if isinstance(update, Mapping) and update.get("structured_response") is not None:
            return update["structured_response"]
    return None


def retrieved_documents(messages: Sequence[BaseMessage]) -> list[Document]:
    """Documents in the artifacts of messages.

    Those that several tools or turns found count once.
    """
    return merge_documents([list(documents_in(message)) for message in messages], exact=True)


def named_documents(metadata: Mapping[str, Any] | None) -> list[Document]:
    """The documents in a run's metadata: Documents, mappings or texts."""
    return list(as_documents((metadata or {}).get(METADATA_KEY) or ()))


def as_documents(values: Iterable[Any]) -> Iterator[Document]:
    """Documents in an application's form: LangChain's, with or without scores, texts, or mappings.

    A single document needs no list.
    """
    is_single = isinstance(values, str | Document | Mapping)
    for value in [values] if is_single else values:
        parts = value if isinstance(value, tuple) else (value,)
        own = [part for part in parts if isinstance(part, Document)]
        yield from own or [_as_document(value)]


def _as_document(value: Any) -> Document:
    document = told_document(value)
    return Document(page_content=document.text, id=document.id, metadata=dict(document.metadata))
