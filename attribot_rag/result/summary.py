"""A summary of an attribution, of bounded size, to attach to the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, cast

from attribot_rag.result.citations import Citations, cite
from attribot_rag.result.offsets import Shown
from attribot_rag.result.remarks import marked_by
from attribot_rag.result.result import Result, cut
from attribot_rag.result.summary_parts import SIZES, WHOLE, Size, SummaryParts
from attribot_rag.result.summary_schema import SCHEMA_VERSION, Summary
from attribot_rag.result.trust import trust_in

Status = Literal["complete", "partial", "pending", "error", "unsupported"]

MAX_SUMMARY_BYTES = 16_384
MAX_NOTES = 10
_MAX_NAME = 200
_MAX_UNIT = 60
_MESSAGE_LENGTHS = (1000, 300, 100, 30)
_OFFSETS_OF_ANSWER = (
    "Positions are characters of the model's own answer, of which an output parser or another step "
    "made something else."
)


def summarize(
    attribution: Result,
    *,
    shown: Shown | None = None,
    run_id: str | None = None,
    max_bytes: int | None = MAX_SUMMARY_BYTES,
) -> dict[str, Any]:
    """Verdicts, cited documents and the best sources, as plain data of at most 16 KB of JSON.

    Sources, documents and sentences that did not fit are counted under `omitted`; the first ten
    notes are kept. Its schema is docs/schemas/summary.json.

    Args:
        attribution: The result to summarize.
        shown: The place of the response in the text that was shown, whose characters positions are.
        run_id: The framework's name for the run.
        max_bytes: The length of the JSON, which is longer only if even its other fields are; with
            None, it has all sentences and documents.
    """
    citations = cite(attribution)
    marked = marked_by(citations)

    def of_size(size: Size) -> Summary:
        parts = SummaryParts(attribution, shown or Shown(), size, marked)
        return whole_summary(parts, citations)

    return fitting(of_size, run_id, max_bytes)


def fitting(
    of_size: Callable[[Size], Summary], run_id: str | None, max_bytes: int | None
) -> dict[str, Any]:
    """The summary of the largest size that fits into `max_bytes`, else of the smallest."""
    for size in SIZES if max_bytes is not None else (WHOLE,):
        data = of_size(size)
        data["run_id"] = run_id
        if max_bytes is None or len(json.dumps(data).encode()) <= max_bytes:
            break
    return cast(dict[str, Any], data)


def without_attribution(
    status: Status,
    *,
    error: BaseException | None = None,
    notes: Sequence[str] = (),
    length: int = 0,
    run_id: str | None = None,
    max_bytes: int = MAX_SUMMARY_BYTES,
) -> dict[str, Any]:
    """The same fields for an answer of `length` characters that has no attribution of its own.

    Messages of errors are cut at a thousand characters, or fewer to fit into `max_bytes`.
    """
    data = _empty(status, notes, length)
    data["run_id"] = run_id
    for num_characters in _MESSAGE_LENGTHS if error is not None else ():
        message = str(error)[:num_characters]
        data["error"] = {"type": type(error).__name__, "message": message}
        if len(json.dumps(data).encode()) <= max_bytes:
            break
    return cast(dict[str, Any], data)


def whole_summary(parts: SummaryParts, citations: Citations) -> Summary:
    """The summary of one attribution at one size."""
    attribution, shown, size = parts.attribution, parts.shown, parts.size
    ranked = attribution.top(size.num_sources)
    sentences = list(map(parts.sentence, citations.sentences[: size.num_sentences]))
    cited = {index for sentence in sentences for index in sentence["documents"]}
    documents = listed(len(attribution.documents), cited, size.num_documents)
    provenance = attribution.provenance
    start, end = shown.interval(0, len(attribution.response))
    notes = [*([_OFFSETS_OF_ANSWER] if shown.is_lost else ()), *attribution.notes]
    return {
        **_empty(_status(attribution)),
        "start": start,
        "end": end,
        "offsets": "answer" if shown.is_lost else "shown",
        "unit": cut(attribution.unit, _MAX_UNIT),
        "sentences": sentences,
        "trust": trust_in(attribution, citations),
        "documents": [parts.document(index, citations.numbers.get(index)) for index in documents],
        "sources": [parts.source(ranking.source.id, ranking.score) for ranking in ranked],
        "notes": [cut(note, 2 * size.num_characters) for note in notes[:MAX_NOTES]],
        "method": cut(provenance.method, _MAX_NAME),
        "model": cut(provenance.model_name, _MAX_NAME),
        "basis": provenance.basis,
        "answered_by": provenance.answered_by and cut(provenance.answered_by, _MAX_NAME),
        "retokenized": provenance.retokenized,
        "seconds": round(provenance.seconds, 3),
        "omitted": {
            "sources": len(attribution.sources) - len(ranked),
            "documents": len(attribution.documents) - len(documents),
            "sentences": len(citations.sentences) - len(sentences),
            "calls": 0,
        },
    }


def listed(num_documents: int, cited: Collection[int], limit: int) -> list[int]:
    """The first documents and further cited ones, by their index, as many as the limit allows.

    Each stands at the place of its index, but for those whose index is beyond the list.
    """
    beyond = sorted(index for index in cited if index >= limit)[:limit]
    while beyond and beyond[0] < limit + len(beyond):
        limit += 1
        beyond = [index for index in beyond if index >= limit]
    return [*range(min(limit, num_documents)), *beyond]


def _empty(status: Status, notes: Sequence[str] = (), length: int = 0) -> Summary:
    return {
        "schema_version": SCHEMA_VERSION,
        "status": status,
        "run_id": None,
        "question": None,
        "answer": None,
        "cited_text": None,
        "error": None,
        "start": 0,
        "end": length,
        "offsets": "shown",
        "unit": None,
        "sentences": [],
        "trust": None,
        "documents": [],
        "sources": [],
        "notes": list(notes),
        "method": None,
        "model": None,
        "basis": None,
        "answered_by": None,
        "retokenized": None,
        "seconds": None,
        "calls": [],
        "places": [],
        "omitted": {"sources": 0, "documents": 0, "sentences": 0, "calls": 0},
    }


def _status(attribution: Result) -> Status:
    if any(verdict.reason == "pending" for verdict in attribution.verdicts):
        return "pending"
    return "partial" if attribution.partial else "complete"
