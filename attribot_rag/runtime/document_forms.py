"""Documents in the forms of applications' search results."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

from attribot_rag.context import Document
from attribot_rag.errors import InvalidInput

_TEXT_FIELDS = ("page_content", "text")


def told_document(value: Any) -> Document:
    """A document from a search result: as `Document.of`, beside a score, or any mapping.

    The text of a mapping is its `page_content` or `text`, or else its longest text; its other
    fields are metadata. Raises InvalidInput where there is no text.
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
        metadata.pop("type", None)  # the class, which LangChain writes beside it
    id_ = value.get("id")
    return Document(texts[name], None if id_ is None else str(id_), metadata)
