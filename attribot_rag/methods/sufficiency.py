"""The few sources that alone make the model say a part of its response."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from attribot_rag.context.groups import group
from attribot_rag.methods.base import Carriers, Part, Scores, TokenScores, best, total
from attribot_rag.methods.losses import Steps
from attribot_rag.methods.necessity import BudgetEnded, Necessity
from attribot_rag.methods.ranking import Ranking
from attribot_rag.methods.thresholds import Thresholds
from attribot_rag.scoring import Scorer

_NUM_DOCUMENTS = 3
_NUM_REPLACEMENTS = 3


class Sufficiency(Necessity):
    """Searches for the few units with which parts of a response keep what they rely on.

    Units that hold the words of a part are tried first. Where these are not enough, the `ranking`
    is asked. If it has none, units are ranked by how much each document, then each unit of the best
    documents, keeps by itself. The exact rows of `measured` are not scored again.
    """

    def __init__(
        self,
        scorer: Scorer,
        reliance: TokenScores,
        thresholds: Thresholds,
        ranking: Ranking | None = None,
        measured: Scores | None = None,
    ) -> None:
        super().__init__(scorer, reliance, thresholds, measured)
        self._ranked = ranking
        self._searched: dict[Part, list[int]] = {}
        self._needed_beside: dict[tuple[Part, int], list[int]] = {}
        self.words_of = self._holders.words_of

    def carriers(
        self,
        parts: Iterable[Part],
        *,
        in_order: bool = False,
        is_settled: Callable[[Part], bool] = lambda _: False,
    ) -> Iterator[Carriers]:
        """The carriers of each part.

        Rows of all parts are scored together, which a GPU prefers; `in_order`, the search for a
        part ends before that for the next part begins. A part that hardly relies on the context is
        not looked into if it `is_settled` otherwise.
        """
        searches = [self._carriers(part, is_settled) for part in parts]
        for together in [[search] for search in searches] if in_order else [searches]:
            yield from self.in_rounds(together)

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
        return self._lost(part, self.loss_with_only(units), beside)

    def lost_by_others(self, part: Part, unit: int, members: Collection[int]) -> dict[int, float]:
        """The same with only the other members.

        If that was not scored, with those beside which the unit could not be left out, or with all
        other units: more units cannot lose what fewer keep.
        """
        others = [member for member in members if member != unit]
        beside = self._needed_beside.get((part, unit), others)
        row = self.loss_with_only(others) or self.loss_with_only(beside)
        return self._lost(part, row or self.loss_without([unit]))

    def _lost(
        self, part: Part, row: TokenScores | None, beside: Collection[int] = ()
    ) -> dict[int, float]:
        row, limits = row or self.reliance, self._thresholds
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

    def _carriers(self, part: Part, is_settled: Callable[[Part], bool]) -> Steps[Carriers]:
        try:
            if self.matters(part) and (not self._recompute or (yield from self._may_rely(part))):
                return (yield from self._sought(part))
            return Carriers() if is_settled(part) else (yield from self.decisive(part))
        except BudgetEnded:
            return Carriers(complete=False)

    def _sought(self, part: Part) -> Steps[Carriers]:
        """Units that suffice, of these the smallest set, then what replaces a set of one."""
        members = yield from self._enough(part)
        if not members and not self._ranking(part):
            self._searched[part] = yield from self._by_search(part)
            members = yield from self._enough(part)
        if not members:
            return (yield from self.most_needed(part, self._ranking(part)))
        if needed := (yield from self._explaining(part, members)):
            return Carriers(tuple(needed), sufficient=self._suffices(part, needed))
        members = yield from self._smallest(part, members)
        yield [self._ablating([unit]) for unit in members]
        alternatives: tuple[int, ...] = ()
        if len(members) == 1 and self._is_replaceable(part, members[0]):
            alternatives = yield from self._replacements(part, members[0])
        return Carriers(tuple(members), alternatives)

    def _may_rely(self, part: Part) -> Steps[bool]:
        """Whether the part relies on the context, or needs the unit that holds its words."""
        limits = self._thresholds
        if total(self.reliance, part.tokens) >= limits.min_reliance:
            return True
        of_words = (total(self.reliance, word) for word in part.words)
        nats = {index: max(0.0, worth) for index, worth in enumerate(of_words)}
        holder = self._holders.of(part, nats)[:1]
        if not holder:
            return False
        yield [self._ablating(holder)]
        row = self.loss_without(holder)
        return row is None or any(
            total(row, word) >= limits.min_word_effect / 2 for word in part.words
        )

    def _enough(self, part: Part) -> Steps[list[int]]:
        """The first unit, two, four, six, until they suffice; none if no set does.

        Four follow the first where that leaves half of the reliance unexplained.
        """
        reliance = total(self.reliance, part.tokens)
        worth = max(1.0, min(reliance / self._thresholds.min_effect, 9.0))
        most = min(self._thresholds.max_set, 2 ** int(worth))
        units: list[int] = []
        while added := self._promising(part, self.lost(part, units), units):
            is_far = len(units) == 1 and self._loss(part, units) >= reliance / 2
            count = 3 if is_far else max(1, len(units))
            added = added[: min(count, most - len(units))]
            units += added
            needed = [self._ablating([unit]) for unit in added if self._recompute]
            yield [self._keeping(units), *needed]  # they are asked for soon, at any rate
            if self.loss_with_only(units) is None:
                raise BudgetEnded
            if self._suffices(part, units) or (yield from self._explaining(part, units)):
                return units
            if len(units) >= most:
                break
        return []

    def _explaining(self, part: Part, units: Sequence[int]) -> Steps[list[int]]:
        """Those of several units that all others do not make up for, if they explain the part.

        They do if it loses `min_effect` without them, more than it may lose with sources that
        suffice, and each word that it does not keep with only them.
        """
        rows = {unit: self.loss_without([unit]) for unit in units}
        if len(units) < 2 or None in rows.values():
            return []
        needed = [unit for unit in units if not self._keeps(part, rows[unit])]
        nats, limits = sum(total(rows[unit], part.tokens) for unit in needed), self._thresholds
        reliance = total(self.reliance, part.tokens)
        if nats < max(limits.min_effect, (1 - limits.kept_share) * reliance):
            return []
        yield [self._keeping(needed)]
        lost = {word for unit in needed for word in self._lost(part, rows[unit])}
        return needed if self.lost(part, needed).keys() <= lost else []

    def _promising(self, part: Part, nats: Mapping[int, float], units: Sequence[int]) -> list[int]:
        """The other units that hold words worth these nats; in turn with the ranked if need be.

        That is where no units hold such words, and once two units were not enough.
        """
        holders = [unit for unit in self._holders.of(part, nats) if unit not in units]
        if holders and len(units) < 2:
            return holders
        ranking = [unit for unit in self._ranking(part) if unit not in units]
        pairs = zip_longest(holders, ranking)
        return list(dict.fromkeys(unit for pair in pairs for unit in pair if unit is not None))

    def _ranking(self, part: Part) -> Sequence[int]:
        if part in self._searched or self._ranked is None:
            return self._searched.get(part, ())
        return self._ranked.of(part)

    def _smallest(self, part: Part, units: list[int]) -> Steps[list[int]]:
        """The units without those that are not needed.

        Those that hold no word of the part are left out first, then the least promising. Without a
        unit that all others do not make up for, the few do not suffice either.
        """
        if len(units) == 1:
            return units
        holders_first = sorted(units, key=lambda unit: self.words_of(unit).isdisjoint(part.texts))
        for unit in holders_first[::-1]:
            if self._keeps(part, self.loss_without([unit])):
                fewer = [other for other in units if other != unit]
                yield [self._keeping(fewer)]
                if fewer and self._suffices(part, fewer):
                    units = fewer
                else:
                    self._needed_beside[part, unit] = fewer
        return units

    def _replacements(self, part: Part, unit: int) -> Steps[tuple[int, ...]]:
        """The units that suffice alone, in the place of this one."""
        candidates = self._promising(part, self.lost(part, ()), [unit])[:_NUM_REPLACEMENTS]
        yield [self._keeping([other]) for other in candidates]
        share = self._thresholds.needed_share
        enough = (other for other in candidates if self._suffices(part, [other], share))
        return tuple(other for other in enough if not self.lost(part, [other], beside=[unit]))

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
        return row is not None and self._keeps(part, row, share)

    def _keeps(self, part: Part, row: TokenScores | None, share: float | None = None) -> bool:
        """Whether the part keeps this share of its reliance, and each word its own, in a row."""
        most = 1 - (share or self._thresholds.kept_share)
        if total(row, part.tokens) > most * total(self.reliance, part.tokens):
            return False
        return row is None or not self._lost(part, row)

    def _is_replaceable(self, part: Part, unit: int) -> bool:
        """Whether neither the part nor a word of it needs the unit for what it relies on."""
        row, limits = self.loss_without([unit]), self._thresholds
        if row is None:
            return False
        return all(
            total(row, own) < max(limits.min_word, limits.kept_share * total(self.reliance, own))
            for own in (part.tokens, *part.words)
        )
