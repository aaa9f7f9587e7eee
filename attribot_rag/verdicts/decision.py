"""The verdict on a sentence as a pure function of its measurements."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from attribot_rag.context.pieces import PromptPart
from attribot_rag.methods.base import SourceSet
from attribot_rag.methods.limits import Limits
from attribot_rag.result import Verdict
from attribot_rag.result.verdict import Reason, Relation


class Postponed(Enum):
    """A postponed measurement: most sentences do not need its rows."""

    EARLIER = "earlier sentences and turns"
    PROMPT = "instructions and the question"


class WordLikelihood(NamedTuple):
    """A word's log-likelihood with all documents, and its loss without them, in nats."""

    log_likelihood: float
    reliance: float

    def is_unexpected(self, least: float) -> bool:
        """Whether it is unlikely, and the documents contribute little to it."""
        return self.reliance < least <= -self.log_likelihood


@dataclass(frozen=True)
class EarlierOrigin:
    """The origin of a sentence in earlier text.

    - `sentence`: the index of the earlier sentence that matters most; None for the conversation.
    - `effect`: the loss without all earlier sentences, or without the conversation, in nats.
    - `is_uncaused`: the earlier sentence has no known cause.
    - `replaced_by`: the sources that would be enough for the sentence without the conversation.
    """

    sentence: int | None
    effect: float
    is_uncaused: bool = False
    replaced_by: SourceSet = field(default_factory=SourceSet)


@dataclass(frozen=True)
class PromptOrigin:
    """The origin of a sentence in the instructions or the question.

    - `part`: the part of the prompt that states the sentence; None if none does.
    - `effect`: the loss without its statements, in nats.
    - `may_be`: a statement has a word of the sentence, so it could be the origin.
    - `is_unlocated`: a document that was not found in the prompt may have caused the sentence.
      Nothing was then measured.
    """

    part: PromptPart | None = None
    effect: float = 0.0
    may_be: bool = False
    is_unlocated: bool = False


@dataclass(frozen=True, kw_only=True)
class Citation:
    """The sources that carry a sentence, best first, with their measured effects in nats.

    - `effect` is the loss without them: the sum over each, or, with another relation than `each`,
      without all at once.
    - `word_effects`, for each content word: its largest loss without one of the sources that has
      it, and its largest loss without one of any sources.
    - `kept` is the share of the reliance that the sentence keeps with only them, or with the first
      of `either`; None without a reliance. It is only shown.
    - `sufficient` decides whether they are enough, also for each word.
    """

    source_ids: tuple[int, ...]
    relation: Relation = "each"
    effect: float
    word_effects: tuple[tuple[float, float], ...] = ()
    kept: float | None = None
    sufficient: bool = True


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """The measurements of a sentence, the characters [start, end) of the response.

    - `reliance`: the loss without all documents, in nats; None if the budget did not allow its row.
    - `min_reliance`: the reliance from which the documents matter, more than the limit if a
      server's noise is large.
    - `words` and `figures`: the likelihoods of its content words and of its numbers.
    - `found`: the result of the search, and `citation`: what may be cited of it.
    - `earlier` and `in_prompt`: other origins.
    - `may_have_earlier`: there is earlier text that it may come from.
    - `is_cut`: the answer ends in it, at its length limit.
    - `is_exhausted`: something was left undone because the budget ended.
    - `ended_by`: what ended it, also for an incomplete search, which only the budget ends.
    """

    start: int
    end: int
    reliance: float | None
    min_reliance: float
    words: tuple[WordLikelihood, ...] = ()
    figures: tuple[WordLikelihood, ...] = ()
    found: SourceSet = field(default_factory=SourceSet)
    citation: Citation | None = None
    earlier: EarlierOrigin | Postponed | None = None
    in_prompt: PromptOrigin | Postponed = Postponed.PROMPT
    may_have_earlier: bool = False
    is_cut: bool = False
    is_exhausted: bool = False
    ended_by: Reason = "budget"


