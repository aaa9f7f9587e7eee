"""The verdict on a sentence as a function of its measurements: no model, no rows.

A citation that the sentence needs comes first. Then come an earlier sentence or turn, sources that
suffice, and what the prompt states. At level DEBUG, the logger `attribot_rag.verdicts` shows the
measurements of each sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from attribot_rag.context.context import PromptPart
from attribot_rag.methods.base import Carriers
from attribot_rag.methods.limits import Limits
from attribot_rag.result import Verdict
from attribot_rag.result.verdict import Reason
from attribot_rag.verdicts.citation import Citation


class Unknown(Enum):
    """A postponed measurement: most sentences do not need its rows."""

    SAID_BEFORE = "earlier sentences and turns"
    STATED = "instructions and the question"


class Expected(NamedTuple):
    """A word's log-likelihood with the whole context, and its loss without, in nats."""

    likely: float
    reliance: float

    def is_unexpected(self, least: float) -> bool:
        """Whether it is unlikely, and the context is worth little to it."""
        return self.reliance < least <= -self.likely


@dataclass(frozen=True)
class SaidBefore:
    """The origin of a sentence: an earlier sentence, or else the conversation (None).

    `effect` is what removing it costs, in nats. `is_uncaused` says that the earlier sentence has no
    known cause; `carriers` would carry the sentence without the conversation.
    """

    sentence: int | None
    effect: float
    is_uncaused: bool = False
    carriers: Carriers = field(default_factory=Carriers)


