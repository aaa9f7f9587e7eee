"""A summary of an attribution, of bounded size, to attach to the answer."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from attribot_rag.attribution import summary_schema
from attribot_rag.attribution.citations import Citations, CitedSentence, cite, document_order
from attribot_rag.attribution.composition import ComposedSentence, Composition, document_key
from attribot_rag.attribution.offsets import Offsets
from attribot_rag.attribution.result import Attribution, RankedSource
from attribot_rag.attribution.serialization import SCHEMA_VERSION
from attribot_rag.attribution.verdict import Check

MAX_SUMMARY_BYTES = 16_384
_DECIMALS = 4
_MAX_UNIT = 60
_MAX_NOTES = 10
_MESSAGE_LENGTHS = (1000, 300, 100, 30)
_OFFSETS_OF_ANSWER = (
    "Positions are characters of the model's own answer, of which an output parser or another step "
    "made something else."
)
_MAX_BITS = 64


@dataclass(frozen=True)
class _Size:
    """How many sources, documents and sentences are kept, and characters of each text."""

    num_sources: int
    num_documents: int
    num_sentences: int
    num_characters: int
    metadata: bool


_WHOLE = _Size(20, sys.maxsize, sys.maxsize, 400, True)
_SIZES = (
    _Size(20, 50, 100, 400, True),
    _Size(20, 50, 100, 200, False),
    _Size(10, 20, 60, 100, False),
    _Size(5, 10, 30, 60, False),
    _Size(3, 5, 10, 30, False),
    _Size(0, 0, 0, 30, False),
)


@dataclass(frozen=True)
class Shown:
    """Where a response stands in the text that its caller was given.

    It begins at character `start` of the model's answer. `offsets` map the answer's characters to
    those of another text that was made of it; `is_lost` says that these cannot be told.
    """

    start: int = 0
    offsets: Offsets | None = None
    is_lost: bool = False

    def interval(self, start: int, end: int) -> tuple[int, int]:
        """The place of characters [start, end) of the response."""
        start, end = self.start + start, self.start + end
        return (start, end) if self.offsets is None else self.offsets.interval(start, end)


def summarize(
    attribution: Attribution,
    *,
    shown: Shown | None = None,
    run_id: str | None = None,
    max_bytes: int | None = MAX_SUMMARY_BYTES,
) -> dict[str, Any]:
    """Verdicts, cited documents and the best sources, as plain data of at most 16 KB of JSON.

    Positions are characters of the text that was shown. Sources, documents and sentences that did
    not fit are counted under `omitted`; the first ten notes are kept. The summary is longer than
    `max_bytes` if even its other fields are; with None, it has all sentences and documents. Its
    schema is docs/schemas/summary.json.
    """
    citations = cite(attribution)
    for size in _SIZES if max_bytes is not None else (_WHOLE,):
        data = _summary(attribution, citations, shown or Shown(), size)
        data["run_id"] = run_id
        if max_bytes is None or len(json.dumps(data).encode()) <= max_bytes:
            break
    return cast(dict[str, Any], data)


def summarize_composition(
    composition: Composition,
    *,
    shown: Shown | None = None,
    run_id: str | None = None,
    max_bytes: int = MAX_SUMMARY_BYTES,
) -> dict[str, Any]:
    """The same of an answer that was made of earlier answers, less these: 'composite'.

    Documents are those that were retrieved for any of the answers, sources those that are cited.
    """
    for size in _SIZES:
        data = _composed(composition, shown or Shown(), size)
        data["run_id"] = run_id
        if len(json.dumps(data).encode()) <= max_bytes:
            break
    return cast(dict[str, Any], data)


def without_attribution(
    status: Literal["complete", "partial", "pending", "error", "unsupported"],
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
    data: summary_schema.Summary = {
        "schema_version": SCHEMA_VERSION,
        "status": status,
        "run_id": run_id,
        "query": None,
        "answer": None,
        "error": None,
        "start": 0,
        "end": length,
        "offsets": "shown",
        "unit": None,
        "sentences": [],
        "documents": [],
        "sources": [],
        "agreement": None,
        "notes": list(notes),
        "method": None,
        "model": None,
        "retokenized": None,
        "seconds": None,
        "calls": [],
        "places": [],
        "omitted": {"sources": 0, "documents": 0, "sentences": 0, "calls": 0},
    }
    for num_characters in _MESSAGE_LENGTHS if error is not None else ():
        message = str(error)[:num_characters]
        data["error"] = {"type": type(error).__name__, "message": message}
        if len(json.dumps(data).encode()) <= max_bytes:
            break
    return cast(dict[str, Any], data)


def _summary(
    attribution: Attribution, citations: Citations, shown: Shown, size: _Size
) -> summary_schema.Summary:
    ranked = attribution.top(size.num_sources)
    documents = document_order(attribution, citations.numbers)[: size.num_documents]
    sentences = citations.sentences[: size.num_sentences]
    provenance = attribution.provenance
    start, end = shown.interval(0, len(attribution.response))
    notes = [*([_OFFSETS_OF_ANSWER] if shown.is_lost else ()), *attribution.notes]
    return {
        "schema_version": SCHEMA_VERSION,
        "status": _status(attribution),
        "run_id": None,
        "query": None,
        "answer": None,
        "error": None,
        "start": start,
        "end": end,
        "offsets": "answer" if shown.is_lost else "shown",
        "unit": _cut(attribution.unit, _MAX_UNIT),
        "sentences": [_sentence(attribution, sentence, shown, size) for sentence in sentences],
        "documents": [_document(attribution, citations, index, size) for index in documents],
        "sources": [_source(attribution, ranking, size) for ranking in ranked],
        "agreement": attribution.agreement,
        "notes": [_cut(note, 2 * size.num_characters) for note in notes[:_MAX_NOTES]],
        "method": _cut(provenance.method, 200),
        "model": _cut(provenance.model_name, 200),
        "retokenized": provenance.retokenized,
        "seconds": round(provenance.seconds, 3),
        "calls": [],
        "places": [],
        "omitted": {
            "sources": len(attribution.sources) - len(ranked),
            "documents": len(attribution.documents) - len(documents),
            "sentences": len(citations.sentences) - len(sentences),
            "calls": 0,
        },
    }


def _composed(composition: Composition, shown: Shown, size: _Size) -> summary_schema.Summary:
    attribution = composition.attribution
    data = _summary(attribution, cite(attribution), shown, size)
    keys = {key: index for index, key in enumerate(composition.documents)}
    ids = {(id(one.attribution), one.source_id): i for i, one in enumerate(composition.origins)}

    def indices(attribution: Attribution, documents: Sequence[int]) -> list[int]:
        return [keys[document_key(attribution, index)] for index in documents]

    sentences = [
        {
            **_sentence(attribution, sentence.cited, shown, size),
            "verdict": sentence.kind,
            "checks": list(_composed_checks(composition, sentence, shown, size)),
            "relation": sentence.relation,
            "sources": [ids[id(one.attribution), one.source_id] for one in sentence.origins],
            "documents": list(
                dict.fromkeys(
                    index
                    for one in sentence.origins
                    for index in indices(one.attribution, one.documents)
                )
            ),
        }
        for sentence in composition.sentences[: size.num_sentences]
    ]
    documents = [
        {
            **_document(of, Citations((), {}), index, size),
            "index": keys[key],
            "number": composition.numbers.get(key),
        }
        for key, (of, index) in list(composition.documents.items())[: size.num_documents]
    ]
    sources = [
        {
            **_source(one.attribution, RankedSource(one.source, score), size),
            "id": index,
            "documents": indices(one.attribution, one.documents),
        }
        for index, one in enumerate(composition.origins[: size.num_sources])
        if (score := one.attribution.score(one.source_id)) is not None
    ]
    return cast(
        summary_schema.Summary,
        {
            **data,
            "status": "composite",
            "sentences": sentences,
            "documents": documents,
            "sources": sources,
            "notes": [*_partial(composition), *data["notes"]][:_MAX_NOTES],
            "omitted": {
                **data["omitted"],
                "sources": len(composition.origins) - len(sources),
                "documents": len(composition.documents) - len(documents),
            },
        },
    )


def _composed_checks(
    composition: Composition, sentence: ComposedSentence, shown: Shown, size: _Size
) -> Iterator[summary_schema.CheckSummary]:
    """Checks of a sentence against what it cites in its own prompt, with the composite's ids."""
    own = {
        one.source_id: index
        for index, one in enumerate(composition.origins)
        if one.attribution is composition.attribution
    }
    verdict = sentence.cited.verdict
    for check in () if verdict is None else verdict.checks:
        source = None if check.source is None else own.get(check.source)
        yield {**_check(check, shown, size), "source": source}


