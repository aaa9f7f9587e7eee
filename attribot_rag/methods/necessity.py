"""Finds the sources that a part of the response needs most, and the order to try them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from attribot_rag.cached_property import cached_property
from attribot_rag.context.context import group
from attribot_rag.context.text import other_spellings, words_and_numbers
from attribot_rag.methods.base import Part, Ranking, SourceSet, best
from attribot_rag.methods.evidence import PartLosses, Search
from attribot_rag.methods.limits import Limits

if TYPE_CHECKING:
    from attribot_rag.scoring import Scorer


class BudgetEnded(Exception):
    """A row that a search needs was not scored."""


class Necessity:
    """Ablates documents, then units, to find the units that a part needs.

    Raises `BudgetEnded` if a needed row was not scored.
    """

    def __init__(self, losses: PartLosses, order: UnitOrder) -> None:
        self._losses = losses
        self._order = order
        self._evidence = losses.evidence
        self._limits = losses.limits

    def decisive(self) -> Search[SourceSet]:
        """Find the one unit that a part with little reliance on the documents needs.

        The reliance is no limit: without the documents, text against the part is gone too. So the
        document with most of its words is left out, then all others together. Documents that matter
        are divided, down to one unit. It is scored exactly unless its masked effect is clear.
        """
        evidence, least = self._evidence, self._limits.masked_share * self._limits.min_effect
        units = [[unit] for unit in range(len(evidence.scorer.units))]
        if not all(evidence.loss_without(unit, exact=True) for unit in units):
            documents = yield from self.mattering_documents(least)
            units = [[unit] for unit in chain.from_iterable(documents)]
        for unit in (yield from self._sets_that_matter(units, least))[:1]:
            effect = self._losses.of_part(evidence.loss_without(unit))
            if effect >= self._limits.clear_effect or (yield from self.decides(unit)):
                yield [evidence.request_with_only(unit)]
                return SourceSet(tuple(unit))
        return SourceSet()

    def decides(self, units: list[int]) -> Search[bool]:
        """Whether the part loses `min_effect` without these units, by an exact row.

        That row is requested only if a masked one comes near.
        """
        evidence, least = self._evidence, self._limits.min_effect
        if not (yield from self._sets_that_matter([units], self._limits.masked_share * least)):
            return False
        yield [evidence.request_without(units, exact=True)]
        loss = evidence.loss_without(units, exact=True)
        if loss is None:
            raise BudgetEnded
        return self._losses.of_part(loss) >= least

    def most_needed(self, ranked: Sequence[int]) -> Search[SourceSet]:
        """Find the units with the highest necessity if no set is enough; at least one.

        The `ranked` units are left out first. If none costs half of the reliance, the units of the
        document that matters most are left out too.
        """
        units = [[unit] for unit in ranked[: self._limits.num_needed]]
        losses = yield from self._losses_without(units)
        half = self._limits.search_share * self._losses.reliance
        if self._evidence.can_mask and all(loss < half for loss in losses):
            documents = yield from self.mattering_documents(half)
            units += [[unit] for unit in chain(*documents[:1]) if [unit] not in units]
            losses = yield from self._losses_without(units)
        order = best(losses)
        if not order:
            raise BudgetEnded
        needed = [index for index in order if losses[index] >= self._limits.min_word]
        chosen = needed[: self._limits.num_needed] or order[:1]
        members = [*chain(*(units[index] for index in chosen))]
        yield [self._evidence.request_with_only(members)]
        return SourceSet(tuple(members))

    def mattering_documents(self, least: float) -> Search[list[list[int]]]:
        """The units of each document without which the part loses `least` nats, most nats first.

        The most probable document is left out, and all others together; then each third of those
        that matter. A document that another one of its set contradicts is not found.
        """
        scorer, count = self._evidence.scorer, self._limits.num_at_once
        documents = group(scorer.context, scorer.units, "document")
        if len(documents) == 1:  # the loss without it is the reliance
            return documents if self._losses.reliance >= least else []
        ordered = self._order.sorted_by_words(self._losses.part, documents)
        found: list[list[int]] = []
        groups = [ordered[:1], ordered[1:]]
        if self._evidence.can_mask and len(ordered) <= self._evidence.prefetch.capacity:
            groups = [[members] for members in ordered]
        while groups := [members for members in groups if members]:
            sets = [[*chain.from_iterable(members)] for members in groups]
            losses = yield from self._losses_without(sets)
            pairs = zip(groups, losses, strict=True)
            matter = [members for members, loss in pairs if loss >= least]
            found += chain.from_iterable(members for members in matter if len(members) == 1)
            split = (members for members in matter if len(members) > 1)
            groups = [members[i::count] for members in split for i in range(count)]
        return (yield from self._sets_that_matter(found, least))

    def _sets_that_matter(self, sets: Sequence[list[int]], least: float) -> Search[list[list[int]]]:
        """The sets without which the part loses `least` nats, the largest loss first."""
        losses = yield from self._losses_without(sets)
        return [sets[index] for index in best(losses) if losses[index] >= least]

    def _losses_without(self, sets: Sequence[Collection[int]]) -> Search[list[float]]:
        """The loss of the part, in nats, without one set of units at a time."""
        yield [self._evidence.request_without(units) for units in sets]
        losses = [self._evidence.loss_without(units) for units in sets]
        if None in losses:
            raise BudgetEnded
        return [self._losses.of_part(loss) for loss in losses]


class UnitOrder:
    """The order in which a search tries units: by words in common with a part, or ranked."""

    def __init__(
        self, scorer: Scorer, ranking: Ranking | None = None, *, limits: Limits | None = None
    ) -> None:
        self._scorer = scorer
        self._ranking = ranking
        self._least_share = (limits or Limits()).search_share
        self._words: dict[int, frozenset[str]] = {}

    def with_words_of(self, part: Part, nats: Mapping[int, float]) -> list[int]:
        """The units that have words of the part worth these nats, highest worth first.

        If units have the same words, the one with more of all the part's words comes first. Empty
        if the words in all units are worth less than half of the nats: the model then uses its own
        words.
        """
        words = [self.words_of(unit) for unit in range(len(self._scorer.units))]
        shared = [{i for i in nats if part.words[i] in of_unit} for of_unit in words]
        worth = [sum(nats[i] for i in of_unit) for of_unit in shared]
        if sum(nats[i] for i in set().union(*shared)) < self._least_share * sum(nats.values()):
            return []
        chosen = [unit for unit in best(worth) if worth[unit] > 0]
        return sorted(chosen, key=lambda unit: (-worth[unit], -len(part.all_words & words[unit])))

    def has_together(self, words: Collection[str]) -> bool:
        """Whether one unit has all these words."""
        units = map(self.words_of, range(len(self._scorer.units)))
        return any(of_unit.issuperset(words) for of_unit in units)

    def complement(self, part: Part, units: Collection[int]) -> int | None:
        """The unit with most words of the part that these units lack; None if none has one."""
        missing = part.all_words.difference(*map(self.words_of, units))
        others = (unit for unit in range(len(self._scorer.units)) if unit not in units)
        best_of = max(others, key=lambda unit: len(missing & self.words_of(unit)), default=None)
        return None if best_of is None or missing.isdisjoint(self.words_of(best_of)) else best_of

    def ranked(self, part: Part) -> Sequence[int]:
        """All units by the ranking, the most promising first; none without a ranking."""
        return () if self._ranking is None else self._ranking.ranked(part)

    @property
    def is_ranked(self) -> bool:
        """Whether `ranked` takes no time."""
        return self._ranking is None or self._ranking.is_complete

    def words_of(self, unit: int) -> frozenset[str]:
        """The words and numbers of a unit in lower case, each number in all its spellings."""
        if unit not in self._words:
            sources, language = self._scorer.context.sources, self._language
            texts = [sources[i].text.casefold() for i in self._scorer.units[unit]]
            written = [word[0] for text in texts for word in words_and_numbers(text)]
            spelled = [other_spellings(text, language) for text in texts]
            self._words[unit] = frozenset(chain(written, *spelled))
        return self._words[unit]

    def sorted_by_words(self, part: Part, sets: Sequence[list[int]]) -> list[list[int]]:
        """The sets of units, sorted by how many of the part's words they have."""
        words = [part.all_words.intersection(chain(*map(self.words_of, units))) for units in sets]
        return [sets[index] for index in best([len(of_set) for of_set in words])]

    @cached_property
    def _language(self) -> str:
        return self._scorer.context.answer_language(self._scorer.response.text)
