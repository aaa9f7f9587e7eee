"""The context of a prompt: its documents' sources, their places, and groups of sources."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain, pairwise

from rapidfuzz.distance import Indel

from attribot_rag.cached_property import cached_property
from attribot_rag.context.document import Document, Occurrence, Source
from attribot_rag.context.labels import DocumentLabels, document_labels
from attribot_rag.context.pieces import PromptPart, PromptPieces
from attribot_rag.context.prompt import AblatedPrompt, Ablation, TokenizedText, ablate
from attribot_rag.context.splitting.splitter import (
    Splitter,
    check_language,
    language_of,
    make_splitter,
    paragraphs,
)
from attribot_rag.context.text import Interval, merge, overlapping, shared_length, subtract
from attribot_rag.errors import InvalidInput
from attribot_rag.model.language_model import LanguageModel, Prompt


@dataclass(frozen=True, kw_only=True)
class ContextOptions:
    """Options for finding documents in the prompt and cutting them into sources.

    Raises InvalidInput for an unknown unit, or a threshold outside (0, 1].

    Args:
        source_unit: 'sentence', 'paragraph', 'document', or a function that splits a text into
            pieces without losing characters.
        language: The language of documents and answers (ISO 639-1), for splitting sentences. By
            default it is detected for each.
        duplicate_threshold: The similarity from which two texts are one source (1: only equal
            texts).
        fuzzy_threshold: The similarity from which a document counts as found.
    """

    source_unit: str | Splitter = "sentence"
    language: str | None = None
    duplicate_threshold: float = 0.95
    fuzzy_threshold: float = 0.9

    def __post_init__(self) -> None:
        for name in ("duplicate_threshold", "fuzzy_threshold"):
            value = getattr(self, name)
            if not isinstance(value, float | int) or not 0 < value <= 1:
                raise InvalidInput(f"{name}={value!r} is not a similarity; use a value in (0, 1]")
        if self.language is not None:
            check_language(self.language)
        make_splitter(self.source_unit, self.language)


@dataclass(frozen=True, eq=False)
class Context:
    """Documents located in one prompt.

    - `sources` are in the order of their first place. A source's id is its index.
    - `regions` are the characters of the prompt that belong to documents, `conversation` those of
      earlier turns, and `message` those of the user's last message, if it is known.
    - `not_located` are indices of documents that the prompt lacks.
    - `partly_located` gives the share of a document's characters, without white space, in (0, 1),
      if the prompt has only parts of it.
    - `crowded` documents have further places that are not among their sources' occurrences.
    - `language` is the option; None if it is detected.
    """

    documents: tuple[Document, ...]
    prompt: TokenizedText
    sources: tuple[Source, ...]
    regions: tuple[Interval, ...]
    not_located: tuple[int, ...]
    conversation: tuple[Interval, ...] = ()
    message: tuple[Interval, ...] = ()
    partly_located: Mapping[int, float] = field(default_factory=dict)
    crowded: tuple[int, ...] = ()
    language: str | None = None

    @cached_property
    def labels(self) -> DocumentLabels:
        """The labels that the prompt gives to its documents."""
        return document_labels(
            self.prompt.text, self.sources, len(self.documents), self.conversation
        )

    def answer_language(self, response: str) -> str:
        """The language of a response, or of the documents if the response is too short."""
        return self.language or language_of(
            response, [document.text for document in self.documents]
        )

    @cached_property
    def present(self) -> tuple[int, ...]:
        """Ids of the sources that the prompt has: all, unless it was reduced."""
        return tuple(source.id for source in self.sources if source.occurrences)

    @property
    def absent(self) -> tuple[int, ...]:
        """Indices of documents that have text but no place in the prompt."""
        return tuple(i for i in self.not_located if not self.documents[i].is_blank)

    @cached_property
    def without_documents(self) -> Ablation:
        """The ablation of all documents and of the text between them, such as titles."""
        return Ablation(characters=with_labels(self.prompt.text, self.regions, self.conversation))

    @cached_property
    def rest_of_prompt(self) -> str:
        """The prompt's text without retrieved text and earlier turns."""
        text = self.prompt.text
        spans = merge((*self.without_documents.characters, *self.conversation))
        return " ".join(text[start:end] for start, end in subtract((0, len(text)), spans))

    @cached_property
    def parts(self) -> Mapping[PromptPart, Sequence[Interval]]:
        """The characters of the instructions, the question and the earlier turns."""
        retrieved, turns = self.without_documents.characters, self.conversation
        return _prompt_parts(len(self.prompt.text), retrieved, turns, self.message)

    @cached_property
    def pieces(self) -> PromptPieces:
        """The sentences and lines of these parts."""
        return PromptPieces(self.prompt, self.parts, self.message, self.language)

    @cached_property
    def query_start(self) -> int:
        """Index of the first token after the last document."""
        documents_end = max((end for _, end in self.regions), default=0)
        return self.prompt.tokens_in((0, documents_end)).stop

    def ablation_of_others(self, source_ids: Collection[int]) -> Ablation:
        """Ablate all other sources, and the text around documents that have no source left.

        A document keeps the text before it, such as its title. The first remaining document loses
        the separator before it.
        """
        places = merge(self._places(Ablation(frozenset(source_ids))))
        around: list[Interval] = []
        for stretch in self.without_documents.characters:
            regions = overlapping(self.regions, stretch)
            starts = [stretch[0], *(end for _, end in regions)]
            labelled = [(start, end) for start, (_, end) in zip(starts, regions, strict=False)]
            kept = [
                (start, end)
                for start, end in labelled
                if any(place[0] < end and start < place[1] for place in places)
            ]
            if kept and kept[0] != labelled[0]:
                start, end = kept[0]
                kept[0] = start + len(_separator(self.prompt.text, regions)), end
            around += subtract(stretch, kept)
        return Ablation(frozenset(self.present) - frozenset(source_ids), tuple(around))

    def ablate(self, ablation: Ablation, language_model: LanguageModel) -> AblatedPrompt:
        """The ablated prompt. A source is removed from all its places.

        If nothing would be left, the prompt's last token stays, because a token has to predict the
        response. The prompt is then not in step.
        """
        ablated = ablate(self.prompt, self.removed(ablation), language_model)
        if ablated.ids:
            return ablated
        return AblatedPrompt(self.prompt.ids[-1:], int(len(self.prompt.ids) == 1), in_step=False)

    def removed(self, ablation: Ablation) -> tuple[Interval, ...]:
        """The characters that the ablation removes from the prompt, disjoint and ascending."""
        intervals = merge(self._places(ablation))
        removed = merge(self._with_space_before(interval) for interval in intervals)
        return tuple(merge([*removed, *ablation.characters]))

    def hidden_tokens(self, ablation: Ablation) -> list[int]:
        """Positions of the tokens of the ablated sources and characters."""
        places = merge([*self._places(ablation), *ablation.characters])
        return [position for place in places for position in self.prompt.tokens_in(place)]

    def following_tokens(self, ablation: Ablation) -> list[int]:
        """Positions of the tokens after the ablated sources in the same stretch of documents."""
        stretches = (
            (end, region_end)
            for _, end in self._places(ablation)
            for region_start, region_end in self.regions
            if region_start < end <= region_end
        )
        return [i for stretch in merge(stretches) for i in self.prompt.tokens_in(stretch)]

    def _places(self, ablation: Ablation) -> list[Interval]:
        return [
            (occurrence.start, occurrence.end)
            for source_id in sorted(ablation.source_ids)
            for occurrence in self.sources[source_id].occurrences
        ]

    def _with_space_before(self, interval: Interval) -> Interval:
        """At the end of a document, the interval with the white space before it."""
        start, end = interval
        for region_start, region_end in self.regions:
            is_inside = region_start < start < region_end
            if is_inside and not self.prompt.text[end:region_end].strip():
                kept = self.prompt.text[region_start:start].rstrip()
                return region_start + len(kept), region_end
        return interval


