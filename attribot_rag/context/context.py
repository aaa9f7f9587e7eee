"""The context of a prompt: the sources of its documents, and their places in the prompt."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from attribot_rag.cached_property import cached_property
from attribot_rag.context.ablation import AblatedPrompt, Ablation, ablate
from attribot_rag.context.document import Document, Source
from attribot_rag.context.intervals import Interval, merge, overlapping, subtract
from attribot_rag.context.labels import DocumentLabels, document_labels
from attribot_rag.context.prompt_parts import PromptPart, prompt_parts
from attribot_rag.context.retrieved_text import separator, with_labels
from attribot_rag.context.splitting.splitter import (
    Splitter,
    check_language,
    language_of,
    make_splitter,
)
from attribot_rag.context.tokens import TokenizedText
from attribot_rag.errors import InvalidInput
from attribot_rag.model.language_model import LanguageModel, Prompt


@dataclass(frozen=True, kw_only=True)
class ContextOptions:
    """Options of locating documents and dividing them into sources.

    `source_unit` is 'sentence', 'paragraph', 'document' or a function that splits a text into
    pieces without losing characters. `language` is that of documents and answers (ISO 639-1), by
    which they are divided into sentences; by default it is detected for each of them.
    `duplicate_threshold` is the similarity from which two texts are a single source (1: equal
    texts only), `fuzzy_threshold` the similarity from which a document counts as located.
    Raises InvalidInput for an unknown unit or a threshold outside (0, 1].
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

    `sources` are in the order of their first place, each with its index as id. `regions` are the
    characters of the prompt that belong to documents, `conversation` the characters of earlier
    turns, `message` those of the user's last message, if it is known; `not_located` are the indices
    of documents that the prompt lacks. `partly_located` gives for each document of which the prompt
    holds only parts (cut or thinned out by the application) the share of its characters, white
    space aside, in (0, 1), by the document's index. `not_in_time` are the documents of
    `not_located` that there was no time to look for; `crowded` stand in further places, which are
    no occurrences of their sources. `language` is the option, None if it is detected.
    """

    documents: tuple[Document, ...]
    prompt: TokenizedText
    sources: tuple[Source, ...]
    regions: tuple[Interval, ...]
    not_located: tuple[int, ...]
    conversation: tuple[Interval, ...] = ()
    message: tuple[Interval, ...] = ()
    partly_located: Mapping[int, float] = field(default_factory=dict)
    not_in_time: tuple[int, ...] = ()
    crowded: tuple[int, ...] = ()
    language: str | None = None

    @cached_property
    def labels(self) -> DocumentLabels:
        """The labels that the prompt gives its documents."""
        return document_labels(
            self.prompt.text,
            self.sources,
            len(self.documents),
            self.conversation,
            knows_turns=bool(self.message),
        )

    def answer_language(self, response: str) -> str:
        """The language of a response, or of the documents if the response is too short."""
        return self.language or language_of(
            response, (document.text for document in self.documents)
        )

    @property
    def present(self) -> tuple[int, ...]:
        """Ids of the sources that the prompt holds: all, unless it was reduced."""
        return tuple(source.id for source in self.sources if source.occurrences)

    @property
    def absent(self) -> tuple[int, ...]:
        """Indices of documents with text, but without any location in the prompt."""
        return tuple(i for i in self.not_located if i not in self.unseen and self._has_text(i))

    @property
    def unseen(self) -> tuple[int, ...]:
        """Indices of documents located in part, or not looked for: the prompt may hold more."""
        return (*filter(self._has_text, self.not_in_time), *self.partly_located)

    def _has_text(self, index: int) -> bool:
        return not self.documents[index].is_blank

    @cached_property
    def whole(self) -> Ablation:
        """The whole retrieved text: the documents and the text between them, such as titles."""
        return Ablation(characters=with_labels(self.prompt.text, self.regions, self.conversation))

    @cached_property
    def asked(self) -> str:
        """The question: the prompt's text without the retrieved text and the earlier turns."""
        text, spans = self.prompt.text, merge((*self.whole.characters, *self.conversation))
        return " ".join(text[start:end] for start, end in subtract((0, len(text)), spans))

    @cached_property
    def parts(self) -> Mapping[PromptPart, Sequence[Interval]]:
        """The characters of the instructions, the question and the earlier turns."""
        whole, turns = self.whole.characters, self.conversation
        return prompt_parts(len(self.prompt.text), whole, turns, self.message)

    @cached_property
    def end(self) -> int:
        """Index of the first token after the last document."""
        last = max((end for _, end in self.regions), default=0)
        return self.prompt.tokens_in((0, last)).stop

    @property
    def branches(self) -> tuple[int, ...]:
        """Ascending token indices at which prompts without one source differ first."""
        starts = (occurrence.start for source in self.sources for occurrence in source.occurrences)
        # the token before may be encoded together with what follows the source
        return tuple(
            max(0, self.prompt.tokens_in((start, start + 1)).start - 1) for start in sorted(starts)
        )

    def ablation_of_others(self, source_ids: Collection[int]) -> Ablation:
        """Ablate all other sources, and the text around documents with no source left.

        A document keeps the text before it, such as its title: the first remaining document loses
        the separator before it.
        """
        places = merge(self._places(Ablation(frozenset(source_ids))))
        around: list[Interval] = []
        for stretch in self.whole.characters:
            regions = overlapping(self.regions, stretch)
            starts = [stretch[0], *(end for _, end in regions)]
            labelled = [(start, end) for start, (_, end) in zip(starts, regions, strict=False)]
            kept = [region for region in labelled if overlapping(places, region)]
            if kept and kept[0] != labelled[0]:
                start, end = kept[0]
                kept[0] = start + len(separator(self.prompt.text, regions)), end
            around += subtract(stretch, kept)
        return Ablation(frozenset(self.present) - frozenset(source_ids), tuple(around))

    def ablate(self, ablation: Ablation, language_model: LanguageModel) -> AblatedPrompt:
        """The ablated prompt; a source is removed from every place where it occurs.

        If nothing would be left, the prompt's last token stays, because a token has to predict the
        response; then the prompt is not in step.
        """
        ablated = ablate(self.prompt, self.removed(ablation), language_model)
        if ablated.ids:
            return ablated
        return AblatedPrompt(self.prompt.ids[-1:], int(len(self.prompt.ids) == 1), in_step=False)

    def removed(self, ablation: Ablation) -> tuple[Interval, ...]:
        """The characters that the ablation removes from the prompt, disjoint and ascending."""
        intervals = merge(self._places(ablation))
        removed = merge(self._with_space_before(interval) for interval in intervals)
        return tuple(self._text_in([*removed, *ablation.characters]))

    def hidden_tokens(self, ablation: Ablation) -> list[int]:
        """Positions of the tokens of the ablated sources and characters."""
        places = self._text_in([*self._places(ablation), *ablation.characters])
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

    def _text_in(self, intervals: Iterable[Interval]) -> list[Interval]:
        """The characters of these intervals, without placeholders of images and the like."""
        placeholders = self.prompt.placeholders
        return [text for interval in merge(intervals) for text in subtract(interval, placeholders)]

    def _with_space_before(self, interval: Interval) -> Interval:
        """At the end of a document, the interval with the white space before it."""
        start, end = interval
        for first, last in self.regions:
            if first < start < last and not self.prompt.text[end:last].strip():
                kept = self.prompt.text[first:start].rstrip()
                return first + len(kept), last
        return interval


@dataclass(frozen=True, eq=False)
class PromptInput:
    """A prompt as text, chat messages or token ids, and its context with the options of locating.

    A proxy encodes `prompt` for its own model and locates the documents of `context` in it with
    the same `context_options`.
    """

    prompt: Prompt
    context: Context
    context_options: ContextOptions