def _status(attribution: Attribution) -> Literal["complete", "partial", "pending"]:
    if any(verdict.reason == "pending" for verdict in attribution.verdicts):
        return "pending"
    return "partial" if attribution.partial else "complete"


def _partial(composition: Composition) -> Iterator[str]:
    """What a composite says of partial attributions in it."""
    attributions = [composition.attribution, *composition.earlier.values()]
    if count := sum(one.partial for one in attributions):
        yield (
            f"Partial: not everything was scored or decided in {count} of the {len(attributions)} "
            "attributions that this one is made of; the notes of each say why."
        )


def _sentence(
    attribution: Attribution, cited: CitedSentence, shown: Shown, size: _Size
) -> summary_schema.SentenceSummary:
    documents = {
        document: None
        for source_id in cited.source_ids
        for document in attribution.sources[source_id].documents
    }
    start, end = shown.interval(cited.start, cited.end)
    text = attribution.response[cited.start : cited.end]
    if shown.offsets is not None:
        text = shown.offsets.shown[start:end]
    verdict = cited.verdict
    return {
        "start": start,
        "end": end,
        "text": _cut(text, size.num_characters),
        "verdict": None if verdict is None else verdict.kind,
        "sources": list(cited.source_ids),
        "documents": list(documents),
        "relation": cited.relation,
        "effect": None if verdict is None else _rounded(verdict.effect),
        "reliance": None if verdict is None else _rounded(verdict.reliance),
        "kept": None if verdict is None else _rounded(verdict.kept),
        "in_part": verdict is not None and verdict.in_part,
        "follows": None if verdict is None else verdict.follows,
        "reason": None if verdict is None else verdict.reason,
        "checks": [] if verdict is None else [_check(one, shown, size) for one in verdict.checks],
    }


