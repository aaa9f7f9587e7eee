"""The verdict on a sentence as a function of its measurements, and its citation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from attribot_rag.context.pieces import PromptPart
from attribot_rag.methods.base import Carriers, total
from attribot_rag.methods.evidence import PartLosses
from attribot_rag.methods.limits import Limits
from attribot_rag.methods.necessity import Order
from attribot_rag.result import Verdict
from attribot_rag.result.verdict import Reason, Relation


class Unknown(Enum):
    """A postponed measurement: most sentences do not need its rows."""

    SAID_BEFORE = "earlier sentences and turns"
    STATED = "instructions and the question"


class Expected(NamedTuple):
    """A word's log-likelihood with all documents, and its loss without them, in nats."""

    likely: float
    reliance: float

    def is_unexpected(self, least: float) -> bool:
        """Whether it is unlikely, and the documents contribute little to it."""
        return self.reliance < least <= -self.likely


@dataclass(frozen=True)
class SaidBefore:
    """The origin of a sentence: an earlier sentence, or else the conversation (None).

    `effect` is the loss without it, in nats. `is_uncaused` says that the earlier sentence has no
    known cause. `carriers` would carry the sentence without the conversation.
    """

    sentence: int | None
    effect: float
    is_uncaused: bool = False
    carriers: Carriers = field(default_factory=Carriers)


@dataclass(frozen=True)
class StatedInPrompt:
    """The part of the prompt that states a sentence, None if none does, and its effect, in nats.

    `may_be` says that a statement has a word of the sentence. `is_unlocated` says that a document
    that was not found in the prompt may have caused it. Statements were then not measured.
    """

    part: PromptPart | None = None
    effect: float = 0.0
    may_be: bool = False
    is_unlocated: bool = False


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The measurements of a sentence, the characters [start, end) of the response, in nats.

    `reliance` is the loss without all documents; None if the budget did not allow its row. The
    documents matter from `least` on: `min_reliance`, or more if a server's noise is large. `words`
    and `figures` are its content words and numbers. `citation` is the part of its `carriers` that
    may be cited.
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
    stated: StatedInPrompt | Unknown = Unknown.STATED
    may_be_said_before: bool = False
    is_cut: bool = False
    """Whether the answer ends in it, at its length limit."""
    is_exhausted: bool = False
    """Whether something was left undone because the budget ended."""
    ended_by: Reason = "budget"
    """What ended it, also for an incomplete search, which only the budget ends."""


def decide(measured: Measured, limits: Limits) -> Verdict | Unknown:
    """The verdict: a needed citation, else the origin, else a citation that is enough.

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
    may_come_from_before = not is_needed and reliance < limits.sure_reliance
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

    An unexpected word counts only for a source that has it.
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
    """Whether the sentence needs the cited sources, or they are enough and it relies on them.

    It relies on them if its reliance is at least `least`. Below twice that, on sources that have
    words of their own, only if the model expects each content word. A sentence with invented
    numbers may only cite such sources that it needs.
    """
    is_each, reliance = citation.relation == "each", measured.reliance or 0.0
    if is_needed and is_each:
        return True
    is_doubtful = is_each and reliance < limits.sure_factor * measured.least
    if is_invented or (is_doubtful and _has_unexpected(measured, limits)):
        return False
    if is_needed and citation.relation == "either":
        return True
    return citation.sufficient and reliance >= measured.least


def _is_invented(measured: Measured, limits: Limits) -> bool:
    """Whether the model expects the sentence's numbers neither with the documents nor without.

    For example an invented price whose currency stands everywhere.
    """
    least = limits.min_figure
    unlikely = [each for each in measured.figures if each.reliance - each.likely >= least]
    return bool(unlikely) and all(each.is_unexpected(least) for each in unlikely)


def _has_unexpected(measured: Measured, limits: Limits) -> bool:
    """Whether the model expects some content word neither with the documents nor without."""
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
    """Unsupported, unless the prompt states the sentence, or an unlocated document may cause it.

    If the budget ended, it is open, unless sources, turns and sentences were ruled out.
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