@dataclass(frozen=True, eq=False)
class PromptInput:
    """A prompt as text, chat messages or token ids, its context, and the options of locating.

    A proxy encodes `prompt` for its own model, and locates the documents of `context` in it with
    the same `context_options`.
    """

    prompt: Prompt
    context: Context
    context_options: ContextOptions


def _prompt_parts(
    length: int,
    retrieved: Sequence[Interval],
    turns: Sequence[Interval],
    message: Sequence[Interval],
) -> Mapping[PromptPart, Sequence[Interval]]:
    """The characters of each part of a prompt of this length, ascending.

    The question is the user's last `message`. If that contains documents, or is unknown, it is the
    text after the last document. Text before the question is the instructions. Text after it (a
    tool's answers) belongs to the earlier `turns`. Markup of the template is not separated.
    """
    documents_end = max((end for _, end in retrieved), default=0)
    start, end = (message[0][0], message[-1][1]) if message else (documents_end, length)
    if start < documents_end <= end:
        start = documents_end
    taken = merge((*retrieved, *turns))
    return {
        "instructions": subtract((0, start), taken),
        "question": subtract((start, end), taken),
        "turn": merge((*turns, *subtract((end, length), taken))),
    }


# Only titles and separators stand between documents of the same retrieval, no conversation.
_MAX_GAP = 300


def with_labels(
    prompt: str, regions: Sequence[Interval], turns: Sequence[Interval]
) -> tuple[Interval, ...]:
    """The documents' regions with the text between them, such as titles and metadata lines.

    An earlier turn that begins or ends there ends a region. A label on the line before each
    document ("Title: ...") also belongs to the first document.
    """
    joined: list[Interval] = []
    labels: set[str] = set()
    bounds = [*chain.from_iterable(turns)]
    for start, end in regions:
        begin, done = joined[-1] if joined else (0, -_MAX_GAP - 1)
        is_near = start - done <= _MAX_GAP
        if is_near and not any(done <= bound <= start for bound in bounds):
            labels.add(_line_before(prompt, done, start))
            joined[-1] = begin, end
        else:
            joined.append((start, end))
    if "" in labels or not labels:
        return tuple(joined)
    return tuple((start - len(_line_before(prompt, 0, start)), end) for start, end in joined)


