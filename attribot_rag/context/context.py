"""The context of a prompt: which sources it holds, and where each of them stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from attribot_rag.context.ablated_prompt import AblatedPrompt, ablate
from attribot_rag.context.ablation import Ablation
from attribot_rag.context.document import Document, Source
from attribot_rag.context.duplicates import group_duplicates
from attribot_rag.context.location import Location
from attribot_rag.context.locator import Locator
from attribot_rag.context.parts import find_parts
from attribot_rag.context.places import Places, merge
from attribot_rag.context.regions import find_turns, whole_context
from attribot_rag.context.splitter import Splitter, make_splitter, split_spans
from attribot_rag.context.tokens import Interval, TokenizedText
from attribot_rag.errors import DocumentsNotLocated, InvalidInput
from attribot_rag.language_model import LanguageModel


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
            if not isinstance(value, float | int) or not 0 < value <= 1:
                raise InvalidInput(f"{name}={value!r} is no similarity; use a value in (0, 1]")
        if not isinstance(self.language, str):
            raise InvalidInput(f"language={self.language!r}; pass an ISO 639-1 code such as 'en'")
        make_splitter(self.source_unit, self.language)


@dataclass(frozen=True, eq=False)
class Context:
    """Documents located in one prompt.

    `sources` are in the order of their first place, each with its index as id. `regions` are the
    characters of the prompt that documents take up, `conversation` those of earlier turns;
    `not_located` the indices of the documents that were not found in the prompt. `partly_located`
    tells of documents of which only parts stand there (cut or thinned out by the application), by
    their indices, how much that is: the share of their characters, white space aside, in (0, 1).
    """

    documents: tuple[Document, ...]
    prompt: TokenizedText
    sources: tuple[Source, ...]
    regions: tuple[Interval, ...]
    not_located: tuple[int, ...]
    conversation: tuple[Interval, ...] = ()
    partly_located: Mapping[int, float] = field(default_factory=dict)

    @property
    def present(self) -> tuple[int, ...]:
        """Ids of the sources that stand in the prompt: all, unless some were taken out."""
        return tuple(source.id for source in self.sources if source.occurrences)

    @cached_property
    def whole(self) -> Ablation:
        """All that was retrieved: the documents, and what stands between them (titles, say)."""
        return Ablation(characters=whole_context(self.prompt.text, self.regions))

    @cached_property
    def end(self) -> int:
        """Index of the first token after the last document."""
        last = max((end for _, end in self.regions), default=0)
        return self.prompt.tokens_in((0, last)).stop

    def ablate(self, ablation: Ablation, language_model: LanguageModel) -> AblatedPrompt:
        """The prompt without all this; sources are removed from every place where they stand.

        Where nothing would be left, its last token stays, since something has to predict the
        response; then it is not in step.
        """
        ablated = ablate(self.prompt, self.removed(ablation), language_model)
        if ablated.ids:
            return ablated
        return AblatedPrompt(self.prompt.ids[-1:], int(len(self.prompt.ids) == 1), in_step=False)

    def removed(self, ablation: Ablation) -> tuple[Interval, ...]:
        """The characters that the ablation takes out of the prompt, disjoint and ascending."""
        intervals = merge(self._places(ablation))
        removed = merge(self._with_space_before(interval) for interval in intervals)
        return tuple(merge([*removed, *ablation.characters]))

    def hidden_tokens(self, ablation: Ablation) -> list[int]:
        """Positions of the tokens that belong to what the ablation names."""
        places = merge([*self._places(ablation), *ablation.characters])
        return [position for place in places for position in self.prompt.tokens_in(place)]

    def following_tokens(self, ablation: Ablation) -> list[int]:
        """Positions of the tokens after the ablated sources in the same stretch of documents."""
        stretches = (
            (end, last)
            for _, end in self._places(ablation)
            for first, last in self.regions
            if first < end <= last
        )
        return [i for stretch in merge(stretches) for i in self.prompt.tokens_in(stretch)]

    def _places(self, ablation: Ablation) -> Iterator[Interval]:
        for source_id in sorted(ablation.source_ids):
            for occurrence in self.sources[source_id].occurrences:
                yield occurrence.start, occurrence.end

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
    *,
    earlier_turns: Sequence[str] = (),
) -> Context:
    """Find the documents and the earlier turns in the prompt, and cut documents into sources.

    Raises InvalidInput without documents, DocumentsNotLocated if none is in the prompt.
    """
    if isinstance(documents, str | Mapping | Document) or not documents:
        raise InvalidInput(f"documents={documents!r}; pass a list of at least one document")
    known = tuple(Document.of(document) for document in documents)
    conversation = find_turns(prompt.text, earlier_turns)
    locator = Locator(prompt.text, threshold=options.fuzzy_threshold)
    whole = {index: locator.locate(document.text) for index, document in enumerate(known)}
    parts = find_parts(
        locator.normalised,
        {index: known[index].text for index, places in whole.items() if not places},
        [*((one.start, one.end) for places in whole.values() for one in places), *conversation],
    )
    located = [
        (index, location) for index, places in (whole | parts).items() for location in places
    ]
    found = {index for index, _ in located}
    if not found:
        raise DocumentsNotLocated(
            f"none of the {len(known)} documents stands in the prompt; the first begins "
            f"{known[0].text[:60]!r}, the prompt {prompt.text[:60]!r}; pass the chunks whose text "
            "was put into this prompt"
        )
    splitter = make_splitter(options.source_unit, options.language)
    cuts = {index: split_spans(known[index].text, splitter) for index in sorted(found)}
    places = Places(prompt.text)
    for index, location in sorted(
        located,
        key=lambda item: (item[1].start - item[1].end, item[1].start, known[item[0]].text, item[0]),
    ):
        places.add_document(index, location, cuts[index])
    return Context(
        documents=known,
        prompt=prompt,
        sources=tuple(_sources(prompt.text, places, options.duplicate_threshold)),
        regions=tuple(merge((location.start, location.end) for _, location in located)),
        not_located=tuple(index for index in range(len(known)) if index not in found),
        conversation=conversation,
        partly_located=_shares(known, parts),
    )


def _shares(
    documents: Sequence[Document], parts: Mapping[int, Sequence[Location]]
) -> dict[int, float]:
    """How much of each document its parts are, less than all of it."""
    shares = {index: _share(documents[index].text, parts[index]) for index in sorted(parts)}
    return {index: share for index, share in shares.items() if share < 1}


def _share(document: str, parts: Sequence[Location]) -> float:
    """How much of a document its parts are, in characters that are no white space."""
    spans = merge(part.document_span for part in parts if part.document_span)
    held = sum(len("".join(document[slice(*span)].split())) for span in spans)
    return held / len("".join(document.split()))


def _sources(prompt: str, places: Places, duplicate_threshold: float) -> list[Source]:
    """Pieces of equal and near-equal text joined, with the copies outside of the documents."""
    occurrences = places.occurrences()
    texts = [prompt[occurrence.start : occurrence.end].strip() for occurrence in occurrences]
    groups = group_duplicates(texts, threshold=duplicate_threshold)
    found = [[occurrences[member] for member in members] for members in groups]
    variants = {texts[member]: index for index, group in enumerate(groups) for member in group}
    for text in sorted(variants, key=lambda text: (-len(text), text)):
        found[variants[text]] += places.add_copies(text)
    ordered = sorted(
        (
            (texts[group[0]], sorted(held, key=lambda occurrence: occurrence.start))
            for group, held in zip(groups, found, strict=True)
        ),
        key=lambda source: source[1][0].start,
    )
    return [Source(index, text, tuple(held)) for index, (text, held) in enumerate(ordered)]
