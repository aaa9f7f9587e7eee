"""The context of a prompt: which sources it holds, and where each of them stands."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attribot_rag.context.ablating import AblatedPrompt, ablate
from attribot_rag.context.document import Document, DocumentSpan, Occurrence, Source
from attribot_rag.context.duplicates import group_duplicates
from attribot_rag.context.locating import Location, Locator
from attribot_rag.context.splitting import Splitter, make_splitter, split_spans
from attribot_rag.context.tokens import Interval, TokenizedText
from attribot_rag.errors import DocumentsNotLocated, InvalidInput
from attribot_rag.language_model import LanguageModel

_MIN_OUTSIDE_WORDS = 5


@dataclass(frozen=True, kw_only=True)
class ContextOptions:
    """How documents become sources.

    `source_unit` is 'sentence', 'paragraph', 'document' or a function that cuts a text into
    pieces without losing any. `language` is the sentence splitter's (ISO 639-1).
    `duplicate_threshold` is the similarity from which two texts are one source (1: equal ones
    only), `fuzzy_threshold` the one from which a document counts as found in the prompt.
    """

    source_unit: str | Splitter = "sentence"
    language: str = "en"
    duplicate_threshold: float = 0.95
    fuzzy_threshold: float = 0.9

    def __post_init__(self) -> None:
        for name in ("duplicate_threshold", "fuzzy_threshold"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise InvalidInput(f"{name}={value!r} is no similarity; use a value in (0, 1]")
        make_splitter(self.source_unit, self.language)


@dataclass(frozen=True, eq=False)
class Context:
    """Documents located in one prompt.

    `sources` are in the order of their first place, each with its index as id. `regions` are the
    characters of the prompt that documents take up; `not_located` the indices of the documents
    that were not found in it.
    """

    documents: tuple[Document, ...]
    prompt: TokenizedText
    sources: tuple[Source, ...]
    regions: tuple[Interval, ...]
    not_located: tuple[int, ...]

    def ablate(self, source_ids: Collection[int], language_model: LanguageModel) -> AblatedPrompt:
        """The prompt without these sources, removed from every place where they stand."""
        intervals = (
            (occurrence.start, occurrence.end)
            for source_id in source_ids
            for occurrence in self.sources[source_id].occurrences
        )
        removed = [self._with_space_before(interval) for interval in _merge(intervals)]
        return ablate(self.prompt, removed, language_model)

    def _with_space_before(self, interval: Interval) -> Interval:
        """A removal at the end of a document also takes the space that parted it from the rest."""
        start, end = interval
        for first, last in self.regions:
            if first < start < last and not self.prompt.text[end:last].strip():
                kept = self.prompt.text[first:start].rstrip()
                return first + len(kept), last
        return interval


def locate_context(
    prompt: TokenizedText,
    documents: Sequence[str | Document | Mapping[str, Any]],
    options: ContextOptions,
) -> Context:
    """Find the documents in the prompt and cut them into sources.

    Raises InvalidInput without documents, DocumentsNotLocated if none is in the prompt.
    """
    if isinstance(documents, str) or not documents:
        raise InvalidInput(f"documents={documents!r}; pass a list of at least one document")
    known = tuple(Document.of(document) for document in documents)
    locator = Locator(prompt.text, threshold=options.fuzzy_threshold)
    located = [
        (index, location)
        for index, document in enumerate(known)
        for location in locator.locate(document.text)
    ]
    found = {index for index, _ in located}
    if not found:
        raise DocumentsNotLocated(
            f"none of the {len(known)} documents stands in the prompt; the first begins "
            f"{known[0].text[:60]!r}, the prompt {prompt.text[:60]!r}; pass the chunks whose text "
            "was put into this prompt"
        )
    splitter = make_splitter(options.source_unit, options.language)
    places = _Places(prompt.text)
    for index, location in sorted(
        located, key=lambda item: (item[1].start - item[1].end, item[1].start, item[0])
    ):
        places.add(index, location, split_spans(known[index].text, splitter))
    occurrences = places.occurrences()
    return Context(
        documents=known,
        prompt=prompt,
        sources=tuple(_sources(prompt.text, occurrences, options.duplicate_threshold)),
        regions=tuple(_merge((location.start, location.end) for _, location in located)),
        not_located=tuple(index for index in range(len(known)) if index not in found),
    )


class _Places:
    """Disjoint pieces of the prompt; the longest document that holds a piece decides its cuts."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._intervals: list[Interval] = []
        self._spans: dict[Interval, list[DocumentSpan]] = {}

    def add(self, document: int, location: Location, cuts: Sequence[Interval]) -> None:
        """Credit a located document with the pieces it shares, and add those that are new."""
        self._credit(document, location)
        for start, end in cuts:
            first, last = location.offsets[start], location.offsets[end]
            for free in self._free(first, last):
                if self._prompt[slice(*free)].strip():
                    self._insert(free)
                    self._spans[free].append(_document_span(document, location, free))

    def occurrences(self) -> list[Occurrence]:
        return [
            Occurrence(start, end, tuple(self._spans[start, end])) for start, end in self._intervals
        ]

    def _credit(self, document: int, location: Location) -> None:
        for interval in self._overlapping(location.start, location.end):
            start, end = max(interval[0], location.start), min(interval[1], location.end)
            held = len(self._prompt[start:end].strip())
            if 2 * held >= len(self._prompt[slice(*interval)].strip()):
                self._spans[interval].append(_document_span(document, location, (start, end)))

    def _overlapping(self, start: int, end: int) -> list[Interval]:
        first = bisect_left(self._intervals, (start, start))
        if first and self._intervals[first - 1][1] > start:
            first -= 1
        last = bisect_left(self._intervals, (end, end))
        return self._intervals[first:last]

    def _free(self, start: int, end: int) -> Iterator[Interval]:
        for first, last in self._overlapping(start, end):
            if start < first:
                yield start, first
            start = max(start, last)
        if start < end:
            yield start, end

    def _insert(self, interval: Interval) -> None:
        self._intervals.insert(bisect_left(self._intervals, interval), interval)
        self._spans[interval] = []


def _document_span(document: int, location: Location, interval: Interval) -> DocumentSpan:
    start, end = (location.document_offset(place) for place in interval)
    return DocumentSpan(document, start, end)


def _sources(
    prompt: str, occurrences: Sequence[Occurrence], duplicate_threshold: float
) -> Iterator[Source]:
    texts = [prompt[occurrence.start : occurrence.end].strip() for occurrence in occurrences]
    claimed = _merge((occurrence.start, occurrence.end) for occurrence in occurrences)
    groups = group_duplicates(texts, threshold=duplicate_threshold)
    for source_id, members in enumerate(groups):
        text = texts[members[0]]
        places = [occurrences[member] for member in members]
        places += _outside(prompt, text, claimed)
        yield Source(source_id, text, tuple(sorted(places, key=lambda place: place.start)))


def _outside(prompt: str, text: str, claimed: Sequence[Interval]) -> Iterator[Occurrence]:
    """Copies of a whole sentence outside of the documents (an earlier turn's context, say)."""
    if len(text.split()) < _MIN_OUTSIDE_WORDS:
        return
    start = prompt.find(text)
    while start >= 0:
        end = start + len(text)
        before = bisect_left(claimed, (end, end))
        inside = before > 0 and claimed[before - 1][1] > start
        within_word = prompt[start - 1 : start].isalnum() or prompt[end : end + 1].isalnum()
        if not inside and not within_word:
            yield Occurrence(start, end, ())
        start = prompt.find(text, end)


def _merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Sorted, with overlapping and touching intervals joined."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
