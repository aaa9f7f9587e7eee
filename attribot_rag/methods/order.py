"""The order in which units are tried for a part of the response; rows decide."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain

from attribot_rag.cached_property import cached_property
from attribot_rag.context.text import other_spellings
from attribot_rag.methods.base import Method, Part, Scores, best, in_turn, span_totals, words_in
from attribot_rag.scoring import Scorer


class Ranking:
    """Scores for ranking units; `estimate` adds lazily to the `measured` scores."""

    def __init__(
        self, measured: Scores, estimate: Callable[[Scores], Scores] | None = None
    ) -> None:
        self.measured = measured
        self._estimate = estimate

    @property
    def is_on_demand(self) -> bool:
        """Whether units are estimated lazily."""
        return self._estimate is not None

    @property
    def scores(self) -> Scores:
        """The scores, with the estimates if they were needed."""
        return self.estimated if self.is_estimated else self.measured

    @cached_property
    def estimated(self) -> Scores:
        """The scores with estimates of all units, where there are any."""
        return self.measured if self._estimate is None else self._estimate(self.measured)

    @property
    def is_estimated(self) -> bool:
        """Whether the estimates are made, or there are none to make."""
        return self._estimate is None or "estimated" in vars(self)

    def of(self, part: Part) -> Sequence[int]:
        """All units by their scores of the part and, in turn, by attention; none without scores."""
        rows, attention = self.estimated.token_scores, self.estimated.attention
        if not any(row is not None for row in rows):
            return ()
        attended = [] if attention is None else [best(attention)]
        return in_turn([best(span_totals(rows, part.tokens)), *attended])


def ranking_of(method: Method, scorer: Scorer) -> Ranking:
    """The ranking by a method's scores; a method with a `ranking` is scored on demand."""
    on_demand: Callable[[Scorer], Ranking] | None = getattr(method, "ranking", None)
    return Ranking(method.run(scorer)) if on_demand is None else on_demand(scorer)


class Order:
    """The order of units in a search: by words in common with a part, or ranked."""

    def __init__(self, scorer: Scorer, ranking: Ranking | None = None) -> None:
        self._scorer = scorer
        self._ranking = ranking
        self._words: dict[int, frozenset[str]] = {}

    def holding(self, part: Part, nats: Mapping[int, float]) -> list[int]:
        """The units that hold words of the part worth these nats, highest worth first.

        Of units with the same words, those with more of all the part's words come first. None where
        the words in all units are worth less than half of the nats: the model says it in words of
        its own.
        """
        words = [self.words_of(unit) for unit in range(len(self._scorer.units))]
        held = [{i for i in nats if part.texts[i] in of_unit} for of_unit in words]
        worth = [sum(nats[i] for i in of_unit) for of_unit in held]
        if sum(nats[i] for i in set().union(*held)) < sum(nats.values()) / 2:
            return []
        holders = [unit for unit in best(worth) if worth[unit] > 0]
        return sorted(holders, key=lambda unit: (-worth[unit], -len(part.said & words[unit])))

    def complement(self, part: Part, units: Collection[int]) -> int | None:
        """The unit with most words of the part that these do not hold; None if none has one."""
        missing = part.said.difference(*map(self.words_of, units))
        others = (unit for unit in range(len(self._scorer.units)) if unit not in units)
        best_of = max(others, key=lambda unit: len(missing & self.words_of(unit)), default=None)
        return None if best_of is None or missing.isdisjoint(self.words_of(best_of)) else best_of

    def ranked(self, part: Part) -> Sequence[int]:
        """All units, the most promising first, as the ranking has it; none without one."""
        return () if self._ranking is None else self._ranking.of(part)

    @property
    def is_ranked(self) -> bool:
        """Whether `ranked` takes no time."""
        return self._ranking is None or self._ranking.is_estimated

    def words_of(self, unit: int) -> frozenset[str]:
        """The words and numbers of a unit in lower case, each number in all its spellings."""
        if unit not in self._words:
            sources, language = self._scorer.context.sources, self._language
            texts = [sources[i].text.casefold() for i in self._scorer.units[unit]]
            spelled = (other_spellings(text, language) for text in texts)
            self._words[unit] = frozenset(chain(*map(words_in, texts), *spelled))
        return self._words[unit]

    def most_alike(self, part: Part, sets: Iterable[list[int]]) -> list[list[int]]:
        """The sets of units, sorted by the number of the part's words in them."""

        def num_words(units: list[int]) -> int:
            return len(part.said & frozenset(chain.from_iterable(map(self.words_of, units))))

        return sorted(sets, key=num_words, reverse=True)

    @cached_property
    def _language(self) -> str:
        return self._scorer.context.answer_language(self._scorer.response.text)
