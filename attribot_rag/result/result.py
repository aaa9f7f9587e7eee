"""The data of an attribution: the score of each source for each token of the answer."""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, Generic, Literal, TypeVar, cast

import numpy as np

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Document, Source
from attribot_rag.context.prompt import token_anchors
from attribot_rag.context.splitting.blocks import without_tags
from attribot_rag.context.text import Interval
from attribot_rag.errors import InvalidInput
from attribot_rag.model.language_model import without_folder
from attribot_rag.result.verdict import Check, Marker, MissingWord, Numbering, Rival, Verdict

_SHOWN_LENGTH = 60
Basis = Literal["cause", "reader"]
Value = TypeVar("Value")
BY_WORDS = "words"
"""The method that compares words, without a model."""
WORD_COMPARISON = "word comparison"
"""What replaces the name of a model there."""


@dataclass(frozen=True)
class ResponseText:
    """A response as its reader saw it. `token_spans` are the characters of each token."""

    text: str
    token_spans: tuple[Interval, ...]

    def tokens_in(self, start: int, end: int) -> range:
        """Indices of the tokens whose first character that is not white space is in [start, end).

        Tokens without text at the end of the response belong to its last character. Raises
        InvalidInput for characters outside the response.
        """
        if not 0 <= start <= end <= len(self.text):
            raise InvalidInput(
                f"characters {start} to {end} are not in the response of {len(self.text)}"
            )
        return range(bisect_left(self._anchors, start), bisect_left(self._anchors, end))

    @cached_property
    def _anchors(self) -> tuple[int, ...]:
        """For each token the character that decides to which span it belongs, ascending."""
        last = len(self.text) - 1
        return tuple(min(anchor, last) for anchor in token_anchors(self.token_spans, self.text))


@dataclass(frozen=True)
class RankedSource:
    """A source with its score in nats for one span."""

    source: Source
    score: float


@dataclass(frozen=True)
class RankedDocument:
    """A document, its index in the attribution, and its score in nats for a span."""

    index: int
    document: Document
    score: float


