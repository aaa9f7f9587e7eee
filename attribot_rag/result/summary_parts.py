"""The parts of a summary of one attribution, at one size."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from attribot_rag.context import Document
from attribot_rag.result.citations import CitedSentence
from attribot_rag.result.offsets import Shown
from attribot_rag.result.remarks import Marked, support_remarks
from attribot_rag.result.result import Result, cut
from attribot_rag.result.summary_schema import (
    CheckSummary,
    DocumentSummary,
    MarkerSummary,
    MissingSummary,
    RivalSummary,
    SentenceSummary,
    SourceSummary,
    SupportSummary,
)
from attribot_rag.result.trust import standing_of
from attribot_rag.result.verdict import Check, Marker, Rival, Verdict

_DECIMALS = 4
_MAX_BITS = 64


@dataclass(frozen=True)
class Size:
    """Limits of a summary: numbers of sources, documents and sentences, characters of a text."""

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
    """Writes the sentences, checks, documents and sources of an attribution as plain data."""

    attribution: Result
    shown: Shown
    size: Size
    marked: Marked

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
        remarks = support_remarks(attribution, verdict, self.marked)
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
            "checks": [] if verdict is None else list(map(self.check, verdict.checks)),
            "support": self.support(verdict),
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

    def support(self, verdict: Verdict | None) -> SupportSummary | None:
        support = None if verdict is None else verdict.support
        if support is None:
            return None
        missing: list[MissingSummary] = []
        for word in support.missing:
            start, end = self.shown.interval(word.start, word.end)
            missing.append({"start": start, "end": end, "in_no_document": word.in_no_document})
        return {
            "kind": support.kind,
            "score": _rounded(support.score),
            "source_ids": list(support.source_ids),
            "missing": missing,
            "missing_asked": list(map(self._cut, support.missing_asked)),
            "rivals": list(map(self.rival, support.rivals)),
        }

    def rival(self, rival: Rival) -> RivalSummary:
        start, end = self.shown.interval(rival.start, rival.end)
        return {
            "start": start,
            "end": end,
            "value": self._cut(rival.value),
            "source": rival.source,
            "document": rival.document,
            "document_start": rival.document_start,
            "document_end": rival.document_end,
        }

    def marker(self, marker: Marker) -> MarkerSummary:
        start, end = self.shown.interval(marker.start, marker.end)
        return {
            "start": start,
            "end": end,
            "label": self._cut(marker.text),
            "document": marker.document,
            "supported": marker.supported,
        }

    def check(self, check: Check) -> CheckSummary:
        start, end = self.shown.interval(check.start, check.end)
        source_value, message = check.source_value, check.message
        return {
            "start": start,
            "end": end,
            "kind": check.kind,
            "value": self._cut(check.value),
            "source_value": None if source_value is None else self._cut(source_value),
            "source": check.source,
            "in_no_document": check.in_no_document,
            "message": None if message is None else self._cut(message),
        }

    def document(self, index: int, number: int | None) -> DocumentSummary:
        attribution = self.attribution
        share = attribution.located_share(index)
        return self.any_document(attribution.documents[index], index, number, share)

    def any_document(
        self, document: Document, index: int, number: int | None, located_share: float
    ) -> DocumentSummary:
        """The summary of a document, in the attribution or not."""
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
