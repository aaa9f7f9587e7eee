"""Validators of what the package writes, after the schemas that it ships."""

import json
from pathlib import Path
from typing import Any

import jsonschema

import attribot_rag.attribution

FOLDER = Path(attribot_rag.attribution.__file__).parent


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / name).read_text("utf-8"))
    return found


SUMMARY_SCHEMA = schema("summary_schema.json")
SUMMARIES = jsonschema.Draft202012Validator(SUMMARY_SCHEMA)