@dataclass(frozen=True)
class SourceGroup:
    """Sources that were removed together, with their joint score per response token in nats."""

    source_ids: tuple[int, ...]
    token_scores: tuple[float, ...]
    exact: bool


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """The data of an `Attribution`, without its renderings and its JSON.

    Scores are in nats, positive where a source makes the response more likely.
    """

    response: str
    """The answer as it was shown, without the prompt and without special tokens."""
    token_spans: tuple[Interval, ...]
    """For each token, its characters in the response. Tokens that only form a character together
    have the same span. A token without text has an empty span."""
    token_log_likelihoods: tuple[float, ...]
    """The log-probability of each response token after the whole prompt, in nats. A token that was
    not scored has 0. If only the proxy scored the response, these are the proxy's values. If the
    model only read a shortened prompt, they are the values after the shortened prompt.
    """
    documents: tuple[Document, ...]
    """The documents as they were given. Other fields refer to them by index."""
    not_located: tuple[int, ...]
    """Indices of documents that the prompt does not contain. They have no sources and no score,
    which differs from a score of 0."""
    sources: tuple[Source, ...]
    """The scored pieces of text, in the order of the prompt."""
    token_scores: tuple[tuple[float | None, ...] | None, ...]
    """For each source, its score for each response token, or null if that was not measured. The
    default method tests a source for one sentence, and scores no tokens after that sentence. The
    score for a part of the response is the sum over its measured tokens.
    """
    exact: tuple[bool, ...]
    """For each source, whether its score is exact: exactly its text was removed from the full
    prompt, and the model read everything after it again. Other scores are approximate."""
    notes: tuple[str, ...]
    """Warnings about this result. Read them before you trust the scores."""
    provenance: Provenance
    """How the scores were made."""
    estimated: tuple[bool, ...] = ()
    """For each source whether its score is an estimate, by gradients for example, and not measured.
    Empty if none is an estimate."""
    partly_located: Mapping[int, float] = field(default_factory=dict)
    """Documents that are only partly in the prompt, by index: the share of their text that is in
    it, from 0 to 1."""
    prompt_numbers: Mapping[int, int] = field(default_factory=dict)
    """The number of each document in the prompt, by index: its label, such as [2] before it, or its
    position among the documents. Several documents may share a label."""
    prompt_names: Mapping[int, str] = field(default_factory=dict)
    """Other names of documents in the prompt, by index, such as [lock.pdf]. Only if the model's own
    markers repeat them."""
    groups: tuple[SourceGroup, ...] = ()
    """Sources that were removed together, with their joint scores."""
    context_reliance: tuple[float, ...] | None = None
    """The score of all retrieved text together for each response token, or null if it was not
    measured."""
    unit: str = "nats"
    """The unit of the scores: nats, unless the method measures something else."""
    incomplete: bool = False
    """Whether the budget or the limit of judging ended before all was scored and judged."""
    verdicts: tuple[Verdict, ...] = ()
    """The verdict on each sentence of the response."""
    markers: tuple[Marker, ...] = ()
    """Citation markers such as [2] that the model wrote itself."""
    numbering: Numbering = "by_marker"
    """How cited documents are numbered. With by_marker, they have the numbers of the model's own
    markers, if it wrote any. With by_citation, they are numbered from 1 in the order of first
    citation."""
    question: str = ""
    """The question, if it is known apart from the prompt: by `Attributor.ask`."""

    def __post_init__(self) -> None:
        """Raises InvalidInput if the fields do not fit together."""
        num_tokens, num_sources = len(self.token_spans), len(self.sources)
        widths = {len(row) for row in self.token_scores if row is not None}
        group_widths = {len(group.token_scores) for group in self.groups}
        checks = [check for verdict in self.verdicts for check in verdict.checks]
        supports = [v.support for v in self.verdicts if v.support is not None]
        rivals = [rival for support in supports for rival in support.rivals]
        missing = [word for support in supports for word in support.missing]
        source_ids = {
            *(check.source for check in checks if check.source is not None),
            *(rival.source for rival in rivals),
            *(source_id for group in self.groups for source_id in group.source_ids),
            *(source_id for verdict in self.verdicts for source_id in verdict.source_ids),
            *(source_id for support in supports for source_id in support.source_ids),
        }
        documents = {
            *(index for source in self.sources for index in source.documents),
            *(marker.document for marker in self.markers if marker.document is not None),
            *(rival.document for rival in rivals),
            *(*self.partly_located, *self.prompt_numbers, *self.prompt_names, *self.not_located),
        }
        holds = {
            "response": bool(self.response),
            "token_spans": all(0 <= a <= b <= len(self.response) for a, b in self.token_spans),
            "token_log_likelihoods": len(self.token_log_likelihoods) == num_tokens,
            "token_scores": len(self.token_scores) == num_sources and widths <= {num_tokens},
            "exact": len(self.exact) == num_sources,
            "estimated": len(self.estimated) in (0, num_sources),
            "groups": group_widths <= {num_tokens} and source_ids <= set(range(num_sources)),
            "context_reliance": self.context_reliance is None
            or len(self.context_reliance) == num_tokens,
            "verdicts": self._has(self.verdicts)
            and all(
                verdict.follows is None or 0 <= verdict.follows < index
                for index, verdict in enumerate(self.verdicts)
            ),
            "checks": self._has(checks),
            "support": self._has([*rivals, *missing]),
            "markers": self._has(self.markers),
            "sources": [source.id for source in self.sources] == list(range(num_sources)),
            "documents": documents <= set(range(len(self.documents))),
        }
        wrong = [field for field, fits in holds.items() if not fits]
        if wrong:
            raise InvalidInput(f"{', '.join(wrong)} of the attribution do not fit the other fields")

    def _has(self, parts: Sequence[Verdict | Marker | Check | Rival | MissingWord]) -> bool:
        """Whether the response has the characters of these parts."""
        return all(0 <= part.start <= part.end <= len(self.response) for part in parts)

    def __repr__(self) -> str:
        best = self.top(1)
        return (
            f"{type(self).__name__}({self._beginning!r}, {len(self.sources)} sources, "
            f"{len(self.documents)} documents, {self.provenance.method}, "
            f"{f'best score {best[0].score:.2f} {self.unit}' if best else 'nothing scored'})"
        )

    @property
    def _beginning(self) -> str:
        return cut(self.response, _SHOWN_LENGTH)

    @cached_property
    def matrix(self) -> np.ma.MaskedArray[Any, Any]:
        """The scores as [num_sources, num_response_tokens]; what was not scored is masked."""
        width = len(self.token_spans)
        rows = [(None,) * width if row is None else row for row in self.token_scores]
        values = np.reshape(np.array(rows, dtype=float), (len(rows), width))
        return np.ma.masked_array(np.nan_to_num(values), np.isnan(values))

    def find(self, text: str) -> tuple[int, int]:
        """Characters [start, end) of the first place of a text in the response.

        Use it with methods that take a span: `top(3, *attribution.find("84 people"))`. Raises
        InvalidInput if the response does not contain the text.
        """
        start = self.response.find(text)
        if start < 0 or not text:
            raise InvalidInput(f"{text!r} is not in the response {self._beginning!r}")
        return start, start + len(text)

    def tokens_in(self, start: int, end: int) -> range:
        """Indices of the tokens whose first character that is not white space is in [start, end).

        Tokens without text at the end of the response belong to its last character. Raises
        InvalidInput for characters outside the response.
        """
        return self._response_text.tokens_in(start, end)

    @cached_property
    def _response_text(self) -> ResponseText:
        return ResponseText(self.response, self.token_spans)

    def score(self, source_id: int, start: int = 0, end: int | None = None) -> float | None:
        """The score of a source in nats for the characters [start, end) of the response.

        This is the sum over the measured tokens of the span; None if none was measured.
        """
        if not 0 <= source_id < len(self.sources):
            raise InvalidInput(f"source {source_id} is not one of the {len(self.sources)} sources")
        return self._sum(source_id, self._tokens(start, end))

    def is_estimated(self, source_id: int) -> bool:
        """Whether the source's score is an estimate, which no ablation measured."""
        return bool(self.estimated) and self.estimated[source_id]

    def _tokens(self, start: int, end: int | None) -> range:
        return self.tokens_in(start, len(self.response) if end is None else end)

    def _sum(self, source_id: int, tokens: range) -> float | None:
        row = self.token_scores[source_id]
        measured = [] if row is None else [row[i] for i in tokens if row[i] is not None]
        if row is None or (tokens and not measured):
            return None
        # The page adds in this order, too; `sum` is more precise since Python 3.12.
        return reduce(add, cast(list[float], measured), 0.0)

    def top(self, k: int = 5, start: int = 0, end: int | None = None) -> tuple[RankedSource, ...]:
        """The k sources with the highest scores for a span of the response, best first.

        Raises InvalidInput for a negative k, or for characters outside the response.
        """
        if k < 0:
            raise InvalidInput(f"k={k}; ask for at least 0 sources")
        tokens = self._tokens(start, end)
        ranked = [
            RankedSource(source, score)
            for source in self.sources
            if (score := self._sum(source.id, tokens)) is not None
        ]
        ranked.sort(key=lambda ranking: (-ranking.score, ranking.source.id))
        return tuple(ranked[:k])

    def documents_by_effect(
        self, start: int = 0, end: int | None = None
    ) -> tuple[RankedDocument, ...]:
        """The documents by the sum of their sources' scores for a span of the response, best first.

        A source that several documents contain counts for all of them. Documents without a scored
        source are left out. `Attributor.answer_without` measures the effect of a whole document.
        """
        tokens = self._tokens(start, end)
        scores: dict[int, float] = {}
        for source in self.sources:
            if (score := self._sum(source.id, tokens)) is not None:
                for index in source.documents:
                    scores[index] = scores.get(index, 0.0) + score
        ranked = sorted(scores, key=lambda index: (-scores[index], index))
        return tuple(RankedDocument(i, self.documents[i], scores[i]) for i in ranked)

    def located_share(self, index: int) -> float:
        """The share of a document's text that is in the prompt, from 0 to 1."""
        return 0.0 if index in self.not_located else self.partly_located.get(index, 1.0)

    def plain_text(self, source: Source) -> str:
        """A source's text without HTML tags, as a reader of its document sees it."""
        indices = source.documents
        return without_tags(source.text, self.documents[indices[0]].text if indices else None)


