"""A summary of an answer composed of earlier answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attribot_rag.attribution.attribution import Attribution
from attribot_rag.attribution.composition import ComposedSentence, Composition
from attribot_rag.result.citations import cite
from attribot_rag.result.offsets import Shown
from attribot_rag.result.summary import MAX_NOTES, MAX_SUMMARY_BYTES, fitting, whole_summary
from attribot_rag.result.summary_parts import Size, SummaryParts
from attribot_rag.result.summary_schema import (
    DocumentSummary,
    RivalSummary,
    SentenceSummary,
    SourceSummary,
    Summary,
    SupportSummary,
)


def summarize_composition(
    composition: Composition,
    *,
    shown: Shown | None = None,
    run_id: str | None = None,
    max_bytes: int = MAX_SUMMARY_BYTES,
) -> dict[str, Any]:
    """The summary of an answer made of earlier answers, without theirs: its status is 'composite'.

    Documents are the retrieved ones of all answers, sources the cited ones.
    """

    def of_size(size: Size) -> Summary:
        return _Composite(composition, shown or Shown(), size).summary()

    return fitting(of_size, run_id, max_bytes)


class _Composite:
    """The parts of the summary, with the composition's indices of documents and sources."""

    def __init__(self, composition: Composition, shown: Shown, size: Size) -> None:
        self._composition = composition
        self._parts = SummaryParts(composition.attribution, shown, size, composition.marked)
        keys = (*composition.documents, *composition.unread)
        self._documents = {key: index for index, key in enumerate(keys)}
        self._sources = {
            (id(origin.attribution), origin.source_id): index
            for index, origin in enumerate(composition.origins)
        }

    def summary(self) -> Summary:
        composition, size = self._composition, self._parts.size
        data = whole_summary(self._parts, cite(composition.attribution))
        documents = list(self._documents)[: size.num_documents]
        sources = self._source_summaries()
        return {
            **data,
            "status": "composite",
            "sentences": [
                self._sentence(sentence) for sentence in composition.sentences[: size.num_sentences]
            ],
            "trust": data["trust"] and {**data["trust"], "passages": len(self._documents)},
            "documents": list(map(self._document, documents)),
            "sources": sources,
            "notes": [*self._partial_note(), *data["notes"]][:MAX_NOTES],
            "omitted": {
                **data["omitted"],
                "sources": len(composition.origins) - len(sources),
                "documents": len(self._documents) - len(documents),
            },
        }

    def _sentence(self, sentence: ComposedSentence) -> SentenceSummary:
        documents = [
            index
            for origin in sentence.origins
            for index in self._indices(origin.attribution, origin.documents)
        ]
        data = self._parts.sentence(sentence.cited)
        for check in data["checks"]:
            if check["source"] is not None:
                check["source"] = self._source(check["source"])
        for marker in data["markers"]:
            marker["document"] = None
        return {
            **data,
            "support": self._support(data["support"]),
            "remarks": [
                {**remark, "documents": self._own(remark["documents"])}
                for remark in data["remarks"]
            ],
            "verdict": sentence.kind,
            "origin": sentence.origin,
            "relation": sentence.relation,
            "source_ids": [
                self._sources[id(origin.attribution), origin.source_id]
                for origin in sentence.origins
            ],
            "documents": list(dict.fromkeys(documents)),
        }

    def _support(self, support: SupportSummary | None) -> SupportSummary | None:
        """The support with the composition's indices, without what no retrieved text says."""
        if support is None:
            return None
        sources = [self._source(source) for source in support["source_ids"]]
        rivals: list[RivalSummary] = []
        for rival in support["rivals"]:
            source, documents = self._source(rival["source"]), self._own([rival["document"]])
            if source is not None and documents:
                rivals.append({**rival, "source": source, "document": documents[0]})
        return {
            **support,
            "source_ids": [source for source in sources if source is not None],
            "rivals": rivals,
        }

    def _source(self, source_id: int) -> int | None:
        """The index of a source of the last answer; None for one that is not cited."""
        return self._sources.get((id(self._composition.attribution), source_id))

    def _own(self, documents: Sequence[int]) -> list[int]:
        """The indices of documents of the last answer that were retrieved."""
        attribution = self._composition.attribution
        keys = (self._composition.key_of(attribution, index) for index in documents)
        return [self._documents[key] for key in keys if key in self._documents]

    def _document(self, key: str) -> DocumentSummary:
        unread = self._composition.unread.get(key)
        if unread is not None:
            return self._parts.any_document(unread, self._documents[key], None, 0.0)
        attribution, index = self._composition.documents[key]
        parts = replace(self._parts, attribution=attribution)
        data = parts.document(index, self._composition.numbers.get(key))
        return {**data, "index": self._documents[key]}

    def _source_summaries(self) -> list[SourceSummary]:
        summaries: list[SourceSummary] = []
        for index, origin in enumerate(self._composition.origins[: self._parts.size.num_sources]):
            score = origin.attribution.score(origin.source_id)
            if score is not None:
                parts = replace(self._parts, attribution=origin.attribution)
                documents = self._indices(origin.attribution, origin.documents)
                data = parts.source(origin.source_id, score)
                summaries.append({**data, "id": index, "documents": documents})
        return summaries

    def _indices(self, attribution: Attribution, documents: Sequence[int]) -> list[int]:
        return [
            self._documents[self._composition.key_of(attribution, index)] for index in documents
        ]

    def _partial_note(self) -> list[str]:
        attributions = [self._composition.attribution, *self._composition.earlier.values()]
        count = sum(attribution.partial for attribution in attributions)
        if not count:
            return []
        return [
            f"Partial: not everything was scored or decided in {count} of the {len(attributions)} "
            "attributions that this one is made of; the notes of each say why."
        ]
