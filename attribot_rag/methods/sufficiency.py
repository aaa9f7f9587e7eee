"""The few sources that alone make the model say a part of its response."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from functools import cache
from itertools import repeat, zip_longest
from typing import TypeVar

from attribot_rag.context.groups import group
from attribot_rag.methods.base import Carriers, Part, TokenScores, best, total, words_in
from attribot_rag.methods.losses import Losses, Request
from attribot_rag.methods.thresholds import Thresholds
from attribot_rag.scoring import Scorer

Result = TypeVar("Result")
# A search for one part: it yields the rows that it needs next, and goes on once they are scored.
Steps = Generator[Sequence[Request], None, Result]

_NUM_DOCUMENTS = 3
_NUM_REPLACEMENTS = 3
_NUM_NEEDED = 2


class _BudgetEnded(Exception):
    """A row that a search cannot do without was not scored."""


class Sufficiency(Losses):
    """Searches for the few units with which parts of a response keep what they rely on.

    Where seconds are bounded, the unit that holds most of the part's words is tried first, which
    needs no ranking.
    """

    def __init__(self, scorer: Scorer, reliance: TokenScores, thresholds: Thresholds) -> None:
        super().__init__(scorer, reliance)
        self._thresholds = thresholds
        self._in_haste = scorer.session.meter.deadline is not None
        self._words = cache(self._words_of)

    def carriers(
        self,
        parts: Sequence[Part],
        rankings: Sequence[Sequence[int]] | None,
        *,
        in_order: bool = False,
    ) -> Iterator[Carriers]:
        """The carriers of each part, whose ranking has the most promising units first.

        Without rankings, units are ranked by the part's words that they hold; where these are few,
        or no such units suffice, by how much each document, then each unit of the best documents,
        keeps by itself. Rows of all parts are scored together, which a GPU prefers; `in_order`, the
        search for a part ends before that for the next part begins.
        """
        searches = [*map(self._carriers, parts, repeat(None) if rankings is None else rankings)]
        for together in [[search] for search in searches] if in_order else [searches]:
            yield from self._in_rounds(together)

    def score_word_holders(self, parts: Sequence[Part]) -> None:
        """Score each part with only the unit that holds its words, if seconds are bounded."""
        if self._in_haste:
            self.score_only(filter(None, map(self._word_holder, filter(self.matters, parts))))

    def matters(self, part: Part) -> bool:
        """Whether the context matters to the part."""
        least = self._thresholds.min_sought
        return any(total(self.reliance, own) >= least for own in (part.tokens, *part.words))

    def lost(
        self, part: Part, units: Collection[int], beside: Collection[int] = ()
    ) -> dict[int, float]:
        """The loss, in nats, of each word that the part does not keep with only these units.

        The loss is counted from the log-likelihood with the whole context. In the place of the
        units `beside`, each word has to keep as much as a part does (`kept_share`), from what these
        make of it if that is more.
        """
        row, limits = self.loss_with_only(units) or self.reliance, self._thresholds
        other = self.loss_with_only(beside) if beside else None
        share = limits.kept_share if beside else limits.kept_word
        lost = {}
        for index, word in enumerate(part.words):
            least = min(0.0, total(other, word))
            worth, loss = total(self.reliance, word) - least, total(row, word) - least
            most = max(limits.min_word, (1 - share) * worth)
            if worth >= limits.min_word and loss > most:
                lost[index] = loss
        return lost

    def _carriers(self, part: Part, ranking: Sequence[int] | None) -> Steps[Carriers]:
        if not self.matters(part):
            return Carriers()
        try:
            return (yield from self._sought(part, ranking))
        except _BudgetEnded:
            return Carriers(complete=False)

    def _sought(self, part: Part, ranking: Sequence[int] | None) -> Steps[Carriers]:
        """Units that suffice, of these the smallest set, then what replaces a set of one."""
        if self._recompute and not (yield from self._may_be_needed(part, (ranking or ())[:1])):
            return Carriers()
        members: list[int] = []
        if self._in_haste and (holder := self._word_holder(part)):
            yield [self._keeping(holder)]
            members = holder if self._suffices(part, holder) else []
        if ranking is None:
            ranking = self._by_words(part) or members
            members = members or (yield from self._enough(part, ranking))
            if not members:
                ranking = yield from self._by_search(part)
                members = yield from self._enough(part, ranking)
        elif not members:
            members = yield from self._enough(part, ranking)
        if not members:
            return (yield from self._most_needed(part, ranking[:_NUM_NEEDED]))
        members = yield from self._smallest(part, members)
        yield [self._ablating([unit]) for unit in members]
        alternatives: tuple[int, ...] = ()
        if len(members) == 1 and self._is_replaceable(part, members[0]):
            alternatives = yield from self._replacements(part, members[0], ranking)
        return Carriers(tuple(members), alternatives)

    def may_be_needed(self, parts: Sequence[Part]) -> bool:
        """Whether a part relies on the context, or needs the unit that holds most of its words.

        Without masked ablation, any part to which the context matters may need a unit.
        """
        sought = [part for part in parts if self.matters(part)]
        if self._recompute is None:
            return bool(sought)
        return any(self._in_rounds([self._may_be_needed(part, ()) for part in sought]))

    def _may_be_needed(self, part: Part, promising: Sequence[int]) -> Steps[bool]:
        """Whether the part relies on the context, or needs its words' holder or such a unit."""
        limits = self._thresholds
        if total(self.reliance, part.tokens) >= limits.min_reliance:
            return True
        units = {*self._word_holder(part), *promising}
        yield [self._ablating([unit]) for unit in units]
        rows = [self.loss_without([unit]) for unit in units]
        return any(
            row is None or total(row, word) >= limits.min_word_effect / 2
            for row in rows
            for word in part.words or (part.tokens,)
        )

    def _most_needed(self, part: Part, units: Sequence[int]) -> Steps[Carriers]:
        """The unit without which the part loses most, where no set suffices."""
        yield [self._ablating([unit]) for unit in units]
        rows = {unit: self.loss_without([unit]) for unit in units}
        losses = {unit: total(row, part.tokens) for unit, row in rows.items() if row}
        if not losses:
            raise _BudgetEnded
        member = max(losses, key=lambda unit: losses[unit])
        yield [self._keeping([member])]
        return Carriers((member,), sufficient=False)

    def _enough(self, part: Part, ranking: Sequence[int]) -> Steps[list[int]]:
        """The first units, or twice as many each time, which suffice; none if no set does.

        Units are added in turn from the ranking and from those that hold the words which the units
        before do not keep.
        """
        worth = total(self.reliance, part.tokens) / self._thresholds.min_effect
        most = min(self._thresholds.max_set, 2 ** int(max(1.0, min(worth, 9.0))), len(ranking))
        units = list(ranking[:1])
        needed = [self._ablating(units)] if units and self._recompute else []  # soon, at any rate
        while units:
            yield [self._keeping(units), *needed]
            if self.loss_with_only(units) is None:
                raise _BudgetEnded
            if self._suffices(part, units):
                return units
            if len(units) >= most:
                break
            rest = [unit for unit in ranking if unit not in units]
            added = self._promising(part, units, rest)
            units += added[: min(len(units), most - len(units))]
        return []

    def _promising(self, part: Part, units: Sequence[int], rest: Sequence[int]) -> list[int]:
        """The rest, in turn with those of it that hold words which the units lose."""
        pairs = zip_longest(self._holding(part, units, rest), rest)
        return list(dict.fromkeys(unit for pair in pairs for unit in pair if unit is not None))

    def _word_holder(self, part: Part) -> list[int]:
        """The unit that holds most of what the part's words rely on, if there is one."""
        nats = [
            sum(
                max(0.0, total(self.reliance, word))
                for word, text in zip(part.words, part.texts, strict=True)
                if text in self._words(unit)
            )
            for unit in range(len(self._scorer.units))
        ]
        return [unit for unit in best(nats, 1) if nats[unit]]

    def _holding(self, part: Part, units: Sequence[int], rest: Sequence[int]) -> list[int]:
        """Those of the rest that hold words which only these units lose, of most nats first."""
        lost = self.lost(part, units)
        nats = {
            unit: sum(loss for i, loss in lost.items() if part.texts[i] in self._words(unit))
            for unit in rest
        }
        return sorted((unit for unit in rest if nats[unit]), key=lambda unit: -nats[unit])

    def _words_of(self, unit: int) -> frozenset[str]:
        sources = self._scorer.context.sources
        texts = (sources[i].text.casefold() for i in self._scorer.units[unit])
        return frozenset(word for text in texts for word in words_in(text))

    def _smallest(self, part: Part, units: list[int]) -> Steps[list[int]]:
        """The units without those that are not needed, the least promising first."""
        for unit in units[::-1] if len(units) > 1 else ():
            fewer = [other for other in units if other != unit]
            yield [self._keeping(fewer)]
            if fewer and self._suffices(part, fewer):
                units = fewer
        return units

    def _replacements(
        self, part: Part, unit: int, ranking: Sequence[int]
    ) -> Steps[tuple[int, ...]]:
        """The units that suffice alone, in the place of this one."""
        rest = [other for other in ranking if other != unit]
        candidates = self._promising(part, (), rest)[:_NUM_REPLACEMENTS]
        yield [self._keeping([other]) for other in candidates]
        share = self._thresholds.needed_share
        enough = (other for other in candidates if self._suffices(part, [other], share))
        return tuple(other for other in enough if not self.lost(part, [other], beside=[unit]))

    def _by_words(self, part: Part) -> list[int]:
        """All units, those first that hold words which the part relies on.

        None where the words in them are worth less than half of the words that the part relies on:
        the model says it in words of its own.
        """
        units = range(len(self._scorer.units))
        lost = self.lost(part, ())
        texts = {word for unit in units for word in self._words(unit)}
        worth = sum(loss for index, loss in lost.items() if part.texts[index] in texts)
        if not worth or worth < sum(lost.values()) / 2:
            return []
        return [*dict.fromkeys([*self._holding(part, (), units), *units])]

    def _by_search(self, part: Part) -> Steps[list[int]]:
        """The units of the best documents, by what the part loses with each of them alone."""
        documents = group(self._scorer.context, self._scorer.units, "document")
        yield [self._keeping(members) for members in documents]
        losses = [self._loss(part, members) for members in documents]
        chosen = best([-loss for loss in losses], _NUM_DOCUMENTS)
        units = [unit for index in chosen for unit in documents[index]]
        yield [self._keeping([unit]) for unit in units]
        units.sort(key=lambda unit: self._loss(part, [unit]))
        return [*dict.fromkeys([*units, *range(len(self._scorer.units))])]

    def _loss(self, part: Part, units: Collection[int]) -> float:
        return total(self.loss_with_only(units) or self.reliance, part.tokens)

    def _suffices(self, part: Part, units: Collection[int], share: float | None = None) -> bool:
        row = self.loss_with_only(units)
        if row is None:
            return False
        most = 1 - (share or self._thresholds.kept_share)
        if total(row, part.tokens) > most * total(self.reliance, part.tokens):
            return False
        return not self.lost(part, units)

    def _is_replaceable(self, part: Part, unit: int) -> bool:
        """Whether neither the part nor a word of it needs the unit for what it relies on."""
        row, limits = self.loss_without([unit]), self._thresholds
        if row is None:
            return False
        return all(
            total(row, own) < max(limits.min_word, limits.kept_share * total(self.reliance, own))
            for own in (part.tokens, *part.words)
        )

    def _in_rounds(self, searches: Sequence[Steps[Result]]) -> list[Result]:
        """The results of the searches; what all ask for next is scored at once."""
        results: dict[int, Result] = {}
        wanted: dict[int, Sequence[Request]] = dict.fromkeys(range(len(searches)), ())
        while wanted:
            self._score([request for requests in wanted.values() for request in requests])
            for index in [*wanted]:
                try:
                    wanted[index] = next(searches[index])
                except StopIteration as end:
                    del wanted[index]
                    results[index] = end.value
        return [results[index] for index in range(len(searches))]
