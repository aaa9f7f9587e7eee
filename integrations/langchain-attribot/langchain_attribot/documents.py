"""Documents in the inputs, outputs and messages of LangChain, and how to remove duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.messages import BaseMessage
from pydantic import Field, model_validator

from attribot_rag.errors import UnknownOption
from attribot_rag.runtime import DeduplicatedText, merge_documents, remove_duplicates, told_document

METADATA_KEY = "attribot_documents"
"""The key in a run's metadata that may name documents which stand in the prompt."""

_MAX_DEPTH = 4


def documents_in(value: Any, depth: int = _MAX_DEPTH) -> Iterator[Document]:
    """Documents in dicts, lists and artifacts of tool messages, in their order."""
    if isinstance(value, Document):
        yield value
    elif depth and isinstance(value, BaseMessage):
        yield from documents_in(getattr(value, "artifact", None), depth - 1)
    elif depth and isinstance(value, Mapping):
        if isinstance(value.get("page_content"), str):  # from JSON, or from a checkpoint
            yield _told_document(value)
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
    return list(told_documents((metadata or {}).get(METADATA_KEY) or ()))


def told_documents(values: Iterable[Any]) -> Iterator[Document]:
    """Documents in an application's form: LangChain's, with or without scores, texts, or mappings.

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


MERGED_KEY = "attribot_merged"


class DeduplicatingCompressor(BaseDocumentCompressor):
    """Removes retrieved documents, and parts of them, that repeat other documents.

    It removes a document that equals another one, nearly equals it (`threshold`, a similarity up to
    1), or is part of it. It cuts sentences at the beginning and end of a document that an earlier
    one has, as in chunks that overlap (`min_overlap` characters or more; None cuts nothing). A
    document that replaces others lists their ids and metadata under `attribot_merged` in its
    metadata. Documents are copied, never changed.
    """

    threshold: float = Field(default=0.9, gt=0, le=1)
    min_overlap: int | None = Field(default=30, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, options: Any) -> Any:
        if isinstance(options, dict):
            UnknownOption.check(cls.__name__, options, cls.model_fields)
        return options

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        texts = [document.page_content for document in documents]
        kept = remove_duplicates(texts, threshold=self.threshold, min_overlap=self.min_overlap)
        return [_copied(documents, text) for text in kept]


def _copied(documents: Sequence[Document], kept: DeduplicatedText) -> Document:
    document = documents[kept.index]
    duplicates = [documents[index] for index in (*kept.merged, *kept.overlapping)]
    metadata = dict(document.metadata)
    if duplicates:
        metadata[MERGED_KEY] = [
            {"id": other.id, "metadata": dict(other.metadata)} for other in duplicates
        ]
    return document.model_copy(update={"page_content": kept.text, "metadata": metadata})
