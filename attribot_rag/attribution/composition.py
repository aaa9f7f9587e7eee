"""Answers made of earlier answers, which cite the documents of those answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attribot_rag.attribution.attribution import Attribution
from attribot_rag.cached_property import cached_property
from attribot_rag.context import Document, Source
from attribot_rag.context.document import label_of
from attribot_rag.context.pieces import PromptPart
from attribot_rag.display.plain_text import with_citations, with_legend, with_reader
from attribot_rag.display.report import CitedDocument, Markers, quote_of, spaces_and
from attribot_rag.result.citations import Citations, CitedSentence, Mark, Shown, cite
from attribot_rag.result.remarks import remark_on, support_remarks
from attribot_rag.result.summary import (
    MAX_NOTES,
    MAX_SUMMARY_BYTES,
    Size,
    SummaryParts,
    fitting,
    whole_summary,
)
from attribot_rag.result.summary_schema import (
    DocumentSummary,
    SentenceSummary,
    SourceSummary,
    Summary,
)
from attribot_rag.result.verdict import Kind, Relation


@dataclass(frozen=True)
class CitedOrigin:
    """A cited source of one attribution, and the retrieved documents that contain it.

    `documents` are indices of `attribution.documents`.
    """

    attribution: Attribution
    source_id: int
    documents: tuple[int, ...]

    @property
    def source(self) -> Source:
        return self.attribution.sources[self.source_id]


@dataclass(frozen=True)
class ComposedSentence:
    """A sentence of the last answer, and the retrieved texts that it comes from, best first.

    `cited` is what it cites in its own prompt. `kind` is its verdict. If it cites earlier answers
    that come from no retrieved text, `kind` is the verdict on what it cites there. It is None
    without verdicts. `origin` is the verdict's.
    """

    cited: CitedSentence
    origins: tuple[CitedOrigin, ...]
    relation: Relation
    kind: Kind | None
    origin: PromptPart | None = None


@dataclass(frozen=True)
class Composition:
    """The attribution of an answer that has earlier answers among its documents.

    Each step is measured: how the last answer depends on the earlier answers in its prompt, and how
    these depend on the documents in theirs. A citation of the last answer leads through both steps
    to a document, so no single measurement gives the citation a score.

    `earlier` are the attributions of the earlier answers, by the ids of their documents. Each comes
    after those that it was made of. `retrieved` are the application's documents. Some may be in
    none of these prompts.
    """

    attribution: Attribution
    earlier: Mapping[str, Attribution] = field(default_factory=dict)
    retrieved: Sequence[Document] = ()

    @cached_property
    def sentences(self) -> tuple[ComposedSentence, ...]:
        return tuple(map(self._composed, cite(self.attribution)))

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The numbers of the cited documents, by key, as `cite` gives them.

        Several attributions are always numbered from 1, in the order of first citation.
        """
        if not self.earlier:
            own = cite(self.attribution).numbers
            return {self.key_of(self.attribution, index): own[index] for index in own}
        numbers: dict[str, int] = {}
        for origin in self.origins:
            for index in origin.documents:
                key = self.key_of(origin.attribution, index)
                numbers.setdefault(key, len(numbers) + 1)
        return numbers

    @cached_property
    def origins(self) -> tuple[CitedOrigin, ...]:
        """The sources of all sentences, in order, each once."""
        return _each_once(origin for sentence in self.sentences for origin in sentence.origins)

    @cached_property
    def documents(self) -> dict[str, tuple[Attribution, int]]:
        """The retrieved documents by key. The cited documents come first, by number.

        Each document has the attribution whose prompt contains the largest share of the document.
        """
        retrieved: dict[str, tuple[Attribution, int]] = {}
        for attribution in self._attributions:
            for index in range(len(attribution.documents)):
                if self._answer(attribution, index) is None:
                    key = self.key_of(attribution, index)
                    known, at = retrieved.get(key, (None, 0))
                    share = attribution.located_share(index)
                    if known is None or known.located_share(at) < share:
                        retrieved[key] = (attribution, index)
        by_number = sorted(self.numbers, key=lambda key: self.numbers[key])
        cited = {key: retrieved[key] for key in by_number if key in retrieved}
        return {**cited, **retrieved}

    @cached_property
    def unread(self) -> dict[str, Document]:
        """The retrieved documents that no prompt contains, by key."""
        keys = {self._key(document): document for document in self.retrieved}
        return {key: keys[key] for key in keys if key not in self.documents}

    @property
    def num_passages(self) -> int:
        """How many documents were retrieved, for the answer and for the earlier ones."""
        return len(self.documents) + len(self.unread)

    def key_of(self, attribution: Attribution, index: int) -> str:
        """The id of a document. If it has none, or other texts have the same id, its text."""
        return self._key(attribution.documents[index])

    def _key(self, document: Document) -> str:
        if document.id is None or document.id in self._shared_ids:
            return document.text
        return str(document.id)

    @cached_property
    def _shared_ids(self) -> frozenset[str]:
        """Ids that several texts of one list have, such as the name of their file."""
        lists = [self.retrieved, *(attribution.documents for attribution in self._attributions)]
        shared: set[str] = set()
        for documents in lists:
            texts: dict[str, str] = {}
            for document in documents:
                first = texts.setdefault(document.id or document.text, document.text)
                if document.id and first != document.text:
                    shared.add(document.id)
        return frozenset(shared)

    @property
    def _attributions(self) -> tuple[Attribution, ...]:
        return *self.earlier.values(), self.attribution

    def number_of(self, origin: CitedOrigin, document: int) -> int:
        return self.numbers[self.key_of(origin.attribution, document)]

    def numbers_of(self, origins: Iterable[CitedOrigin]) -> tuple[int, ...]:
        """The numbers of all documents that contain any of these sources, ascending."""
        numbers = {
            self.number_of(origin, index) for origin in origins for index in origin.documents
        }
        return tuple(sorted(numbers))

    def to_cited_text(
        self, *, remarks: bool = True, markers: Markers = "audited", sources: bool = False
    ) -> str:
        """The last answer with the numbers of retrieved documents, as by Attribution.to_cited_text.

        A sentence that comes only from an earlier answer gets a remark. The model's own markers
        stay only in a plain answer, because elsewhere their numbers mean other documents.
        """
        attribution = self.attribution
        if not self.earlier:
            return attribution.to_cited_text(remarks=remarks, markers=markers, sources=sources)
        citations = (
            ((sentence.cited.start, sentence.cited.end), " ".join(self._written(sentence, remarks)))
            for sentence in self.sentences
        )
        own = ((marker.start, marker.end) for marker in attribution.markers)
        removed = spaces_and(attribution.response, own)
        text = with_citations(attribution.response, citations, removed)
        if remarks:
            text = with_reader(text, attribution.provenance)
        return with_legend(text, self._cited_documents()) if sources else text

    def _cited_documents(self) -> list[CitedDocument]:
        """The cited documents, by number, with their cited characters."""
        documents: dict[int, CitedDocument] = {}
        for origin in self.origins:
            for index in origin.documents:
                number = self.number_of(origin, index)
                label = label_of(origin.attribution.documents[index], index)
                cited = documents.get(number) or CitedDocument(index, number, label, ())
                quotes = (*cited.quotes, quote_of(origin.attribution, origin.source, index))
                documents[number] = replace(cited, quotes=tuple(dict.fromkeys(quotes)))
        return [documents[number] for number in sorted(documents)]

    def _written(self, sentence: ComposedSentence, remarks: bool) -> Iterator[str]:
        groups = [self.numbers_of([origin]) for origin in sentence.origins]
        if sentence.relation == "either" and groups:
            groups = [self.numbers_of(sentence.origins)]
        marks = dict.fromkeys(map(Mark, groups))
        verdict = sentence.cited.verdict
        if verdict is not None and sentence.kind is not None:
            verdict = replace(
                verdict,
                kind=sentence.kind,
                origin=sentence.origin,
                relation=sentence.relation,
            )
        basis = self.attribution.provenance.basis
        cause = remark_on(verdict, self.attribution.verdicts, len(marks), basis=basis)
        support = support_remarks(
            self.attribution, verdict, self.marked, num_passages=self.num_passages
        )
        if not (remarks and any(remark.names_cited for remark in support)):
            yield from (f"[{mark}]" for mark in marks)
        if remarks:
            said = (cause, "; ".join(remark.words for remark in support))
            yield from (f"({remark})" for remark in said if remark)

    def marked(self, documents: Sequence[int]) -> str:
        """The numbers, in brackets, of these documents of the last prompt that were retrieved."""
        keys = (self.key_of(self.attribution, index) for index in documents)
        numbers = sorted({self.numbers[key] for key in keys if key in self.numbers})
        return f"[{Mark(tuple(numbers))}]" if numbers else ""

    def _answer(self, attribution: Attribution, index: int) -> Attribution | None:
        """The attribution of the earlier answer that is this document, or None."""
        return self.earlier.get(str(attribution.documents[index].id))

    def _composed(self, sentence: CitedSentence) -> ComposedSentence:
        origins = self._origins[id(self.attribution), sentence.start]
        within = [
            earlier
            for source_id in sentence.source_ids
            for earlier in self._sentences_of(self.attribution, source_id)
        ]
        verdict = sentence.verdict
        if sentence.source_ids and not origins and within:
            verdict = within[0][1].verdict
        kind = None if verdict is None else verdict.kind
        origin = None if verdict is None else verdict.origin
        cited = [earlier for _, earlier in within if earlier.source_ids]
        relation = cited[0].relation if len(cited) == 1 else sentence.relation
        return ComposedSentence(sentence, origins, relation, kind, origin)

    @cached_property
    def _origins(self) -> dict[tuple[int, int], tuple[CitedOrigin, ...]]:
        """The cited origins of each sentence, by attribution and start of the sentence."""
        known: dict[tuple[int, int], tuple[CitedOrigin, ...]] = {}

        def origins_of(attribution: Attribution, sentence: CitedSentence) -> Iterator[CitedOrigin]:
            for source_id in sentence.source_ids:
                documents = attribution.sources[source_id].documents
                own = [index for index in documents if self._answer(attribution, index) is None]
                if own:
                    yield CitedOrigin(attribution, source_id, tuple(own))
                for answer, earlier in self._sentences_of(attribution, source_id):
                    yield from known.get((id(answer), earlier.start), ())

        for attribution in self._attributions:  # each after those that it was made of
            for sentence in self._citations[id(attribution)]:
                origins = _each_once(origins_of(attribution, sentence))
                known[id(attribution), sentence.start] = origins
        return known

    @cached_property
    def _citations(self) -> dict[int, Citations]:
        return {id(attribution): cite(attribution) for attribution in self._attributions}

    def _sentences_of(
        self, attribution: Attribution, source_id: int
    ) -> Iterator[tuple[Attribution, CitedSentence]]:
        """The sentences of earlier answers that equal or overlap a source."""
        for occurrence in attribution.sources[source_id].occurrences:
            for span in occurrence.spans:
                answer = self._answer(attribution, span.document)
                if answer is None:
                    continue
                first = max(0, answer.response.find(attribution.documents[span.document].text))
                start, end = first + span.start, first + span.end
                for sentence in self._citations[id(answer)]:
                    if sentence.start < end and start < sentence.end:
                        yield answer, sentence


