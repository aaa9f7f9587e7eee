"""A document compressor that removes what retrieved documents repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import Field, model_validator

from attribot_rag.errors import UnknownOption
from attribot_rag.runtime import DeduplicatedText, remove_duplicates

MERGED_KEY = "attribot_merged"


class DeduplicatingCompressor(BaseDocumentCompressor):
    """Removes retrieved documents, and parts of them, that say what others say already.

    Equal and nearly equal documents (`threshold`, a similarity up to 1) and those that another one
    holds are removed; sentences that a document shares with an earlier one, as chunks that overlap
    do, are cut off its beginning and end (`min_overlap` characters or more, None leaves them). A
    document that stands for others names them under `attribot_merged` in its metadata, with their
    ids and metadata. Documents are copied, never changed.
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