def _check(check: Check, shown: Shown, size: _Size) -> summary_schema.CheckSummary:
    start, end = shown.interval(check.start, check.end)
    told = check.source_value
    return {
        "start": start,
        "end": end,
        "kind": check.kind,
        "value": _cut(check.value, size.num_characters),
        "source_value": None if told is None else _cut(told, size.num_characters),
        "source": check.source,
    }


def _document(
    attribution: Attribution, citations: Citations, index: int, size: _Size
) -> summary_schema.DocumentSummary:
    document = attribution.documents[index]
    located = index not in attribution.not_located
    return {
        "index": index,
        "id": None if document.id is None else _cut(str(document.id), size.num_characters),
        "number": citations.numbers.get(index),
        "title": _cut(document.title, size.num_characters),
        "url": document.url if len(document.url) <= 5 * size.num_characters else "",
        "located": located,
        "located_share": round(attribution.partly_located.get(index, 1.0) * located, _DECIMALS),
        "metadata": {
            str(key): _cut(value, size.num_characters) if isinstance(value, str) else value
            for key, value in document.metadata.items()
            if size.metadata and _is_scalar(value) and len(str(key)) <= size.num_characters
        },
    }


def _source(
    attribution: Attribution, ranking: RankedSource, size: _Size
) -> summary_schema.SourceSummary:
    source = ranking.source
    return {
        "id": source.id,
        "text": _cut(attribution.plain_text(source).strip(), size.num_characters),
        "documents": list(source.documents),
        "score": round(ranking.score, _DECIMALS),
        "exact": attribution.exact[source.id],
        "estimated": attribution.is_estimated(source.id),
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
