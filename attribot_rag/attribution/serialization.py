"""Attributions as plain data, after a versioned schema, and back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any

from attribot_rag.attribution.result import Attribution, Provenance, SourceGroup
from attribot_rag.attribution.verdict import Marker, Verdict
from attribot_rag.context import Document, DocumentSpan, Occurrence, Source
from attribot_rag.errors import SchemaError

SCHEMA_VERSION = "1.3"

# An innermost array without strings. A line feed within a string is written as \n, so that what
# follows a real one is never part of a text.
_BROKEN_ROW = re.compile(r"\[\n([^\[\]{}\"]*)\]")


def to_dict(attribution: Attribution) -> dict[str, Any]:
    """Dicts, lists, strings, finite numbers, booleans and None; nothing shared with the input."""
    data: dict[str, Any] = _plain(attribution)
    return {"schema_version": SCHEMA_VERSION, **data}


def to_json(attribution: Attribution, indent: int | None) -> str:
    """JSON text of `to_dict`, on one line without `indent`."""
    data = to_dict(attribution)
    text = json.dumps(data, ensure_ascii=False, indent=indent, allow_nan=False)
    return _BROKEN_ROW.sub(lambda row: f"[{' '.join(row[1].split())}]", text)


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
            token_log_likelihoods=tuple(map(float, data["token_log_likelihoods"])),
            documents=tuple(Document(**document) for document in data["documents"]),
            not_located=tuple(data["not_located"]),
            sources=tuple(map(_source, data["sources"])),
            token_scores=tuple(
                None if row is None else tuple(map(float, row)) for row in data["token_scores"]
            ),
            exact=tuple(data["exact"]),
            notes=tuple(data["notes"]),
            provenance=Provenance(**data["provenance"]),
            partly_located={
                int(index): float(share) for index, share in data.get("partly_located", {}).items()
            },
            groups=tuple(map(_group, data.get("groups", ()))),
            context_reliance=_numbers(data.get("context_reliance")),
            agreement=data.get("agreement"),
            unit=data.get("unit", "nats"),
            partial=data.get("partial", False),
            verdicts=tuple(map(_verdict, data.get("verdicts", ()))),
            markers=tuple(Marker(**marker) for marker in data.get("markers", ())),
        )
    except KeyError as error:
        raise SchemaError(f"the field {error} is missing") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise SchemaError(f"a field is not as the schema has it: {error}") from error


def _source(data: Mapping[str, Any]) -> Source:
    occurrences = (
        Occurrence(
            place["start"], place["end"], tuple(DocumentSpan(**span) for span in place["spans"])
        )
        for place in data["occurrences"]
    )
    return Source(data["id"], data["text"], tuple(occurrences))


def _group(data: Mapping[str, Any]) -> SourceGroup:
    scores = tuple(map(float, data["token_scores"]))
    return SourceGroup(tuple(data["source_ids"]), scores, data["exact"])


def _verdict(data: Mapping[str, Any]) -> Verdict:
    return Verdict(**{**data, "source_ids": tuple(data["source_ids"])})


def _numbers(row: list[float] | None) -> tuple[float, ...] | None:
    return None if row is None else tuple(map(float, row))


def _plain(value: Any) -> Any:
    """What JSON knows: dataclasses as objects, any other unknown value as text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)
