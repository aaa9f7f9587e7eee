"""Attributions as plain data, after a versioned schema, and back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from attribot_rag.attribution.result import Attribution
from attribot_rag.errors import SchemaError

SCHEMA_VERSION = "1.3"
CONFIG = ConfigDict(extra="forbid", use_attribute_docstrings=True)
_MAX_PROBLEMS = 3

# An innermost array without strings. A line feed within a string is written as \n, so that what
# follows a real line feed is never part of a text.
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
    """Rebuild an attribution; raises SchemaError naming the fields that do not follow the schema.

    Unknown fields of the attribution are left out: a later minor version may have added them.
    """
    if not isinstance(data, Mapping):
        raise SchemaError(f"an attribution is an object, not {type(data).__name__}")
    version = str(data.get("schema_version"))
    if version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise SchemaError(
            f"schema_version is {version!r}; this release reads {SCHEMA_VERSION.split('.')[0]}.x"
        )
    known = {field.name: data[field.name] for field in fields(Attribution) if field.name in data}
    try:
        (attribution,) = _adapter().validate_python([known])
    except ValidationError as error:
        problems = "; ".join(map(_described, error.errors(include_url=False)[:_MAX_PROBLEMS]))
        raise SchemaError(f"this is no attribution: {problems}") from error
    return attribution


@cache
def _adapter() -> TypeAdapter[list[Attribution]]:
    """Of a list, because pydantic takes no configuration for a dataclass alone."""
    return TypeAdapter(list[Attribution], config=CONFIG)


def _described(problem: ErrorDetails) -> str:
    """What is wrong with which field."""
    path = ".".join(map(str, problem["loc"][1:]))
    if problem["type"] == "missing":
        return f"the field {path!r} is missing"
    reason = str(problem.get("ctx", {}).get("error") or problem["msg"])
    return f"the field {path!r}: {reason}" if path else reason


def _plain(value: Any) -> Any:
    """What JSON knows: dataclasses as objects, any other unknown value as text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)
