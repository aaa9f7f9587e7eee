"""Data files as validated values; errors name the file, the line or the path, and the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import StrictStr, TypeAdapter, ValidationError

from attribot_rag.errors import InvalidInput

Text = StrictStr
T = TypeVar("T")

_SHOWN = 60


def parse(text: str, path: Path, first_line: int = 1) -> Any:
    """The value of JSON text; raises InvalidInput with the line if the text is not JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        at_its_end = error.pos >= len(text.rstrip()) or "Unterminated" in error.msg
        hint = "; is the file cut short?" if at_its_end else ""
        raise InvalidInput(
            f"{path}:{line}: no JSON at column {error.colno}: {error.msg}{hint}"
        ) from error
    except ValueError as error:  # such as a number of too many digits
        raise InvalidInput(f"{path}:{first_line}: no JSON: {error}") from error
    except RecursionError as error:
        raise InvalidInput(f"{path}:{first_line}: JSON nested too deeply") from error


def validated(kind: type[T], value: Any, place: str) -> T:
    """The value as this type; raises InvalidInput with the first wrong field, after the `place`."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in wrong["loc"])
    if wrong["type"] == "missing":
        raise InvalidInput(f"{place}{path}: the field is missing")
    message = "Input should be an object" if wrong["type"] == "model_type" else wrong["msg"]
    shown = json.dumps(wrong["input"], ensure_ascii=False, default=repr)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    raise InvalidInput(f"{place}{path}: {message}, not {shown}")