def decide(measured: Measurements, limits: Limits) -> Verdict | Postponed:
    """The verdict: a needed citation, else the origin, else a citation that is enough.

    Without any of these, the reason. A `Postponed` measurement if the verdict depends on one.
    """
    verdict = Verdict(start=measured.start, end=measured.end, kind="open")
    reliance, citation = measured.reliance, measured.citation
    if reliance is None:
        return replace(verdict, reason=measured.ended_by)
    verdict = replace(verdict, reliance=reliance)
    if citation is None and measured.is_cut:
        return replace(verdict, reason="cut")
    is_needed = citation is not None and _is_needed(citation, measured, limits)
    may_be_earlier = not is_needed and reliance < limits.sure_reliance
    origin = measured.earlier if may_be_earlier else None
    if isinstance(origin, Postponed):
        return origin
    is_invented = _is_invented(measured, limits)
    is_warranted = citation is not None and _is_warranted(
        citation, measured, limits, is_needed=is_needed, is_invented=is_invented
    )
    if origin is not None and not (is_warranted and origin.is_uncaused):
        return _from_earlier(origin, verdict)
    if citation is not None and is_warranted:
        return _citing(citation, verdict, limits)
    if reliance < measured.min_reliance or is_invented:
        is_searched = measured.found.complete or is_invented
        return _unsupported(verdict, measured, is_searched=is_searched)
    was_cut_short = citation is None and measured.found.members and measured.is_exhausted
    if was_cut_short or not measured.found.complete:
        return replace(verdict, reason=measured.ended_by)
    if _has_unexpected(measured, limits):
        return _unsupported(verdict, measured, is_searched=True)
    return replace(verdict, reason="scattered")


def _is_needed(citation: Citation, measured: Measurements, limits: Limits) -> bool:
    """Whether the sentence, or a word of it, loses enough without the cited sources.

    An unexpected word counts only for a source that has it.
    """
    if citation.relation != "each":
        return citation.effect >= limits.min_reliance
    if citation.effect < limits.cited_share * (measured.reliance or 0.0):
        return False
    if citation.effect >= limits.min_effect:
        return True
    return any(
        (held if word.is_unexpected(limits.min_surprise) else every) >= limits.min_word_effect
        for word, (held, every) in zip(measured.words, citation.word_effects, strict=True)
    )


def _is_warranted(
    citation: Citation,
    measured: Measurements,
    limits: Limits,
    *,
    is_needed: bool,
    is_invented: bool,
) -> bool:
    """Whether the sentence needs the cited sources, or they are enough and it relies on them.

    It relies on them if its reliance is at least `min_reliance`. Below twice that, it relies on
    sources that have words of their own only if the model expects each content word. A sentence
    with invented numbers may only cite such sources that it needs.
    """
    is_each, reliance = citation.relation == "each", measured.reliance or 0.0
    if is_needed and is_each:
        return True
    is_doubtful = is_each and reliance < limits.sure_factor * measured.min_reliance
    if is_invented or (is_doubtful and _has_unexpected(measured, limits)):
        return False
    if is_needed and citation.relation == "either":
        return True
    return citation.sufficient and reliance >= measured.min_reliance


def _is_invented(measured: Measurements, limits: Limits) -> bool:
    """Whether the model expects the sentence's numbers neither with the documents nor without.

    For example an invented price whose currency stands everywhere.
    """
    least = limits.min_surprise
    unlikely = [each for each in measured.figures if each.reliance - each.log_likelihood >= least]
    return bool(unlikely) and all(each.is_unexpected(least) for each in unlikely)


def _has_unexpected(measured: Measurements, limits: Limits) -> bool:
    """Whether the model expects some content word neither with the documents nor without."""
    return any(word.is_unexpected(limits.min_surprise) for word in measured.words)


def _citing(citation: Citation, verdict: Verdict, limits: Limits) -> Verdict:
    return replace(
        verdict,
        kind="grounded" if citation.relation == "each" else "redundant",
        source_ids=citation.source_ids,
        relation=citation.relation,
        effect=citation.effect,
        kept=citation.kept,
        in_part=citation.kept is not None and citation.kept < limits.kept_share,
    )


def _from_earlier(origin: EarlierOrigin, verdict: Verdict) -> Verdict:
    if origin.sentence is not None:
        return replace(verdict, kind="follows", follows=origin.sentence, effect=origin.effect)
    members = origin.replaced_by.members
    return replace(
        verdict,
        kind="conversation",
        origin="turn",
        effect=origin.effect,
        source_ids=(*members, *origin.replaced_by.alternatives),
        relation="together" if len(members) > 1 else "either" if members else "each",
    )


def _unsupported(
    verdict: Verdict, measured: Measurements, *, is_searched: bool
) -> Verdict | Postponed:
    """Unsupported, unless the prompt states the sentence, or an unlocated document may cause it.

    If the budget ended, it is open, unless sources, turns and sentences were ruled out.
    """
    origin = measured.in_prompt
    if isinstance(origin, Postponed):
        return origin
    if origin.is_unlocated:
        return replace(verdict, reason="not_located")
    if origin.part is not None:
        return replace(verdict, kind="conversation", origin=origin.part, effect=origin.effect)
    is_undecided = not is_searched or origin.may_be or measured.may_have_earlier
    if measured.is_exhausted and is_undecided:
        return replace(verdict, reason=measured.ended_by)
    return replace(verdict, kind="unsupported")
