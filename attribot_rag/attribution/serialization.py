"""Dataclasses as plain data, after a versioned schema, and back."""

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

from attribot_rag.errors import SchemaError
from attribot_rag.result.summary_schema import SCHEMA_VERSION

CONFIG = ConfigDict(extra="forbid", use_attribute_docstrings=True)
_MAX_PROBLEMS = 3

# An innermost array without strings. A line feed within a string is written as \n, so that what
# follows a real line feed is never part of a text.
_BROKEN_ROW = re.compile(r"\[\n([^\[\]{}\"]*)\]")


def to_json(data: dict[str, Any], indent: int | None) -> str:
    """JSON text: on one line, or with `indent` on many, but each row of numbers on one."""
    text = json.dumps(data, ensure_ascii=False, indent=indent, allow_nan=False)
    return _BROKEN_ROW.sub(lambda row: f"[{' '.join(row[1].split())}]", text)


def parsed(text: str) -> Any:
    """The JSON of a text; raises SchemaError for invalid JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"this is not JSON: {error}") from error


def from_plain(kind: Any, data: Mapping[str, Any]) -> Any:
    """The attribution; raises SchemaError naming the fields that do not follow the schema.

    Unknown fields of the attribution are left out: a later minor version may have added them.
    """
    if not isinstance(data, Mapping):
        raise SchemaError(f"an attribution is an object, not {type(data).__name__}")
    version = str(data.get("schema_version"))
    if version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise SchemaError(
            f"schema_version is {version!r}; this release reads {SCHEMA_VERSION.split('.')[0]}.x"
        )
    values = {field.name: data[field.name] for field in fields(kind) if field.name in data}
    try:
        (result,) = _adapter(kind).validate_python([values])
    except ValidationError as error:
        problems = "; ".join(map(_described, error.errors(include_url=False)[:_MAX_PROBLEMS]))
        raise SchemaError(f"this is not an attribution: {problems}") from error
    return result


@cache
def _adapter(kind: Any) -> TypeAdapter[list[Any]]:
    # Of a list, because pydantic takes no configuration for a dataclass alone.
    return TypeAdapter(list[kind], config=CONFIG)


def _described(problem: ErrorDetails) -> str:
    path = ".".join(map(str, problem["loc"][1:]))
    if problem["type"] == "missing":
        return f"the field {path!r} is missing"
    reason = str(problem.get("ctx", {}).get("error") or problem["msg"])
    return f"the field {path!r}: {reason}" if path else reason


def plain(value: Any) -> Any:
    """A copy of JSON's types: dataclasses as objects, other unknown values as text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)
