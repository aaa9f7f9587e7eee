"""A summary of an attribution, of limited size, to attach to the answer."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from attribot_rag.context import Document
from attribot_rag.result.citations import Citations, CitedSentence, Shown, cite
from attribot_rag.result.remarks import Marked, marked_by, standing_of, support_remarks, trust_in
from attribot_rag.result.result import Result, cut
from attribot_rag.result.summary_schema import (
    SCHEMA_VERSION,
    DocumentSummary,
    MarkerSummary,
    SentenceSummary,
    SourceSummary,
    Summary,
)
from attribot_rag.result.verdict import Check, Marker, MissingWord, Rival, Support

Status = Literal["complete", "incomplete", "pending", "error", "not_attributable"]

MAX_SUMMARY_BYTES = 16_384
MAX_NOTES = 10
_MAX_NAME = 200
_MAX_UNIT = 60
_MESSAGE_LENGTHS = (1000, 300, 100, 30)
_OFFSETS_OF_ANSWER = (
    "Positions are characters of the model's own answer, which an output parser or another step "
    "changed."
)
_DECIMALS = 4
_MAX_BITS = 64


def summarize(
    attribution: Result,
    *,
    shown: Shown | None = None,
    run_id: str | None = None,
    max_bytes: int | None = MAX_SUMMARY_BYTES,
) -> dict[str, Any]:
    """Verdicts, cited documents and the best sources, as plain data of at most 16 KB of JSON.

    `omitted` counts the sources, documents and sentences that did not fit. The first ten notes are
    kept. The schema is docs/schemas/summary.json.

    Args:
        attribution: The result to summarize.
        shown: Where the response is in the text that was shown. Positions are characters of
            that text.
        run_id: The framework's name for the run.
        max_bytes: The most bytes of JSON, which only the fields that always stay may exceed. With
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
    """The summary of the largest size that fits into `max_bytes`, or else of the smallest."""
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
    """The same fields for an answer of `length` characters that has no attribution.

    Messages of errors are cut at a thousand characters, or earlier to fit into `max_bytes`.
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
    """Indices of the first documents, and of cited ones after them, as many as `limit` allows.

    Each stands at the position of its index, unless its index is beyond the end of the list.
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
        "omitted": {"sources": 0, "documents": 0, "sentences": 0, "calls": 0},
    }


def _status(attribution: Result) -> Status:
    if any(verdict.reason == "pending" for verdict in attribution.verdicts):
        return "pending"
    return "incomplete" if attribution.incomplete else "complete"


@dataclass(frozen=True)
class Size:
    """Limits of a summary: how many sources, documents and sentences, and characters of a text."""

    num_sources: int
    num_documents: int
    num_sentences: int
    num_characters: int
    metadata: bool


WHOLE = Size(20, sys.maxsize, sys.maxsize, 400, True)
SIZES = (
    Size(20, 50, 100, 400, True),
    Size(20, 50, 100, 200, False),
    Size(10, 20, 60, 100, False),
    Size(5, 10, 30, 60, False),
    Size(3, 5, 10, 30, False),
    Size(0, 0, 0, 30, False),
)


@dataclass(frozen=True)
class SummaryParts:
    """Writes sentences, checks, documents and sources of an attribution as plain data."""

    attribution: Result
    shown: Shown
    size: Size
    marked: Marked
    num_passages: int | None = None

    def sentence(self, cited: CitedSentence) -> SentenceSummary:
        documents = {
            document: None
            for source_id in cited.source_ids
            for document in self.attribution.sources[source_id].documents
        }
        start, end = self.shown.interval(cited.start, cited.end)
        text = self.attribution.response[cited.start : cited.end]
        if self.shown.offsets is not None:
            text = self.shown.offsets.shown[start:end]
        verdict, attribution = cited.verdict, self.attribution
        remarks = support_remarks(attribution, verdict, self.marked, num_passages=self.num_passages)
        return {
            "start": start,
            "end": end,
            "text": self._cut(text),
            "verdict": None if verdict is None else verdict.kind,
            "source_ids": list(cited.source_ids),
            "documents": list(documents),
            "relation": cited.relation,
            "effect": None if verdict is None else _rounded(verdict.effect),
            "reliance": None if verdict is None else _rounded(verdict.reliance),
            "kept": None if verdict is None else _rounded(verdict.kept),
            "in_part": verdict is not None and verdict.in_part,
            "follows": None if verdict is None else verdict.follows,
            "origin": None if verdict is None else verdict.origin,
            "reason": None if verdict is None else verdict.reason,
            "checks": [] if verdict is None else list(map(self.placed, verdict.checks)),
            "support": self.support(None if verdict is None else verdict.support),
            "remarks": [
                {
                    "key": remark.key,
                    "text": self._cut(remark.words),
                    "values": list(map(self._cut, remark.values)),
                    "documents": list(remark.documents),
                }
                for remark in remarks
            ],
            "standing": standing_of(verdict, attribution.verdicts, remarks),
            "markers": [
                self.marker(marker)
                for marker in self.attribution.markers
                if cited.start <= marker.start < cited.end
            ],
        }

    def support(self, support: Support | None) -> Any:
        return support and {
            **vars(support),
            "score": _rounded(support.score),
            "source_ids": list(support.source_ids),
            "missing": list(map(self.placed, support.missing)),
            "missing_asked": list(map(self._cut, support.missing_asked)),
            "rivals": list(map(self.placed, support.rivals)),
        }

    def placed(self, part: Check | MissingWord | Rival) -> Any:
        """The fields of this part, at its place in the shown text."""
        start, end = self.shown.interval(part.start, part.end)
        return {
            name: self._cut(value) if isinstance(value, str) else value
            for name, value in vars(part).items()
        } | {"start": start, "end": end}

    def marker(self, marker: Marker) -> MarkerSummary:
        start, end = self.shown.interval(marker.start, marker.end)
        return {
            "start": start,
            "end": end,
            "label": self._cut(marker.text),
            "document": marker.document,
            "supported": marker.supported,
        }

    def document(self, index: int, number: int | None) -> DocumentSummary:
        attribution = self.attribution
        share = attribution.located_share(index)
        return self.any_document(attribution.documents[index], index, number, share)

    def any_document(
        self, document: Document, index: int, number: int | None, located_share: float
    ) -> DocumentSummary:
        """The summary of a document, whether or not the attribution has it."""
        length = self.size.num_characters
        return {
            "index": index,
            "id": None if document.id is None else self._cut(str(document.id)),
            "number": number,
            "title": self._cut(document.title),
            "url": document.url if len(document.url) <= 5 * length else "",
            "located": located_share > 0,
            "located_share": round(located_share, _DECIMALS),
            "metadata": {
                str(key): self._cut(value) if isinstance(value, str) else value
                for key, value in document.metadata.items()
                if self.size.metadata and _is_scalar(value) and len(str(key)) <= length
            },
        }

    def source(self, source_id: int, score: float) -> SourceSummary:
        source = self.attribution.sources[source_id]
        return {
            "id": source_id,
            "text": self._cut(self.attribution.plain_text(source).strip()),
            "documents": list(source.documents),
            "score": round(score, _DECIMALS),
            "exact": self.attribution.exact[source_id],
            "estimated": self.attribution.is_estimated(source_id),
        }

    def _cut(self, text: str) -> str:
        return cut(text, self.size.num_characters)


def _is_scalar(value: object) -> bool:
    """Whether it is a single value that every reader of JSON knows."""
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is int:
        return value.bit_length() <= _MAX_BITS
    return type(value) in (str, bool)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DECIMALS)