def _line_before(prompt: str, first: int, start: int) -> str:
    """The text on the same line before a document, from `first` on."""
    return prompt[max(first, prompt.rfind("\n", first, start) + 1) : start]


def _separator(prompt: str, regions: Sequence[Interval]) -> str:
    """The separator of documents: the common beginning of the texts between them.

    If these texts differ, it ends with a line, so that it contains no part of a label. If there is
    only one, it ends with white space.
    """
    gaps = [prompt[end:start] for (_, end), (start, _) in pairwise(regions)]
    common = gaps[0][: min(shared_length(gaps[0], gap) for gap in gaps)]
    if len(gaps) > 1 and all(gap == common for gap in gaps):
        return common
    lines = common.rfind("\n") + 1 if len(gaps) > 1 else 0
    return common[: lines or len(common) - len(common.lstrip())]


def reduce_context(context: Context, removed: Ablation, language_model: LanguageModel) -> Context:
    """The context of the prompt without the ablated text. Sources keep their ids.

    A removed source has no occurrences.
    """
    cut = context.removed(removed)
    if not cut:
        return context
    ids = context.ablate(removed, language_model).ids
    prompt = TokenizedText.of(ids, language_model)
    old = context.prompt.text
    kept = [index for start, end in subtract((0, len(old)), cut) for index in range(start, end)]
    if "".join(map(old.__getitem__, kept)) != prompt.text:
        # Whole tokens were dropped. Their ends are not the ends of the removed text.
        steps = [step for step in Indel.opcodes(old, prompt.text) if step.tag == "equal"]
        kept = [index for step in steps for index in range(step.src_start, step.src_end)]

    def moved(intervals: Sequence[Interval]) -> tuple[Interval, ...]:
        shifted = ((bisect_left(kept, start), bisect_left(kept, end)) for start, end in intervals)
        return tuple((start, end) for start, end in shifted if start < end)

    sources = tuple(
        replace(
            source,
            occurrences=tuple(
                Occurrence(*interval, occurrence.spans)
                for occurrence in source.occurrences
                if source.id not in removed.source_ids
                for interval in moved([(occurrence.start, occurrence.end)])
            ),
        )
        for source in context.sources
    )
    return replace(
        context,
        prompt=prompt,
        sources=sources,
        regions=moved(context.regions),
        conversation=moved(context.conversation),
        message=moved(context.message),
    )


Unit = tuple[int, ...]
Level = str | Callable[[Context], Sequence[Hashable]]

_ABSENT = -1
_RUN = 10


def group(context: Context, units: Sequence[Unit], level: Level) -> list[list[int]]:
    """Indices of the units that belong together, as groups in the order of their first member.

    A unit is a set of source ids that are ablated together. Its first source decides its group.
    Raises InvalidInput for an unknown level.

    Args:
        context: The context of the sources.
        units: The units to group.
        level: 'document', 'paragraph' (blank lines within a document), 'passage' (a document, or
            about ten neighbouring sources of a long document), 'metadata.KEY' (documents with an
            equal value), or a function from the context to a key for each source.
    """
    make_keys = _LEVELS.get(level) if isinstance(level, str) else level
    if isinstance(level, str) and level.startswith("metadata."):
        make_keys = partial(_metadata, level.removeprefix("metadata."))
    if make_keys is None:
        names = ", ".join([*_LEVELS, "metadata.KEY"])
        raise InvalidInput(f"unknown level {level!r}; choose one of {names}, or pass a function")
    keys = make_keys(context)
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for index, unit in enumerate(units):
        groups[keys[unit[0]]].append(index)
    return list(groups.values())


def _documents(context: Context) -> list[int]:
    """The first document of each source; -1 for a source that the prompt lacks."""
    return [next(iter(source.documents), _ABSENT) for source in context.sources]


def _paragraphs(context: Context) -> list[Hashable]:
    ends = [list(accumulate(map(len, paragraphs(document.text)))) for document in context.documents]
    keys: list[Hashable] = []
    for source, document in zip(context.sources, _documents(context), strict=True):
        spans = (span for place in source.occurrences for span in place.spans)
        start = min((span.start for span in spans if span.document == document), default=0)
        keys.append((document, bisect_right(ends[document], start)))
    return keys


def _passages(context: Context) -> list[Hashable]:
    documents = _documents(context)
    members: dict[int, list[int]] = defaultdict(list)
    for source_id, document in enumerate(documents):
        members[document].append(source_id)
    keys: list[Hashable] = [None] * len(documents)
    for document, sources in members.items():
        num_runs = round(len(sources) / _RUN) if len(sources) > 2 * _RUN else 1
        for place, source_id in enumerate(sources):
            keys[source_id] = (document, place * num_runs // len(sources))
    return keys


def _metadata(key: str, context: Context) -> list[Hashable]:
    values = [document.metadata.get(key) for document in context.documents]
    return [
        ("document", document) if values[document] is None else ("value", str(values[document]))
        for document in _documents(context)
    ]


_LEVELS: dict[str, Callable[[Context], Sequence[Hashable]]] = {
    "document": _documents,
    "paragraph": _paragraphs,
    "passage": _passages,
}