def cut(text: str, length: int) -> str:
    """The text, or its beginning with an ellipsis, with at most `length` characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The models, implementation and options that made the scores, and their cost."""

    method: str
    """Which method was used."""
    model: str
    basis: Basis = "cause"
    """The meaning of the scores. With 'cause', `model` gave the answer, and the scores say what
    caused it. With 'reader', another model gave the answer and `model` only read it, and the scores
    say which texts support it.
    """
    answered_by: str | None = None
    """The model that gave the answer if a reader read it; null if its name is unknown."""
    dtype: str
    """The type of the weights; 'unknown' for a served model."""
    device: str
    """Where the model ran: a device, or the URL of a server."""
    implementation: str
    """How the model was run: packed, cropped or reference, or by a server."""
    fallback: str | None = None
    """Why a faster implementation was not used; null if the fastest or the requested one was."""
    retokenized: bool
    """Whether the ids were made from text, so they may differ from those that the model saw or
    gave."""
    prompt_tokens: int
    prefilled_tokens: int
    """Tokens encoded before the first ablation; 0 if the generation's own cache was used."""
    scored_tokens: int
    """Tokens that went through the model for all ablations together."""
    forward_passes: int
    """Calls of all models."""
    seconds: float
    proxy_tokens: int = 0
    """Tokens that went through a smaller model."""
    flops: float = 0.0
    """2 FLOPs for each parameter and token of every model that ran."""
    naive_tokens: int = 0
    """How many tokens leave-one-out would have read without a cache, for every source."""
    expected_tokens: int = 0
    """How many tokens the cost model expects of the method, without verdicts."""
    self_check: float | None = None
    """The largest difference from the reference implementation in nats, if it was requested."""
    noise: float | None = None
    """The largest difference between a server's log-probabilities of the same tokens in two calls,
    in nats at a token; null for a model that ran here."""
    options: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    """The options of the context, the scorer and the budget."""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def model_name(self) -> str:
        """The model's name without its folder."""
        return without_folder(self.model)


