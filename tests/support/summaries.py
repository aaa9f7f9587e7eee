"""Summaries and runs, as frameworks' answers carry them."""

import json
from typing import Any

from attribot_rag import Attribution
from attribot_rag.runtime import MAX_SUMMARY_BYTES, AttributedRun
from support.schemas import SUMMARIES

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


def checked(summary: Any, status: str = "complete") -> dict[str, Any]:
    """The summary, which follows the schema and is no larger than it may be."""
    assert summary["status"] == status, summary
    SUMMARIES.validate(summary)
    assert len(json.dumps(summary)) <= MAX_SUMMARY_BYTES
    return dict(summary)


def located_ids(summary: dict[str, Any]) -> list[str]:
    """The ids of the documents, all of which are in the prompt."""
    assert all(document["located"] for document in summary["documents"])
    return [document["id"] for document in summary["documents"]]


def cited_ids(summary: Any) -> set[str]:
    """The ids of the documents that any sentence cites."""
    ids = {document["index"]: document["id"] for document in checked(summary)["documents"]}
    return {ids[index] for sentence in summary["sentences"] for index in sentence["documents"]}


def attribution_of(run: AttributedRun | None) -> Attribution:
    assert run is not None and run.error is None
    assert run.attribution is not None
    return run.attribution
