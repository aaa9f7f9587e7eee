"""The outcomes of a batch as Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from itertools import islice
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pyarrow
from pyarrow import parquet
from typing_extensions import is_typeddict

from attribot_rag.result import ErrorDescription, Summary

_ROWS = 1_000  # in a row group, which is held in memory
_NOT_IN_A_BATCH = ("calls",)


def outcome_schema() -> pyarrow.Schema:
    """A column for each field of a result, and `error`. Either the summary or the error is null.

    Ids are text, and the metadata of each document is JSON.
    """
    return pyarrow.schema(
        [
            ("number", pyarrow.int64()),
            ("id", pyarrow.string()),
            ("response", pyarrow.string()),
            ("summary", _type_of(Summary)),
            ("document_scores", pyarrow.map_(pyarrow.string(), pyarrow.float64())),
            ("error", _type_of(ErrorDescription)),
        ]
    )


def outcome_table(outcomes: Iterable[Mapping[str, Any]]) -> pyarrow.Table:
    """The results and rejects in these lines, as rows of the schema."""
    return pyarrow.Table.from_pylist(list(map(_row, outcomes)), outcome_schema())


def write_outcomes(path: Path, outcomes: Iterable[Mapping[str, Any]]) -> None:
    """Write the outcomes to a file. Only a part is in memory at a time."""
    beside = path.with_suffix(".new")
    remaining = iter(outcomes)
    with parquet.ParquetWriter(beside, outcome_schema()) as writer:
        while part := list(islice(remaining, _ROWS)):
            writer.write_table(outcome_table(part))
    beside.replace(path)


def results_in(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The results among rows of that schema, in the form that Statistics.of takes."""
    for row in rows:
        if row["error"] is None:
            yield {**row, "document_scores": dict(row["document_scores"])}


def _row(outcome: Mapping[str, Any]) -> dict[str, Any]:
    name, summary = outcome["id"], outcome.get("summary")
    row = {**outcome, "id": None if name is None else str(name)}
    if summary is not None:
        documents = [
            {**document, "metadata": json.dumps(document["metadata"])}
            for document in summary["documents"]
        ]
        trust = summary["trust"]
        if trust is not None:
            trust = {**trust, "standings": list(trust["standings"].items())}
        row["summary"] = {**summary, "documents": documents, "trust": trust}
        row["document_scores"] = list(outcome["document_scores"].items())
    return row


def _type_of(hint: Any) -> pyarrow.DataType:
    """The Arrow type of a summary's type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_typeddict(hint) or is_dataclass(hint):
        left_out = _NOT_IN_A_BATCH if hint is Summary else ()
        fields = get_type_hints(hint).items()
        return pyarrow.struct(
            [(name, _type_of(field)) for name, field in fields if name not in left_out]
        )
    if origin in (Union, UnionType):
        return _type_of(arguments[0])  # or null
    if origin in (list, tuple):
        return pyarrow.list_(_type_of(arguments[0]))
    if origin is dict and arguments[1] is int:
        return pyarrow.map_(pyarrow.string(), pyarrow.int64())
    if origin in (dict, Literal):
        return pyarrow.string()
    return {
        bool: pyarrow.bool_(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        str: pyarrow.string(),
    }[hint]
