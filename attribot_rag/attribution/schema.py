"""The JSON schemas of attributions and of their summaries, generated from the types."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from attribot_rag.attribution.attribution import Attribution
from attribot_rag.attribution.serialization import CONFIG
from attribot_rag.result import Result
from attribot_rag.result.summary import MAX_SUMMARY_BYTES
from attribot_rag.result.summary_schema import SCHEMA_VERSION, SchemaVersion, Summary

_SUMMARY = (
    "What is attached to an answer: the summary of its attribution, or why there is none, or that "
    f"it is still under way. At most {MAX_SUMMARY_BYTES:,} bytes as JSON. Characters are Unicode "
    "code points, intervals [start, end) from 0."
)


class _WithoutTitles(GenerateJsonSchema):
    """Pydantic's generator without titles, which would repeat the names of the fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def attribution_schema() -> dict[str, Any]:
    """The schema of `Attribution.to_dict()`."""
    definitions = _definitions(list[Result])
    root = {
        **definitions.pop("Result"),
        "title": Attribution.__name__,
        "description": inspect.getdoc(Attribution),
    }
    version = TypeAdapter(SchemaVersion).json_schema()
    root["properties"] = {"schema_version": version, **root["properties"]}
    root["required"] = ["schema_version", *root["required"]]
    return {**_head("attribution"), **root, "$defs": definitions}


def summary_schema() -> dict[str, Any]:
    """The schema of the summary attached to an answer, attributed or not."""
    return {
        **_head("summary"),
        "title": "Summary of an attribution",
        "description": _SUMMARY,
        "$ref": "#/$defs/Summary",
        "$defs": _definitions(list[Summary]),
    }


def _head(name: str) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://attribot-rag.dev/schema/{SCHEMA_VERSION}/{name}.json",
    }


def _definitions(values: Any) -> dict[str, Any]:
    schema = TypeAdapter(values, config=CONFIG).json_schema(schema_generator=_WithoutTitles)
    definitions: dict[str, Any] = schema["$defs"]
    return definitions


def write_schemas(folder: Path) -> None:
    """Write attribution.json and summary.json into the folder."""
    for name, schema in (("attribution", attribution_schema()), ("summary", summary_schema())):
        text = json.dumps(schema, ensure_ascii=False, indent=2)
        (folder / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