Units = Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Citation:
    """The sources that carry a sentence, best first, with their measured effects in nats.

    - `effect` is the loss without them: the sum over each, or, with another relation than `each`,
      without all at once.
    - `word_effects` are the largest losses of each content word without a source that has it, and
      without any source.
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


class Citing:
    """Measures the candidates for the citations of one sentence, and fetches the rows for that."""

    def __init__(self, losses: PartLosses, order: Order) -> None:
        self._losses = losses
        self._evidence = losses.evidence
        self._part = losses.part
        self._words_of = order.words_of
        self._limits = losses.limits

    def citation(self, carriers: Carriers) -> Citation | None:
        """The citation of these carriers; None if there is none."""
        members = carriers.members
        if not members:
            return None
        if carriers.alternatives:
            return self._measured(carriers, (*members, *carriers.alternatives), "either")
        if len(members) == 1:
            if self._is_close(carriers):  # its necessity decides
                self._evidence.fetch_without([members], exact=True)
            return self._measured(carriers, (*members, *carriers.further))
        deciding = tuple(self._deciding(carriers))
        if deciding and self._are_enough(deciding):
            return self._measured(carriers, (*deciding, *carriers.further))
        return self._measured(carriers, members, "together") if carriers.sufficient else None

    def _is_close(self, carriers: Carriers) -> bool:
        """Whether the effect alone decides on the citation, and is near its threshold."""
        limits, reliance = self._limits, self._losses.reliance
        effect = self._losses.in_row(self._evidence.without(carriers.members))
        if reliance < limits.min_reliance:
            return effect < limits.clear_effect
        is_near = limits.cited_share * reliance <= effect < limits.min_effect
        return is_near and not carriers.sufficient

    def _measured(
        self, carriers: Carriers, source_ids: Units, relation: Relation = "each"
    ) -> Citation:
        """The necessity and the sufficiency of the cited sources."""
        evidence = self._evidence
        sets = [(unit,) for unit in source_ids] if relation == "each" else [tuple(source_ids)]
        alone = carriers.members if relation == "either" else source_ids
        evidence.fetch([*map(evidence.ablating, sets), evidence.keeping(alone)])
        return Citation(
            source_ids=tuple(source_ids),
            relation=relation,
            effect=sum(self._losses.in_row(evidence.without(units)) for units in sets),
            word_effects=tuple(self._word_effects(source_ids)),
            kept=self._kept(alone),
            sufficient=carriers.sufficient,
        )

    def _kept(self, units: Units) -> float | None:
        row, reliance = self._evidence.only(units), self._losses.reliance
        if row is None or reliance <= 0:
            return None
        return min(1.0, max(0.0, 1.0 - self._losses.in_row(row) / reliance))

    def _word_effects(self, source_ids: Units) -> Iterator[tuple[float, float]]:
        rows = {unit: self._evidence.without([unit]) for unit in source_ids}
        for word, text in zip(self._part.words, self._part.texts, strict=True):
            effects = {unit: total(row, word) for unit, row in rows.items()}
            held = (effects[unit] for unit in source_ids if text in self._words_of(unit))
            yield max(held, default=0.0), max(effects.values())

    def _are_enough(self, deciding: Units) -> bool:
        """Whether the sentence keeps enough with only these, or loses the rest without them."""
        losses, evidence = self._losses, self._evidence
        most = (1 - self._limits.kept_share) * losses.reliance
        evidence.fetch([evidence.keeping(deciding)])
        row = evidence.only(deciding)
        if row is not None and losses.in_row(row) <= most:
            return True
        return sum(losses.in_row(evidence.without([unit])) for unit in deciding) >= most

    def _deciding(self, carriers: Carriers) -> Iterator[int]:
        """The members with words of their own: words that the other members alone lose.

        A member must also matter with all sources in the prompt. A source that only makes the
        subject clear does not.
        """
        members = carriers.members
        lost = [self._lost_by_others(carriers, member).keys() for member in members]
        for index, member in enumerate(members):
            rest = {word for i, words in enumerate(lost) if i != index for word in words}
            effect = self._losses.in_row(self._evidence.without([member]))
            if lost[index] - rest and effect >= self._limits.min_word:
                yield member

    def _lost_by_others(self, carriers: Carriers, member: int) -> dict[int, float]:
        """The words that the other members alone lose, with the losses in nats.

        If no search requested that row, it is the row with the units that need the member too, or
        with all other units: more units cannot lose what fewer keep.
        """
        only = self._evidence.only_as_asked
        others = tuple(unit for unit in carriers.members if unit != member)
        row = only(others) or only(carriers.beside.get(member, others))
        return self._losses.words(row or self._evidence.without([member]))
