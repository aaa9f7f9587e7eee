"""The units that hold the words of a part of the response."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from itertools import chain

from attribot_rag.context.number_words import other_spellings
from attribot_rag.methods.base import Part, best, words_in
from attribot_rag.scoring import Scorer


class Holders:
    """Units by the words that they have in common with parts; an order of search, no score."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self.words_of = cache(self._words_of)

    def of(self, part: Part, nats: Mapping[int, float]) -> list[int]:
        """The units that hold words of the part worth these nats, those of most nats first.

        Of units with the same words, those come first that hold more of all that the part says.
        None where the words in all units are worth less than half of the nats: the model says it in
        words of its own.
        """
        words = [self.words_of(unit) for unit in range(len(self._scorer.units))]
        held = [{i for i in nats if part.texts[i] in of_unit} for of_unit in words]
        worth = [sum(nats[i] for i in of_unit) for of_unit in held]
        if sum(nats[i] for i in set().union(*held)) < sum(nats.values()) / 2:
            return []
        holders = [unit for unit in best(worth) if worth[unit] > 0]
        return sorted(holders, key=lambda unit: (-worth[unit], -len(part.said & words[unit])))

    def most_alike(self, part: Part, sets: Iterable[list[int]]) -> list[list[int]]:
        """The sets of units, those first that hold most of the words that the part says."""

        def num_words(units: list[int]) -> int:
            return len(part.said & frozenset(chain.from_iterable(map(self.words_of, units))))

        return sorted(sets, key=num_words, reverse=True)

    def _words_of(self, unit: int) -> frozenset[str]:
        """The words and numbers of a unit in lower case, each number in all its spellings."""
        sources = self._scorer.context.sources
        texts = [sources[i].text.casefold() for i in self._scorer.units[unit]]
        spelled = (other_spellings(text, self._language) for text in texts)
        return frozenset(chain(chain.from_iterable(map(words_in, texts)), *spelled))

    @cached_property
    def _language(self) -> str:
        return self._scorer.context.answer_language(self._scorer.response.text)