class ByProvenance(Generic[Value]):
    """A value for each attribution, stored by its provenance, which its copies share.

    A value is kept as long as one of these attributions exists.
    """

    def __init__(self) -> None:
        self._values: dict[int, tuple[weakref.ref[Provenance], Value]] = {}

    def __setitem__(self, provenance: Provenance, value: Value) -> None:
        key, this = id(provenance), weakref.ref(self)

        def forget(_: object) -> None:
            kept = this()
            if kept is not None:
                kept._values.pop(key, None)

        self._values[key] = weakref.ref(provenance, forget), value

    def get(self, provenance: Provenance) -> Value | None:
        """The value of this very provenance object, or None."""
        kept = self._values.get(id(provenance))
        return None if kept is None else kept[1]


@dataclass(frozen=True, kw_only=True)
class Counterfactual:
    """The answer without some documents, and how much less likely the first answer is there.

    Only these documents were removed from the prompt. Another document that says the same stays.
    """

    documents: tuple[int, ...]
    """Indices of the documents that were removed."""
    response: str
    """The model's answer without them; '' if it ends at once."""
    score: float
    """How much less likely the first answer is without them, in nats: log p(first answer | full
    prompt) - log p(first answer | prompt without them)."""
    exact: bool
    """Whether exactly the text of these documents was removed."""
    notes: tuple[str, ...] = ()
    """Other reasons why the two answers may differ, besides these documents."""
