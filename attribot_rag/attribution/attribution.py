"""The public result: the scores of one response, its renderings, its JSON and its schema."""

from __future__ import annotations

import inspect
import json
import math
import re
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import ErrorDetails

from attribot_rag.display import render_cited, render_html, render_markdown, render_table
from attribot_rag.display.report import Markers
from attribot_rag.errors import SchemaError
from attribot_rag.result import Result
from attribot_rag.result.summary import MAX_SUMMARY_BYTES
from attribot_rag.result.summary_schema import SCHEMA_VERSION, SchemaVersion, Summary


@dataclass(frozen=True, kw_only=True, repr=False)
class Attribution(Result):
    """How much each source in the prompt contributes to each token of one response.

    Scores are leave-one-out errors in nats: log p(response | full prompt) - log p(response | prompt
    without the source). A positive score means that the source makes the response more likely.
    Positions are Unicode code points, intervals [start, end) from 0.
    """

    def to_dict(self) -> dict[str, Any]:
        """The attribution as dicts, lists, strings, finite numbers, booleans and None.

        The page "Results" of the documentation links to the schema. Metadata that JSON cannot
        contain is written as text.
        """
        return {"schema_version": SCHEMA_VERSION, **plain(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Attribution:
        """The attribution that `to_dict` wrote. Raises SchemaError for anything else."""
        attribution: Attribution = _from_plain(cls, data)
        return attribution

    def to_json(self, *, indent: int | None = None) -> str:
        """The JSON of `to_dict`. With `indent`, it has many lines, one for each row of numbers."""
        return to_json(self.to_dict(), indent)

    @classmethod
    def from_json(cls, text: str) -> Attribution:
        """The attribution that `to_json` wrote. Raises SchemaError for anything else."""
        return cls.from_dict(parsed(text))

    def to_table(self, *, top: int = 5, width: int | None = None, color: bool = False) -> str:
        """The answer with citations and its `top` sources, for a terminal of `width` columns.

        With `top=0`, it shows the answer and what it cites, without figures.
        """
        return render_table(self, top=top, width=width, color=color)

    def to_cited_text(
        self, *, remarks: bool = True, markers: Markers = "audited", sources: bool = False
    ) -> str:
        """The answer, with the numbers of the cited documents after each sentence.

        The text may contain control characters from the answer or a document. To print it, use
        `attribot_rag.display.visible(attribution.to_cited_text())`. Raises InvalidInput for an
        unknown value of `markers`.

        Args:
            remarks: Whether remarks follow the sentences in brackets. They say what the numbers
                do not show. On the cause: '(from the conversation)', '(follows from
                sentence 1)', '(needs both)', '(source unclear)', '(answer cut off)'. On the
                support: '(prompted by [2], which does not mention tenant, notice)', '(84 in [2])',
                '(also in [2])', '(not in the 3 passages found)', '(12.90 is in none of the
                passages found)'.
            markers: What happens to the model's own markers, such as [2]. With 'audited', a marker
                that the audit supports stays as the citation. A measured citation replaces other
                markers, with the remark '(the model cites [3], which has no effect on it)'. With
                'written', all markers stay, next to the citations. With 'removed', only measured
                citations are shown.
            sources: Whether a line for each cited document follows, such as '[1] ferry.txt: "A loaf
                costs 7 crowns."'
        """
        return render_cited(self, remarks=remarks, markers=markers, sources=sources)

    def to_markdown(self, *, top: int = 5) -> str:
        """The contents of `to_table` as Markdown. Texts are escaped, so they cannot add links or
        formatting."""
        return render_markdown(self, top=top)

    def to_html(
        self, *, question: str = "", theme: str = "auto", answer: bool = True, page: bool = True
    ) -> str:
        """A page of HTML that loads no other files, or a fragment of a page (`page=False`).

        It shows the answer. A click on a sentence shows what made the model write it. Raises
        InvalidInput for an unknown theme.

        Args:
            question: Shown above the answer; by default the attribution's own question.
            theme: 'auto', 'light' or 'dark'.
            answer: Whether to show the answer, and not only the evidence.
            page: Whether to write a whole page.
        """
        asked = question or self.question
        return render_html(self, question=asked, theme=theme, answer=answer, page=page)

    def _repr_html_(self) -> str:
        """The fragment that a notebook shows."""
        return self.to_html(page=False)

    def _repr_markdown_(self) -> str:
        """What a notebook shows if it does not render HTML."""
        return self.to_markdown(top=0)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows in a terminal."""
        printer.text(self.to_table(top=0).rstrip())

    def show(self) -> Path:
        """Write the page to a file and open it in the web browser. Returns the file's path."""
        with NamedTemporaryFile("w", encoding="utf-8", suffix=".html", delete=False) as file:
            file.write(self.to_html())
        webbrowser.open(Path(file.name).as_uri())
        return Path(file.name)


_CONFIG = ConfigDict(extra="forbid", use_attribute_docstrings=True)
_WHOLE = _CONFIG | ConfigDict(json_schema_serialization_defaults_required=True)
_MAX_PROBLEMS = 3

# An innermost array without strings. JSON writes a line feed within a string as \n, so the text
# after a real line feed is never part of a string.
_BROKEN_ROW = re.compile(r"\[\n([^\[\]{}\"]*)\]")


def to_json(data: dict[str, Any], indent: int | None) -> str:
    """The JSON on one line. With `indent`, it has many lines, one for each row of numbers."""
    text = json.dumps(data, ensure_ascii=False, indent=indent, allow_nan=False)
    return _BROKEN_ROW.sub(lambda row: f"[{' '.join(row[1].split())}]", text)


def parsed(text: str) -> Any:
    """The value of a JSON text. Raises SchemaError for invalid JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"this is not JSON: {error}") from error


def _from_plain(kind: Any, data: Mapping[str, Any]) -> Any:
    """The attribution of plain data. Raises SchemaError, which names the fields that are wrong.

    Unknown fields of the attribution are ignored: a later minor version may have added them.
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
    return TypeAdapter(list[kind], config=_CONFIG)


def _described(problem: ErrorDetails) -> str:
    path = ".".join(map(str, problem["loc"][1:]))
    if problem["type"] == "missing":
        return f"the field {path!r} is missing"
    reason = str(problem.get("ctx", {}).get("error") or problem["msg"])
    return f"the field {path!r}: {reason}" if path else reason


def plain(value: Any) -> Any:
    """A copy with JSON's types: dataclasses become objects, and unknown values become text."""
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


_SUMMARY = (
    "The data attached to an answer: the summary of its attribution, or why there is none, or that "
    f"it is still under way. At most {MAX_SUMMARY_BYTES:,} bytes as JSON. Characters are Unicode "
    "code points, intervals [start, end) from 0."
)


class _WithoutTitles(GenerateJsonSchema):
    """Pydantic's generator without titles, which would repeat the names of the fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def attribution_schema() -> dict[str, Any]:
    """The JSON schema of `Attribution.to_dict()`."""
    definitions = _definitions(list[Result], _CONFIG, "validation")
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
    """The JSON schema of the summary that is attached to an answer."""
    return {
        **_head("summary"),
        "title": "Summary of an attribution",
        "description": _SUMMARY,
        "$ref": "#/$defs/Summary",
        "$defs": _definitions(list[Summary], _WHOLE, "serialization"),
    }


def _head(name: str) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://attribot-rag.dev/schema/{SCHEMA_VERSION}/{name}.json",
    }


def _definitions(values: Any, config: ConfigDict, mode: JsonSchemaMode) -> dict[str, Any]:
    adapter = TypeAdapter(values, config=config)
    schema = adapter.json_schema(schema_generator=_WithoutTitles, mode=mode)
    definitions: dict[str, Any] = schema["$defs"]
    return definitions
