"""Attributions as plain data, after a versioned schema, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from attribot_rag.attribution.result import Attribution, Provenance
from attribot_rag.context import Document, DocumentSpan, Occurrence, Source
from attribot_rag.errors import SchemaError

SCHEMA_VERSION = "1.0"


def to_dict(attribution: Attribution) -> dict[str, Any]:
    """Plain dicts, lists, strings and numbers, but for what the documents' metadata hold."""
    data = {
        field.name: getattr(attribution, field.name)
        for field in fields(attribution)
        if field.name not in ("documents", "sources", "provenance")
    }
    return {
        "schema_version": SCHEMA_VERSION,
        **_as_lists(data),
        "documents": [
            {"id": one.id, "text": one.text, "metadata": dict(one.metadata)}
            for one in attribution.documents
        ],
        "sources": [_as_lists(asdict(source)) for source in attribution.sources],
        "provenance": _as_lists(asdict(attribution.provenance)),
    }


def from_json(text: str) -> Attribution:
    """Parse JSON text; raises SchemaError if it is not JSON or does not follow the schema."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"this is no JSON: {error}") from error
    return from_dict(data)


def from_dict(data: Mapping[str, Any]) -> Attribution:
    """Rebuild an attribution; raises SchemaError naming what is missing or of a wrong kind."""
    if not isinstance(data, Mapping):
        raise SchemaError(f"an attribution is an object, not {type(data).__name__}")
    version = str(data.get("schema_version"))
    if version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise SchemaError(
            f"schema_version is {version!r}; this release reads {SCHEMA_VERSION.split('.')[0]}.x"
        )
    try:
        return Attribution(
            response=data["response"],
            token_spans=tuple((start, end) for start, end in data["token_spans"]),
            token_log_likelihoods=tuple(data["token_log_likelihoods"]),
            documents=tuple(Document(**document) for document in data["documents"]),
            not_located=tuple(data["not_located"]),
            sources=tuple(map(_source, data["sources"])),
            token_scores=tuple(None if row is None else tuple(row) for row in data["token_scores"]),
            exact=tuple(data["exact"]),
            notes=tuple(data["notes"]),
            provenance=Provenance(**data["provenance"]),
        )
    except KeyError as error:
        raise SchemaError(f"the field {error} is missing") from error
    except (TypeError, ValueError) as error:
        raise SchemaError(f"a field is not as the schema has it: {error}") from error


def _source(data: Mapping[str, Any]) -> Source:
    occurrences = (
        Occurrence(
            place["start"], place["end"], tuple(DocumentSpan(**span) for span in place["spans"])
        )
        for place in data["occurrences"]
    )
    return Source(data["id"], data["text"], tuple(occurrences))


def _as_lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_as_lists(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _as_lists(item) for key, item in value.items()}
    return value