def _each_once(origins: Iterable[CitedOrigin]) -> tuple[CitedOrigin, ...]:
    return tuple(
        {(id(origin.attribution), origin.source_id): origin for origin in origins}.values()
    )


def summarize_composition(
    composition: Composition,
    *,
    shown: Shown | None = None,
    run_id: str | None = None,
    max_bytes: int = MAX_SUMMARY_BYTES,
) -> dict[str, Any]:
    """The summary of an answer made of earlier answers; its status is 'composite'.

    It has no `calls` yet. Its documents are the retrieved ones of all answers, its sources the
    cited ones.
    """

    def of_size(size: Size) -> Summary:
        return _Composite(composition, shown or Shown(), size).summary()

    return fitting(of_size, run_id, max_bytes)


class _Composite:
    """The parts of the summary, with the composition's indices of documents and sources."""

    def __init__(self, composition: Composition, shown: Shown, size: Size) -> None:
        self._composition = composition
        self._parts = SummaryParts(
            composition.attribution, shown, size, composition.marked, composition.num_passages
        )
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
            "trust": data["trust"] and {**data["trust"], "passages": composition.num_passages},
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
        checks: list[Any] = data["checks"]
        for check in checks:
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

    def _support(self, support: Any) -> Any:
        """The support with the composition's indices, without rivals that were not retrieved."""
        if support is None:
            return None
        sources = [self._source(source) for source in support["source_ids"]]
        rivals = []
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
        """The composition's index of a source of the last answer; None if it is not cited."""
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
        count = sum(attribution.incomplete for attribution in attributions)
        if not count:
            return []
        return [
            f"Partial: not everything was scored or decided in {count} of the {len(attributions)} "
            "attributions that this one is made of; the notes of each say why."
        ]
