"""The verdict on one sentence of the answer, its checks, and the model's own markers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from attribot_rag.context.context import PromptPart

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
    """A remark on the characters [start, end) of the response, such as a value that its cited
    sources do not have.

    An annotator compares texts, nothing is scored: a check is no part of the verdict.
    """

    start: int
    end: int
    kind: str
    """Of the annotator's own naming: number, by default; date, unit, negation and name, too, by
    attribot-checks."""
    value: str
    """The characters themselves."""
    source_value: str | None = None
    """The value that the source has in its place, null if there is none."""
    source: int | None = None
    """The id of the cited source that `source_value` is from."""
    in_no_document: bool = False
    """Whether the value stands in none of the documents that the model read, cited or not."""
    message: str | None = None
    """What there is to say, where comparing `value` with `source_value` does not say it."""


@dataclass(frozen=True, kw_only=True)
class MissingWord:
    """A word of the response, at its characters [start, end), that the cited text lacks."""

    start: int
    end: int
    in_no_document: bool = False
    """Whether none of the retrieved text that the model read has it."""


@dataclass(frozen=True, kw_only=True)
class Rival:
    """Retrieved text that says another number or name of the same thing.

    The characters [start, end) of the response stand there as `value`.
    """

    start: int
    end: int
    value: str
    """What the rival says in their place."""
    source: int
    """The id of the source that says it."""
    document: int
    """The index of its document."""
    document_start: int
    """Where the source begins in the document, in characters."""
    document_end: int
    """Where it ends there."""


@dataclass(frozen=True, kw_only=True)
class Support:
    """Whether the cited text says a sentence, as an answer to what was asked.

    - full: it does;
    - partial: it lacks words of the sentence, or of the question;
    - contradicted: it has another value or name in the same place, or other retrieved text does;
    - none: nothing is cited, and no retrieved text says it.

    Texts are compared, so this is an estimate (docs/support.md has its errors). It is no part of
    the cause: a verdict is the same without it.
    """

    kind: SupportKind
    score: float | None = None
    """How probable it is, from 0 to 1, that the text says the sentence; None without such text."""
    source_ids: tuple[int, ...] = ()
    """The sources that were compared: those that the sentence, or the sentence that it follows
    from, cites. Of a sentence that cites none, those that say it."""
    missing: tuple[MissingWord, ...] = ()
    """The words of the sentence that these sources lack."""
    missing_asked: tuple[str, ...] = ()
    """The words of the question that these sources lack, and other retrieved text has."""
    rivals: tuple[Rival, ...] = ()
    verbatim: bool = False
    """Whether each of the documents that were compared has the sentence word for word, as the
    beginning of a sentence. Then they say it, even if they lack words of the question."""

    @property
    def is_said(self) -> bool:
        """Whether the text says the sentence, as an answer to what was asked or not."""
        return self.kind == "full" or (self.kind == "partial" and self.verbatim)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on the characters [start, end) of the response.

    - grounded: `source_ids` suffice, each for words of its own where there are several;
    - redundant: either of `source_ids` suffices, or only all of them together do;
    - follows: from an earlier sentence of the answer, not from the context directly;
    - conversation: from the part of the prompt that `origin` names; without earlier turns, either
      of `source_ids` would suffice, or all of them together, as the relation says;
    - unsupported: no part of the prompt made the model say it;
    - reasoning: the model's thinking, which is not judged; trivial: a greeting, what
      stands between the values of JSON, and the like;
    - open: it could not be decided, for a `reason`.
    """

    start: int
    end: int
    kind: Kind
    source_ids: tuple[int, ...] = ()
    """The cited sources, best first."""
    relation: Relation = "each"
    """Whether each cited source matters by itself, the sentence stands with either of them alone,
    or only with all of them together."""
    effect: float | None = None
    """The necessity of the cited sources in nats: the sum of their scores for the sentence, or the
    joint score of a redundant group. Of what a sentence follows from, or of the origin, what the
    sentence loses without that."""
    kept: float | None = None
    """The sufficiency of the cited sources: which share of the reliance the sentence keeps with
    them alone in the context (of those that are `either`, with the first)."""
    in_part: bool = False
    """Whether the cited sources explain the sentence only in part: `kept` is less than the share
    that suffices (`kept_share` of the options)."""
    reliance: float | None = None
    """What removing the whole context costs the sentence, in nats."""
    follows: int | None = None
    """Index in `verdicts` of the sentence that this sentence follows from."""
    origin: PromptPart | None = None
    """The part of the prompt that a `conversation` verdict is about: the instructions (the system
    message, a memory summary, examples, text before the documents), the question, or an earlier
    turn."""
    reason: Reason | None = None
    """Why an open verdict is open: the context matters but no part of it stands out (scattered),
    documents or parts of them were not found in the prompt (not_located), the budget ran out,
    judging took as many tokens as it may without a budget (limit), the answer ends in the middle
    of the sentence (cut), or the sentence is still to be judged (pending)."""
    checks: tuple[Check, ...] = ()
    """Remarks of the annotator, such as on a value that the cited sources do not have."""
    support: Support | None = None
    """Whether the cited text says the sentence; None if it is not judged."""

    def traced(self, verdicts: Sequence[Verdict]) -> Verdict:
        """The verdict of `verdicts` that this one follows from in the end, or itself."""
        return self if self.follows is None else verdicts[self.follows].traced(verdicts)


@dataclass(frozen=True, kw_only=True)
class Marker:
    """A citation marker, such as [2], that the model wrote at the characters [start, end).

    Mark-up around it belongs to it.
    """

    start: int
    end: int
    label: str = ""
    """What the marker calls the document: a number, or the prompt's own label, such as a file's
    name."""
    number: int | None = None
    """The label as a number: the document's in the prompt, or its place there from 1. None for
    other labels."""
    document: int | None
    """Index of the document, None if there is none of that label; of several, the first that has an
    effect on the sentence, else the first."""
    supported: bool | None
    """Whether the document, or another of that label, has an effect on the sentence; None if that
    was not measured."""

    @property
    def text(self) -> str:
        """The label, also of a marker that was stored with its number alone."""
        return self.label or ("" if self.number is None else str(self.number))
