"""Finds the smallest set of sources that is enough for a part of the response."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from attribot_rag.context.context import group
from attribot_rag.methods.ahead import after_fewer, after_first, after_several, first_step
from attribot_rag.methods.base import Carriers, Part, TokenScores, best, total
from attribot_rag.methods.evidence import Evidence, PartLosses, Search
from attribot_rag.methods.limits import Limits
from attribot_rag.methods.necessity import BudgetEnded, Necessity, Order

if TYPE_CHECKING:
    from attribot_rag.scoring import Request


def carriers_of(
    parts: Iterable[Part],
    evidence: Evidence,
    order: Order,
    limits: Limits,
    *,
    in_order: bool = False,
    is_settled: Callable[[Part], Search[bool]] | None = None,
) -> Iterator[Carriers]:
    """The carriers of each part of one answer.

    Rows of all parts are fetched together, which is faster on a GPU. With `in_order`, the search
    for a part ends before the next one begins. A part that relies little on the documents is
    skipped if it `is_settled` otherwise.
    """
    searches = [find_carriers(part, evidence, order, limits, is_settled) for part in parts]
    for together in [[search] for search in searches] if in_order else [searches]:
        yield from evidence.in_rounds(together)


def find_carriers(
    part: Part,
    evidence: Evidence,
    order: Order,
    limits: Limits,
    is_settled: Callable[[Part], Search[bool]] | None = None,
) -> Search[Carriers]:
    """Finds the smallest set of sources that keeps a part's likelihood, step by step.

    Units with words of the part are tried first, then the highest ranked ones. If no set is enough,
    the carriers are the units with the highest necessity.
    """
    evidence = evidence.for_part(part)
    losses = PartLosses(part, evidence, limits)
    if not losses.may_be_cited:
        return Carriers()
    search = _Search(losses, order)
    try:
        if losses.matters and (not evidence.can_mask or (yield from search.may_rely())):
            return (yield from search.sufficient())
        if evidence.can_mask:
            evidence.ahead.expect(first_step(search.necessity.decisive()))
        if is_settled is not None and (yield from is_settled(part)):
            return Carriers()
        return (yield from search.necessity.decisive())
    except BudgetEnded:
        return Carriers(complete=False)


class _Search:
    """The search for the carriers of one part.

    Without a ranking, units are ranked by how much each document, then each unit of the best
    documents, keeps alone.
    """

    def __init__(self, losses: PartLosses, order: Order) -> None:
        self.necessity = Necessity(losses, order)
        self._losses = losses
        self._order = order
        self._part = losses.part
        self._limits = losses.limits
        self._evidence = losses.evidence
        self._ahead = losses.evidence.ahead
        self._by_search: list[int] = []

    def may_rely(self) -> Search[bool]:
        """Whether the part relies on the documents, or needs the unit that has its words."""
        if self._losses.reliance >= self._limits.min_reliance:
            return True
        alone = self._alone()
        of_words = (total(self._evidence.reliance, word) for word in self._part.words)
        nats = {index: max(0.0, worth) for index, worth in enumerate(of_words)}
        holder = self._order.holding(self._part, nats)[:1]
        if not holder:
            self._evidence.read_earlier()
            return False
        self._ahead.expect(after_first(self._losses, self._order, holder[0]))
        yield [self._evidence.ablating(holder), *alone]
        row, least = self._evidence.without(holder), self._limits.min_word_effect
        least *= self._limits.search_share
        if row is None or any(total(row, word) >= least for word in self._part.words):
            return True
        self._evidence.read_earlier()
        return False

    def sufficient(self) -> Search[Carriers]:
        """Find the smallest set that is enough, then the replacements of a single unit."""
        members = yield from self._enough()
        if not members and not self._ranked:
            self._by_search = yield from self._ranked_alone()
            members = yield from self._enough()
        if not members:
            return (yield from self.necessity.most_needed(self._ranked))
        if needed := (yield from self._explaining(members)):
            return Carriers(tuple(needed), sufficient=self._losses.suffice(needed))
        members, beside = yield from self._smallest(members)
        yield [self._evidence.ablating([unit]) for unit in members]
        alternatives: tuple[int, ...] = ()
        if len(members) == 1 and self._is_replaceable(members[0]):
            alternatives = yield from self._replacements(members[0])
        further = () if alternatives else (yield from self._further(members))
        enough = self._losses.suffice(members)
        return Carriers(tuple(members), alternatives, enough, further=further, beside=beside)

    def _enough(self) -> Search[list[int]]:
        """The first unit, two, four, six, until they are enough; none if no set is."""
        losses, evidence = self._losses, self._evidence
        units, row = list[int](), None
        alone = self._alone()
        while added := self._growth(units, row):
            units += added
            if len(units) == 1:
                self._ahead.expect(after_first(losses, self._order, units[0]))
            else:
                growths = self._growths(units, row)
                least = self._limits.search_share * losses.reliance
                documents = self.necessity.mattering_documents(least)
                self._ahead.expect(after_several(losses, self._order, units, growths, documents))
            needed = evidence.ablating_each([unit] for unit in added)
            yield [evidence.keeping(units), *alone, *needed]  # these will be needed soon anyway
            is_enough = yield from self._are_enough(units)
            if alone and not (is_enough and losses.keep_after_nothing(units, self._held(units))):
                evidence.read_earlier()  # it refers to earlier text, or needs other units
                yield [evidence.keeping(units), *evidence.ablating_each([x] for x in units)]
                is_enough = yield from self._are_enough(units)
            if is_enough:
                return units
            alone, row = [], evidence.only(units)
        return []

    def _are_enough(self, units: Sequence[int]) -> Search[bool]:
        """Whether the units are enough, or explain the part."""
        if self._evidence.only(units) is None:
            raise BudgetEnded
        if self._losses.suffice(units) or self._losses.explains(units, self._held(units)):
            return True
        return bool((yield from self._explaining(units)))

    def _held(self, units: Sequence[int]) -> frozenset[str]:
        return frozenset(chain.from_iterable(map(self._order.words_of, units)))

    def _alone(self) -> list[Request]:
        """The row of the part alone, if the earlier text need not be read at first.

        The part, or those of its words that were not said before, must rely so much on the
        documents that it comes from no earlier sentence. Or one unit has all these words.
        """
        part, limits, evidence = self._part, self._limits, self._evidence
        said = evidence.words_before()
        new = {i: text for i, text in enumerate(part.texts) if text not in said}
        of_new = sum(total(evidence.reliance, part.words[i]) for i in new)
        is_own = self._losses.reliance >= limits.sure_reliance or of_new >= limits.min_reliance
        is_held = len(new) >= limits.num_new_words and self._order.has_together(new.values())
        return evidence.leave_out_earlier() if part.words and (is_own or is_held) else []

    def _growth(self, units: Sequence[int], row: TokenScores | None) -> list[int]:
        """The units to try next in addition to these, whose row this is: as many again.

        Three follow the first if that leaves half of the reliance unexplained.
        """
        losses, limits = self._losses, self._limits
        half = limits.search_share * losses.reliance
        is_far = len(units) == 1 and row is not None and losses.in_row(row) >= half
        count = limits.num_at_once if is_far else max(1, len(units))
        room = min(count, limits.largest_set(losses.reliance) - len(units))
        return self._promising(losses.words(row), units)[:room] if room > 0 else []

    def _growths(self, units: Sequence[int], row: TokenScores | None) -> Iterator[list[int]]:
        """The sets that these would grow to after the rows; none if ranking takes time."""
        grown = [*units]
        while self._order.is_ranked and (added := self._growth(grown, row)):
            grown = [*grown, *added]
            yield grown

    def _explaining(self, units: Sequence[int]) -> Search[list[int]]:
        """The irreplaceable ones of several units if they explain the part; else none.

        No other units of the prompt replace them. They explain the part if, without them, it loses
        `min_effect`, and more than it may lose with sources that are enough. So must each word that
        it does not keep with only them.
        """
        rows = {unit: self._evidence.without([unit]) for unit in units}
        if len(units) < 2 or None in rows.values():
            return []
        losses, limits = self._losses, self._limits
        needed = losses.irreplaceable(units)
        nats = sum(losses.in_row(rows[unit]) for unit in needed)
        if nats < max(limits.min_effect, (1 - limits.kept_share) * losses.reliance):
            return []
        yield [self._evidence.keeping(needed)]
        lost = {word for unit in needed for word in losses.words(rows[unit])}
        return needed if losses.words(self._evidence.only(needed)).keys() <= lost else []

    def _promising(self, nats: Mapping[int, float], units: Sequence[int]) -> list[int]:
        """The other units with words worth these nats, mixed with the ranked ones if needed.

        They are needed if no unit has such words, or if two units were not enough.
        """
        holders = [unit for unit in self._order.holding(self._part, nats) if unit not in units]
        if holders and len(units) < 2:
            return holders
        ranking = [unit for unit in self._ranked if unit not in units]
        pairs = zip_longest(holders, ranking)
        return list(dict.fromkeys(unit for pair in pairs for unit in pair if unit is not None))

    @property
    def _ranked(self) -> Sequence[int]:
        return self._by_search or self._order.ranked(self._part)

    def _smallest(self, units: list[int]) -> Search[tuple[list[int], dict[int, tuple[int, ...]]]]:
        """Drop unneeded units. Also returns, for each needed unit, the units that need it too.

        Units without words of the part are left out first, then the least promising ones. Without a
        unit that no other units replace, the few are not enough either.
        """
        beside: dict[int, tuple[int, ...]] = {}
        texts, words_of = self._part.texts, self._order.words_of
        holders_first = sorted(units, key=lambda unit: words_of(unit).isdisjoint(texts))
        evidence, keeps = self._evidence, self._losses.keeps
        unneeded = [unit for unit in holders_first[::-1] if keeps(evidence.without([unit]))]
        tried = unneeded if len(units) > 1 else []
        for index, unit in enumerate(tried):
            self._ahead.expect(after_fewer(self._losses, self._order, units, tried[index:]))
            fewer = [other for other in units if other != unit]
            yield [evidence.keeping(fewer)]
            if fewer and self._losses.suffice(fewer):
                units = fewer
            else:
                beside[unit] = tuple(fewer)
        return units, beside

    def _further(self, members: Sequence[int]) -> Search[tuple[int, ...]]:
        """The unit that is needed in addition to members that are enough, if there is one.

        The unit with most words of the part, also of the question, that the members lack is tried:
        the other side of a comparison, or the link from the question to the members. It is needed
        if it adds `min_effect` to the members, and its removal from the prompt costs as much.
        """
        losses, evidence, limits = self._losses, self._evidence, self._limits
        left = losses.with_only(members)
        if left < limits.search_share * limits.min_word_effect or len(members) >= limits.max_set:
            return ()
        unit = self._order.complement(self._part, members)
        if unit is None:
            return ()
        self._ahead.expect(evidence.ablating_each([members]))  # decides on citing all of them
        both = [*members, unit]
        yield [evidence.keeping(both)]
        row = evidence.only(both)
        if row is None or left - losses.in_row(row) < limits.min_effect:
            return ()
        try:
            return (unit,) if (yield from self.necessity.decides([unit])) else ()
        except BudgetEnded:
            return ()

    def _is_replaceable(self, unit: int) -> bool:
        """Whether neither the part nor any of its words needs the unit."""
        row, limits = self._evidence.without([unit]), self._limits
        if row is None:
            return False
        rely = ((own, total(self._evidence.reliance, own)) for own in self._part.each)
        return all(
            total(row, own) < max(limits.min_word, limits.kept_share * worth) for own, worth in rely
        )

    def _replacements(self, unit: int) -> Search[tuple[int, ...]]:
        """The units that are enough alone in place of this one.

        A few are tried, and more as long as all of them are enough: a fact may be in any number
        of documents.
        """
        losses, only, share = self._losses, self._evidence.only, self._limits.needed_share
        candidates = self._promising(losses.words(None), [unit])
        found: list[int] = []
        count = self._limits.num_at_once
        for start in range(0, len(candidates), count):
            tried = candidates[start : start + count]
            gone = [[unit, *tried], *(each for x in tried for each in ([x], [unit, x]))]
            self._ahead.expect(self._evidence.ablating_each(gone))
            yield [self._evidence.keeping([other]) for other in tried]
            enough = (other for other in tried if losses.suffice([other], share))
            found += (x for x in enough if not losses.words(only([x]), beside=[unit]))
            if len(found) < start + len(tried):
                break
        return tuple(found)

    def _ranked_alone(self) -> Search[list[int]]:
        """The units of the best documents, ranked by the part's loss with each unit alone."""
        scorer, losses = self._evidence.scorer, self._losses
        documents = group(scorer.context, scorer.units, "document")
        yield [self._evidence.keeping(members) for members in documents]
        of_documents = [-losses.with_only(members) for members in documents]
        chosen = best(of_documents, self._limits.num_at_once)
        units = [unit for index in chosen for unit in documents[index]]
        yield [self._evidence.keeping([unit]) for unit in units]
        units.sort(key=lambda unit: losses.with_only([unit]))
        return [*dict.fromkeys([*units, *range(len(scorer.units))])]
