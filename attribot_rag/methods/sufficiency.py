"""The few sources that alone make the model say a part of its response."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from attribot_rag.context import Ablation, TokenizedText
from attribot_rag.context.groups import group
from attribot_rag.methods.base import Scores, TokenScores, best
from attribot_rag.scoring import Reencoded, Scorer

Request = tuple[Ablation, Reencoded | None]
Result = TypeVar("Result")
Steps = Generator[Sequence[Request], None, Result]

_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+")
_LEAST_LETTERS = 4
_NUM_DOCUMENTS = 3
_NUM_OTHERS = 3


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """When sources suffice for a part of the response.

    A part is looked into if its context reliance is at least `min_effect` nats. Sources suffice if
    it keeps `kept_share` of its reliance with them alone, and each of its content words that the
    context is worth `min_word` nats to keeps `kept_word` of that. A set has at most `max_set`
    sources. A source that suffices is replaceable if the part loses less than `needed_share` of its
    reliance without it.
    """

    min_effect: float = 4.0
    kept_share: float = 0.8
    kept_word: float = 0.5
    min_word: float = 2.0
    needed_share: float = 0.5
    max_set: int = 8


@dataclass(frozen=True)
class Part:
    """Response tokens, and those of each content word among them."""

    tokens: tuple[int, ...]
    words: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, response: TokenizedText, start: int, end: int, tokens: Sequence[int]) -> Part:
        """The part with these `tokens` of the characters [start, end) of the response.

        Content words are numbers, names, and words of four letters or more.
        """
        held = frozenset(tokens)
        words = []
        for match in _WORD.finditer(response.text, start, end):
            word = match.group()
            if word[0].isdigit() or word != word.lower() or len(word) >= _LEAST_LETTERS:
                own = tuple(i for i in response.tokens_in(match.span()) if i in held)
                words += [own] if own else []
        return cls(tuple(tokens), tuple(words))


@dataclass(frozen=True)
class Carriers:
    """Units that carry a part of the response: `members` together, or each of `others` alone.

    `members` is the smallest set that was found to suffice, best first; empty if none was. Without
    it, each of the `others` suffices by itself. `loss` is what the part loses with only the members
    in nats. Not `complete`: the budget ended the search.
    """

    members: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    loss: float = 0.0
    complete: bool = True


class Sufficiency:
    """Searches for the units that suffice for parts of a response, and measures those it finds.

    Rows are exact: the prompt with a few sources is short, however long the context is. What the
    response loses without a source (its necessity) is masked where the architecture allows it.
    `reliance` [response tokens] is the score of the whole context.
    """

    def __init__(self, scorer: Scorer, reliance: TokenScores, thresholds: Thresholds) -> None:
        self._scorer = scorer
        self._reliance = reliance
        self._thresholds = thresholds
        self._how: Reencoded | None = "question" if scorer.masked_refusal is None else None
        self._changes: dict[Request, TokenScores] = {}
        self._present = frozenset(scorer.context.present)

    def carriers(
        self, parts: Sequence[Part], rankings: Sequence[Sequence[int]] | None
    ) -> list[Carriers]:
        """The carriers of each part, whose ranking has the most promising units first.

        Without rankings, units are ranked by how much each document, then each unit of the best
        documents, keeps by itself.
        """
        of_parts = [None] * len(parts) if rankings is None else rankings
        searches = [
            self._carriers(part, ranking) for part, ranking in zip(parts, of_parts, strict=True)
        ]
        return self._in_rounds(searches)

    def matters(self, part: Part) -> bool:
        """Whether the context matters to the part."""
        return _sum(self._reliance, part.tokens) >= self._thresholds.min_effect

    def without(self, units: Collection[int]) -> TokenScores | None:
        """The loss of each response token without these units, None if it was not scored."""
        exact, masked = self._without(units, None), self._without(units, self._how)
        return self._changes.get(exact, self._changes.get(masked))

    def score_without(self, sets: Iterable[Collection[int]], *, exact: bool = False) -> None:
        """Score the response without each of these sets of units."""
        self._score([self._without(units, None if exact else self._how) for units in sets])

    def only(self, units: Collection[int]) -> TokenScores | None:
        """The loss of each response token with only these units, None if it was not scored."""
        return self._changes.get(self._only(units))

    def score_only(self, sets: Iterable[Collection[int]]) -> None:
        """Score the response with only each of these sets of units."""
        self._score([self._only(units) for units in sets])

    def refine(self, scores: Scores) -> Scores:
        """The scores with those of the units that were measured, instead of estimates."""
        rows, exact = list(scores.token_scores), list(scores.exact)
        estimated = list(scores.estimated or (False,) * len(rows))
        for index in range(len(rows)):
            row = self.without([index])
            if row is not None and not exact[index]:
                rows[index], estimated[index] = row, False
                exact[index] = self._without([index], None) in self._changes
        return replace(
            scores, token_scores=tuple(rows), exact=tuple(exact), estimated=tuple(estimated)
        )

    def _carriers(self, part: Part, ranking: Sequence[int] | None) -> Steps[Carriers]:
        if not self.matters(part):
            return Carriers()
        if ranking is None:
            ranking = yield from self._ranking(part)
        members = yield from self._enough(part, ranking)
        if members is None:
            return Carriers(complete=False)
        if not members:
            return Carriers()
        members = yield from self._smallest(part, members)
        yield [self._without([unit], self._how) for unit in members]
        loss = _sum(self.only(members) or (), part.tokens)
        others: tuple[int, ...] = ()
        if len(members) == 1 and self._is_replaceable(part, members[0]):
            others = yield from self._others(part, members[0], ranking)
        return Carriers(tuple(members), others, loss)

    def _enough(self, part: Part, ranking: Sequence[int]) -> Steps[list[int] | None]:
        """The first 1, 2, 4, ... units, whichever suffice first; None beyond the budget."""
        size = 1
        while True:
            units = list(ranking[:size])
            yield [self._only(units)]
            if self.only(units) is None:
                return None
            if self._suffices(part, units):
                return units
            if size >= min(self._thresholds.max_set, len(ranking)):
                return []
            size *= 2

    def _smallest(self, part: Part, units: list[int]) -> Steps[list[int]]:
        """The units without those that are not needed, the least promising first."""
        for unit in units[::-1] if len(units) > 1 else ():
            fewer = [other for other in units if other != unit]
            yield [self._only(fewer)]
            if fewer and self._suffices(part, fewer):
                units = fewer
        return units

    def _others(self, part: Part, unit: int, ranking: Sequence[int]) -> Steps[tuple[int, ...]]:
        """The units that suffice in place of this unit, each alone."""
        likely = [other for other in ranking if other != unit][:_NUM_OTHERS]
        yield [self._only([other]) for other in likely]
        return tuple(other for other in likely if self._suffices(part, [other]))

    def _ranking(self, part: Part) -> Steps[list[int]]:
        """The units of the best documents, by what the part loses with each of them alone."""
        units = range(len(self._scorer.units))
        documents = group(self._scorer.context, self._scorer.units, "document")
        yield [self._only(held) for held in documents]
        losses = [self._loss(part, held) for held in documents]
        chosen = best([-loss for loss in losses], _NUM_DOCUMENTS)
        held = [unit for index in chosen for unit in documents[index]]
        yield [self._only([unit]) for unit in held]
        held.sort(key=lambda unit: self._loss(part, [unit]))
        return held + [unit for unit in units if unit not in held]

    def _loss(self, part: Part, units: Collection[int]) -> float:
        row = self.only(units)
        return _sum(self._reliance if row is None else row, part.tokens)

    def _suffices(self, part: Part, units: Collection[int]) -> bool:
        """Whether the part keeps enough with only these units, and each of its words does."""
        row, limits = self.only(units), self._thresholds
        if row is None:
            return False
        lost = 1 - limits.kept_share
        if _sum(row, part.tokens) > lost * _sum(self._reliance, part.tokens):
            return False
        return not any(
            worth >= limits.min_word and _sum(row, word) > (1 - limits.kept_word) * worth
            for word in part.words
            if (worth := _sum(self._reliance, word))
        )

    def _is_replaceable(self, part: Part, unit: int) -> bool:
        row = self.without([unit])
        least = self._thresholds.needed_share * _sum(self._reliance, part.tokens)
        return row is not None and _sum(row, part.tokens) < least

    def _without(self, units: Collection[int], how: Reencoded | None) -> Request:
        return Ablation(self._ids(units)), how

    def _only(self, units: Collection[int]) -> Request:
        return Ablation(self._present - self._ids(units)), None

    def _ids(self, units: Collection[int]) -> frozenset[int]:
        return frozenset(source for unit in units for source in self._scorer.units[unit])

    def _score(self, requests: Iterable[Request]) -> None:
        requests = dict.fromkeys(requests)
        for how in dict.fromkeys((None, self._how)):
            new = [one for one in requests if one[1] == how and one not in self._changes]
            if new:
                scored = self._scorer.score([ablation for ablation, _ in new], recompute=how)
                pairs = zip(new, scored.changes, strict=True)
                self._changes.update((one, row) for one, row in pairs if row is not None)

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


def _sum(row: Sequence[float] | Mapping[int, float], tokens: Iterable[int]) -> float:
    return sum(row[token] for token in tokens)
