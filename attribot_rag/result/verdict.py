"""The verdict on one sentence of the answer, its checks, and the model's own markers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from attribot_rag.context.pieces import PromptPart

Kind = Literal[
    "grounded",
    "redundant",
    "unsupported",
    "follows",
    "conversation",
    "reasoning",
    "trivial",
    "open",
]
Relation = Literal["each", "either", "together"]
Reason = Literal["scattered", "not_located", "budget", "limit", "cut", "pending"]
Numbering = Literal["by_marker", "by_citation"]
SupportKind = Literal["full", "partial", "contradicted", "none"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """A warning about characters [start, end) of the response, such as a value without a source.

    An annotator compares texts and scores nothing, so a check is not part of the verdict.
    """

    start: int
    end: int
    kind: str
    """The kind of value. The default annotator only has number. attribot-checks also has date,
    unit, address, negation and name."""
    value: str
    """The characters themselves."""
    source_value: str | None = None
    """The different value in the source; null if there is none."""
    source: int | None = None
    """The id of the cited source that `source_value` is from."""
    in_no_document: bool = False
    """Whether the value is missing from all documents that the model read, cited or not."""
    message: str | None = None
    """The warning in words, if `value` and `source_value` alone do not explain it."""


@dataclass(frozen=True, kw_only=True)
class MissingWord:
    """A word at the characters [start, end) of the response that is missing from the cited text."""

    start: int
    end: int
    in_no_document: bool = False
    """Whether the word is missing from all retrieved text in the prompt."""
    in_same_document: bool = False
    """Whether the document of the compared text has it elsewhere, perhaps about something else."""


@dataclass(frozen=True, kw_only=True)
class Rival:
    """Retrieved text that contains a different number or name for the same thing.

    The text has `value` where the response has the characters [start, end).
    """

    start: int
    end: int
    value: str
    """The number or name in the retrieved text."""
    source: int
    """The id of the source that contains the value."""
    document: int
    """The index of its document."""
    document_start: int
    """Where the source begins in the document, in characters."""
    document_end: int
    """Where it ends there."""


@dataclass(frozen=True, kw_only=True)
class Support:
    """Whether the cited text supports a sentence, as an answer to the question.

    - full: the cited text supports it;
    - partial: the cited text may not support it, for example because words of the sentence or of
      the question are missing. Without a citation, this is about the closest text;
    - contradicted: the cited text, or another retrieved text, has a different value or name in the
      same place;
    - none: the sentence has no citation, and no retrieved text is close to it.

    Support comes from a comparison of texts, so it is an estimate. The page "How good support is"
    of the documentation reports its errors. Support says nothing about the cause, and changes no
    verdict.
    """

    kind: SupportKind
    score: float | None = None
    """How well the text supports the sentence, from 0 to 1. This is not a calibrated probability.
    None if there is no text to compare."""
    source_ids: tuple[int, ...] = ()
    """The sources that were compared with the sentence: its citations, or the citations of the
    sentence that it follows from. Without citations, the sources that support it, or the closest
    source."""
    missing: tuple[MissingWord, ...] = ()
    """The words of the sentence that are missing from these sources."""
    missing_asked: tuple[str, ...] = ()
    """The words of the question that are missing from the documents of these sources, but not from
    all documents."""
    rivals: tuple[Rival, ...] = ()
    verbatim: bool = False
    """Whether each of the documents that were compared contains the sentence word for word, as the
    beginning of a sentence. Then they support it, even if words of the question are missing."""

    @property
    def is_said(self) -> bool:
        """Whether the text supports the sentence, even if it does not answer the question."""
        return self.kind == "full" or (self.kind == "partial" and self.verbatim)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on the characters [start, end) of the response.

    - grounded: `source_ids` are enough; if there are several, they matter for different words;
    - redundant: any one of `source_ids` is enough, or only all of them together;
    - follows: it comes from an earlier sentence of the answer, not directly from the documents;
    - conversation: it comes from the part of the prompt that `origin` names. Even without the
      earlier turns, `source_ids` would be enough: any one of them, or all together, as `relation`
      says;
    - unsupported: no part of the prompt explains the sentence;
    - reasoning: the model's thinking, which is not judged;
    - trivial: a greeting, text between the values of JSON, and the like;
    - open: attribot-rag could not decide, and `reason` says why.
    """

    start: int
    end: int
    kind: Kind
    source_ids: tuple[int, ...] = ()
    """The cited sources, best first."""
    relation: Relation = "each"
    """Whether each cited source matters, any one of them is enough, or only all together."""
    effect: float | None = None
    """How much log-likelihood the sentence loses without the cited sources, in nats. This is the
    sum of their scores for it, or the joint score of a redundant group. If the sentence follows
    from another one or has an origin, it is the loss without that.
    """
    kept: float | None = None
    """The share of its reliance that the sentence keeps if only the cited sources stay in the
    prompt. If any one of them is enough, only the first one stays.
    """
    in_part: bool = False
    """Whether the cited sources explain only a part of the sentence: `kept` is below 0.7."""
    reliance: float | None = None
    """How much log-likelihood the sentence loses without any document, in nats."""
    follows: int | None = None
    """Index in `verdicts` of the sentence that this one follows from."""
    origin: PromptPart | None = None
    """The part of the prompt that a `conversation` verdict is about: the instructions (the system
    message, a memory summary, examples, text before the documents), the question, or an earlier
    turn."""
    reason: Reason | None = None
    """Why an open verdict is open. scattered: the documents matter, but no part of them stands out.
    not_located: documents or parts of them were not found in the prompt. budget: the budget ran
    out. limit: judging reached its own limit of tokens. cut: the answer ends within the sentence.
    pending: the sentence is not judged yet."""
    checks: tuple[Check, ...] = ()
    """Warnings of the annotator, for example about a value that is missing from the cited
    sources."""
    support: Support | None = None
    """Whether the cited text supports the sentence; None if the sentence is not judged."""

    def traced(self, verdicts: Sequence[Verdict]) -> Verdict:
        """The first verdict of the chain that this one follows from, or this verdict itself."""
        return self if self.follows is None else verdicts[self.follows].traced(verdicts)


@dataclass(frozen=True, kw_only=True)
class Marker:
    """A citation marker, such as [2], that the model wrote at the characters [start, end).

    Mark-up around it counts as part of it.
    """

    start: int
    end: int
    label: str = ""
    """What the marker calls the document: a number, or the prompt's own label, such as a file's
    name."""
    number: int | None = None
    """The label as a number: the document's number in the prompt, or its position there from 1.
    None for other labels."""
    document: int | None
    """Index of the document; None if no document has this label. If several have it, the first that
    has an effect on the sentence, else the first."""
    supported: bool | None
    """Whether the document, or another one with this label, has an effect on the sentence; None if
    that was not measured."""

    @property
    def text(self) -> str:
        """The label, also for a marker that was stored with only its number."""
        return self.label or ("" if self.number is None else str(self.number))
