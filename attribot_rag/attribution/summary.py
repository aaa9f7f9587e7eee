"""A summary of an attribution, of bounded size, to attach to the answer."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, cast

from attribot_rag.attribution import summary_schema
from attribot_rag.attribution.citations import Citations, CitedSentence, cite, document_order
from attribot_rag.attribution.result import Attribution, RankedSource
from attribot_rag.attribution.serialization import SCHEMA_VERSION

MAX_SUMMARY_BYTES = 16_384
_DECIMALS = 4
_MAX_UNIT = 60
_MAX_BITS = 64


@dataclass(frozen=True)
class _Size:
    """How many sources, documents and sentences are kept, and characters of each text."""

    num_sources: int
    num_documents: int
    num_sentences: int
    num_characters: int
    metadata: bool


_SIZES = (
    _Size(20, 50, 100, 400, True),
    _Size(20, 50, 100, 200, False),
    _Size(10, 20, 60, 100, False),
    _Size(5, 10, 30, 60, False),
    _Size(3, 5, 10, 30, False),
    _Size(0, 0, 0, 30, False),
)


def summarize(
    attribution: Attribution, *, start: int = 0, max_bytes: int = MAX_SUMMARY_BYTES
) -> dict[str, Any]:
    """Verdicts, cited documents and the best sources, as plain data of at most 16 KB of JSON.

    Positions are characters of the text that was shown, in which the response begins at `start`.
    Sources, documents and sentences that did not fit are counted under `omitted`; the first
    ten notes are kept. The summary is longer than `max_bytes` if even its other fields are. Its
    schema is docs/schemas/summary.json.
    """
    citations = cite(attribution)
    for size in _SIZES:
        data = _summary(attribution, citations, start, size)
        if len(json.dumps(data).encode()) <= max_bytes:
            break
    return cast(dict[str, Any], data)


def _summary(
    attribution: Attribution, citations: Citations, start: int, size: _Size
) -> summary_schema.Summary:
    ranked = attribution.top(size.num_sources)
    documents = document_order(attribution, citations.numbers)[: size.num_documents]
    sentences = citations.sentences[: size.num_sentences]
    provenance = attribution.provenance
    return {
        "schema_version": SCHEMA_VERSION,
        "status": "partial" if attribution.partial else "complete",
        "start": start,
        "end": start + len(attribution.response),
        "unit": _cut(attribution.unit, _MAX_UNIT),
        "sentences": [_sentence(attribution, sentence, start) for sentence in sentences],
        "documents": [_document(attribution, citations, index, size) for index in documents],
        "sources": [_source(attribution, ranking, size) for ranking in ranked],
        "agreement": attribution.agreement,
        "notes": [_cut(note, 2 * size.num_characters) for note in attribution.notes[:10]],
        "method": _cut(provenance.method, 200),
        "model": _cut(provenance.model_name, 200),
        "retokenized": provenance.retokenized,
        "seconds": round(provenance.seconds, 3),
        "omitted": {
            "sources": len(attribution.sources) - len(ranked),
            "documents": len(attribution.documents) - len(documents),
            "sentences": len(citations.sentences) - len(sentences),
        },
    }


def _sentence(
    attribution: Attribution, cited: CitedSentence, start: int
) -> summary_schema.SentenceSummary | summary_schema.JudgedSentenceSummary:
    documents = {
        document: None
        for source_id in cited.source_ids
        for document in attribution.sources[source_id].documents
    }
    sentence: summary_schema.SentenceSummary = {
        "start": start + cited.start,
        "end": start + cited.end,
        "sources": list(cited.source_ids),
        "documents": list(documents),
        "relation": cited.relation,
    }
    if cited.verdict is None:
        return sentence
    return {
        **sentence,
        "verdict": cited.verdict.kind,
        "effect": _rounded(cited.verdict.effect),
        "reliance": _rounded(cited.verdict.reliance),
        "follows": cited.verdict.follows,
        "reason": cited.verdict.reason,
    }


def _document(
    attribution: Attribution, citations: Citations, index: int, size: _Size
) -> summary_schema.DocumentSummary:
    document = attribution.documents[index]
    located = index not in attribution.not_located
    summary: summary_schema.DocumentSummary = {
        "index": index,
        "id": None if document.id is None else _cut(str(document.id), size.num_characters),
        "number": citations.numbers.get(index),
        "title": _cut(document.title, size.num_characters),
        "url": document.url if len(document.url) <= 5 * size.num_characters else "",
        "located": located,
        "located_share": round(attribution.partly_located.get(index, 1.0) * located, _DECIMALS),
    }
    if size.metadata:
        summary["metadata"] = {
            str(key): _cut(value, size.num_characters) if isinstance(value, str) else value
            for key, value in document.metadata.items()
            if _is_scalar(value) and len(str(key)) <= size.num_characters
        }
    return summary


def _source(
    attribution: Attribution, ranking: RankedSource, size: _Size
) -> summary_schema.SourceSummary:
    source = ranking.source
    return {
        "id": source.id,
        "text": _cut(source.text.strip(), size.num_characters),
        "documents": list(source.documents),
        "score": round(ranking.score, _DECIMALS),
        "exact": attribution.exact[source.id],
    }


def _is_scalar(value: object) -> bool:
    """Whether it is a single value that every reader of JSON knows."""
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is int:
        return value.bit_length() <= _MAX_BITS
    return type(value) in (str, bool)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DECIMALS)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