@dataclass(frozen=True)
class Stated:
    """The part of the prompt that states a sentence, None if none does; its effect, in nats.

    `may_be` says that a statement holds a word of it. It `is_unlocated` if a document that was not
    found in the prompt may have caused it: then statements were not looked at.
    """

    part: PromptPart | None = None
    effect: float = 0.0
    may_be: bool = False
    is_unlocated: bool = False


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The measurements of a sentence, the characters [start, end) of the response, in nats.

    `reliance` is its loss without the whole context, None if the budget did not allow its row; the
    context matters from `least` on: `min_reliance`, or more where a server's noise is large.
    `words` and `figures` are its content words and numbers. `citation` is the part of its
    `carriers` that may be cited.
    """

    start: int
    end: int
    reliance: float | None
    least: float
    words: tuple[Expected, ...] = ()
    figures: tuple[Expected, ...] = ()
    carriers: Carriers = field(default_factory=Carriers)
    citation: Citation | None = None
    said_before: SaidBefore | Unknown | None = None
    stated: Stated | Unknown = Unknown.STATED
    may_be_said_before: bool = False
    is_cut: bool = False
    """The answer ends in it, at its length limit."""
    is_exhausted: bool = False
    """Something was left undone for want of budget."""
    ended_by: Reason = "budget"
    """What ended that; for an incomplete search, too, which only the budget ends."""


def decide(measured: Measured, limits: Limits) -> Verdict | Unknown:
    """The verdict: a citation that is needed, else the origin, else a citation that suffices.

    Without any of these, the reason. `Unknown` if it depends on a postponed measurement.
    """
    verdict = Verdict(start=measured.start, end=measured.end, kind="open")
    reliance, citation = measured.reliance, measured.citation
    if reliance is None:
        return _open(verdict, measured.ended_by)
    verdict = replace(verdict, reliance=reliance)
    if citation is None and measured.is_cut:
        return _open(verdict, "cut")
    is_needed = citation is not None and _is_needed(citation, measured, limits)
    may_come_from_before = not is_needed and reliance < 2 * limits.min_reliance
    origin = measured.said_before if may_come_from_before else None
    if isinstance(origin, Unknown):
        return origin
    is_invented = _is_invented(measured, limits)
    is_warranted = citation is not None and _is_warranted(
        citation, measured, limits, is_needed=is_needed, is_invented=is_invented
    )
    if origin is not None and not (is_warranted and origin.is_uncaused):
        return _from(origin, verdict)
    if citation is not None and is_warranted:
        return _cited(citation, verdict, limits)
    if reliance < measured.least or is_invented:
        is_searched = measured.carriers.complete or is_invented
        return _unsupported(verdict, measured, is_searched=is_searched)
    was_cut_short = citation is None and measured.carriers.members and measured.is_exhausted
    if was_cut_short or not measured.carriers.complete:
        return _open(verdict, measured.ended_by)
    if _has_unexpected(measured, limits):
        return _unsupported(verdict, measured, is_searched=True)
    return _open(verdict, "scattered")


def _is_needed(citation: Citation, measured: Measured, limits: Limits) -> bool:
    """Whether the sentence, or a word of it, loses enough without the cited sources.

    An unexpected word only counts for a source that holds it.
    """
    if citation.relation != "each":
        return citation.effect >= limits.min_reliance
    if citation.effect < limits.cited_share * (measured.reliance or 0.0):
        return False
    if citation.effect >= limits.min_effect:
        return True
    return any(
        (held if word.is_unexpected(limits.min_figure) else every) >= limits.min_word_effect
        for word, (held, every) in zip(measured.words, citation.word_effects, strict=True)
    )


def _is_warranted(
    citation: Citation,
    measured: Measured,
    limits: Limits,
    *,
    is_needed: bool,
    is_invented: bool,
) -> bool:
    """Whether the sentence needs the cited sources, or they suffice and it relies on them.

    It relies on them if its reliance is at least `least`; below twice that, on sources of words of
    their own only if the model expects each content word. With invented numbers, only such sources
    that it needs may be cited.
    """
    is_each, reliance = citation.relation == "each", measured.reliance or 0.0
    if is_needed and is_each:
        return True
    is_doubtful = is_each and reliance < 2 * measured.least
    if is_invented or (is_doubtful and _has_unexpected(measured, limits)):
        return False
    if is_needed and citation.relation == "either":
        return True
    return citation.sufficient and reliance >= measured.least


def _is_invented(measured: Measured, limits: Limits) -> bool:
    """Whether the model expects the sentence's numbers neither with the context nor without.

    An invented price, for example, whose currency stands everywhere.
    """
    least = limits.min_figure
    unlikely = [each for each in measured.figures if each.reliance - each.likely >= least]
    return bool(unlikely) and all(each.is_unexpected(least) for each in unlikely)


def _has_unexpected(measured: Measured, limits: Limits) -> bool:
    """Whether the model expects a content word neither with the context nor without."""
    return any(word.is_unexpected(limits.min_figure) for word in measured.words)


def _cited(citation: Citation, verdict: Verdict, limits: Limits) -> Verdict:
    return replace(
        verdict,
        kind="grounded" if citation.relation == "each" else "redundant",
        source_ids=citation.source_ids,
        relation=citation.relation,
        effect=citation.effect,
        kept=citation.kept,
        in_part=citation.kept is not None and citation.kept < limits.kept_share,
    )


def _from(origin: SaidBefore, verdict: Verdict) -> Verdict:
    if origin.sentence is not None:
        return replace(verdict, kind="follows", follows=origin.sentence, effect=origin.effect)
    members = origin.carriers.members
    return replace(
        verdict,
        kind="conversation",
        origin="turn",
        effect=origin.effect,
        source_ids=(*members, *origin.carriers.alternatives),
        relation="together" if len(members) > 1 else "either" if members else "each",
    )


def _unsupported(verdict: Verdict, measured: Measured, *, is_searched: bool) -> Verdict | Unknown:
    """Unsupported, unless the prompt states the sentence or an unlocated document may cause it.

    If the budget ended, it is open unless sources, turns and sentences were ruled out.
    """
    stated = measured.stated
    if isinstance(stated, Unknown):
        return stated
    if stated.is_unlocated:
        return _open(verdict, "not_located")
    if stated.part is not None:
        return replace(verdict, kind="conversation", origin=stated.part, effect=stated.effect)
    is_undecided = not is_searched or stated.may_be or measured.may_be_said_before
    if measured.is_exhausted and is_undecided:
        return _open(verdict, measured.ended_by)
    return replace(verdict, kind="unsupported")


def _open(verdict: Verdict, reason: Reason) -> Verdict:
    return replace(verdict, reason=reason)
