"""The rows of one answer, and how much each part of it loses in them."""

from __future__ import annotations

import copy
from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Ablation
from attribot_rag.context.text import words_and_numbers
from attribot_rag.methods.base import Part, Scores, TokenScores, total
from attribot_rag.methods.limits import Limits
from attribot_rag.scoring.row import Request

if TYPE_CHECKING:
    from attribot_rag.scoring import Reencoded, Scorer

Result = TypeVar("Result")
# A search for one part. It yields the rows that it needs next, and goes on when they are scored.
Search = Generator["Sequence[Request]", None, Result]


class Ahead:
    """The rows that may be needed soon, the most probable first.

    If a launch of a forward pass is expensive, they fill the pass of the requested rows. Otherwise
    nothing is expected, and no such row is made.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._now: dict[Request, None] = {}  # expected in this step of the searches
        self._earlier: dict[Request, None] = {}  # since the last pass

    @property
    def room(self) -> int:
        """How many short rows a pass has room for; 0 if only tokens cost time."""
        return self._scorer.num_spare

    @property
    def is_on(self) -> bool:
        return self.room > 0

    def expect(self, rows: Iterable[Request]) -> None:
        """Score these rows with the next ones that are fetched, as far as they fit."""
        if self.is_on:
            self._now.update(dict.fromkeys(rows))

    def end_step(self) -> None:
        """Rows expected by the next step come before those expected so far."""
        self._earlier, self._now = self._now | self._earlier, {}

    def take(self) -> dict[Request, None]:
        """The rows for the next pass. Those that do not fit must be expected again."""
        rows, self._earlier = self._earlier, {}
        return rows


class Evidence:
    """The losses of an answer without some units, or with only some, in nats per response token.

    A row with only some units is exact: its prompt is short, however long the documents are. A row
    without some units is masked if the architecture allows it, unless an exact one is requested.
    `reliance` [response tokens] is the loss without all documents. The scorer scores each row once.
    A row that was not fetched, or is beyond the budget, is None. `ahead` has rows that may be
    needed soon.

    Rows `of` a part end with it, which changes nothing before its end. If it is `alone`, they also
    leave out the earlier text of the answer, except a sign between them. Their losses are then
    compared with the full prompt's row of the part alone: how much the part depends on the units if
    nothing was said before. So they do not grow with the answer. Tokens that a row does not score
    are NaN. With `whole`, rows of a part cover the whole answer.
    """

    def __init__(
        self,
        scorer: Scorer,
        reliance: TokenScores,
        *,
        whole: bool = False,
        may_be_alone: bool = True,
    ) -> None:
        self.scorer = scorer
        self.reliance = reliance
        self._is_whole = whole
        self._may_be_alone = may_be_alone
        self._keeping: dict[frozenset[int], Request] = {}  # by the sources that are kept
        # Evidence on parts shares these: the requested rows, the row of each ablation that scores
        # most of the response, and the first tokens of parts that are scored alone.
        self._requested: set[Request] = set()
        self._longest: dict[Request, Request] = {}
        self._first_alone: dict[Ablation, int] = {}
        self.ahead = Ahead(scorer)
        self._recompute: Reencoded | None = "question" if scorer.masked_refusal is None else None
        self._beginning = self._own = Ablation()
        self._first = 0

    def for_part(self, part: Part) -> Evidence:
        """The evidence on a part. It shares all rows."""
        if self._is_whole or not part.tokens:
            return self
        made = copy.copy(self)
        first, end = part.tokens[0], part.tokens[-1] + 1
        begin = first - 1 if self._is_sign(first - 1) else first
        made._beginning = Ablation(said=tuple(range(end)))
        made._first, made._own = first, Ablation(said=tuple(range(begin, end)))
        return made

    def _is_sign(self, token: int) -> bool:
        """Whether a token of the response is a sign or white space, so that it says nothing."""
        if token < 0:
            return False
        start, end = self.scorer.response.spans[token]
        return not any(map(str.isalnum, self.scorer.response.text[start:end]))

    @property
    def alone(self) -> bool:
        """Whether rows leave out the text before the part."""
        return self._own in self._first_alone

    def leave_out_earlier(self) -> list[Request]:
        """From now on, leave out the text before the part, if there is any.

        Returns the row of that.

        This needs masks; otherwise a row without a unit would read half of the prompt a second
        time. If passes are expensive, earlier text is only left out if few rows with it fit into
        one: a part that needs it takes more passes.
        """
        fits = self.ahead.room >= Limits.num_whole_rows
        may_be_alone = self._may_be_alone and self.can_mask and not fits
        if self._own == self._beginning or not may_be_alone:
            return []
        self._first_alone[self._own] = self._first
        return [Request(self._own)]

    def words_before(self) -> frozenset[str]:
        """The words and numbers of the text before the part, in lower case."""
        response = self.scorer.response
        before = response.text[: response.spans[self._first][0]].casefold()
        return frozenset(word[0] for word in words_and_numbers(before))

    def read_earlier(self) -> None:
        """From now on, read the text before the part."""
        self._first_alone.pop(self._own, None)

    @property
    def can_mask(self) -> bool:
        return self._recompute is not None

    def without(self, units: Collection[int], *, exact: bool = False) -> TokenScores | None:
        """The loss of each response token without these units; by any row, unless `exact`."""
        row = self._loss(self.ablating(units, exact=True))
        return row if row or exact else self._loss(self.ablating(units))

    def only(self, units: Collection[int]) -> TokenScores | None:
        """The loss of each response token with only these units."""
        return self._loss(self.keeping(units))

    def _loss(self, request: Request) -> TokenScores | None:
        scored = self.scorer.scored
        if (row := scored.get(request)) is None or not self.alone:
            return None if row is None else row.loss
        if (before := scored.get(Request(self._own))) is None:
            return None
        return tuple(lost - other for lost, other in zip(row.loss, before.loss, strict=True))

    def only_as_asked(self, units: Collection[int]) -> TokenScores | None:
        """The same, if a search requested that row. Other rows are known only by chance."""
        return self.only(units) if self.keeping(units) in self._requested else None

    def ablating(self, units: Collection[int], *, exact: bool = False) -> Request:
        """The row without these units."""
        return self._begun(Request(Ablation(self._ids(units)), None if exact else self._recompute))

    def keeping(self, units: Collection[int]) -> Request:
        """The row with only these units."""
        kept = self._ids(units)
        if kept not in self._keeping:
            self._keeping[kept] = Request(self.scorer.context.ablation_of_others(kept))
        return self._begun(self._keeping[kept])

    def _begun(self, request: Request) -> Request:
        """The row of the part alone, or up to its end, or a longer one that was scored."""
        if self.alone:
            return _saying(request, self._own.said)
        if request in self.scorer.scored or self._beginning.said is None:
            return request
        ending = _saying(request, self._beginning.said)
        longest = self._longest.get(request, ending)
        return longest if _end(longest) >= _end(ending) else ending

    def ablating_each(self, sets: Iterable[Collection[int]]) -> list[Request]:
        """The rows without each set if masks make them short; else none."""
        return [self.ablating(units) for units in sets] if self.can_mask else []

    def fetch(self, requests: Iterable[Request]) -> None:
        """Score these rows in one batch. A masked row is left out if its exact row is known."""
        asked = dict.fromkeys(requests)
        self._requested.update(asked)
        self.ahead.end_step()
        if new := self._unknown(asked):
            others = [row for row in self._unknown(self.ahead.take()) if row not in asked]
            self.scorer.score_each(new, others)
            self._add_longest([*new, *others])

    def _add_longest(self, rows: Iterable[Request]) -> None:
        for row in rows:
            whole = _whole(row)
            if row in self.scorer.scored and _end(row) >= _end(self._longest.get(whole, row)):
                self._longest[whole] = row

    def _unknown(self, requests: Iterable[Request]) -> list[Request]:
        """Rows that must be scored. Of several that only end differently, the longest."""
        scored = self.scorer.scored
        new: dict[Request, Request] = {}
        for row in requests:
            whole = _whole(row)
            exact = Request(row.ablation), Request(whole.ablation)
            if scored.keys().isdisjoint((row, *exact)):
                new[whole] = max(new.get(whole, row), row, key=_end)
        return [*new.values()]

    def fetch_without(self, sets: Iterable[Collection[int]], *, exact: bool = False) -> None:
        """Fetch the rows without one set of units at a time."""
        self.fetch(self.ablating(units, exact=exact) for units in sets)

    def in_rounds(self, searches: Sequence[Search[Result]]) -> list[Result]:
        """The results of the searches.

        In each round, the rows that all of them lack are fetched together.
        """
        results: dict[int, Result] = {}
        wanted: dict[int, Sequence[Request]] = dict.fromkeys(range(len(searches)), ())
        while wanted:
            self.fetch(request for requests in wanted.values() for request in requests)
            for index in [*wanted]:
                try:
                    wanted[index] = self._lacking(searches[index])
                except StopIteration as end:
                    del wanted[index]
                    results[index] = end.value
        return [results[index] for index in range(len(searches))]

    def _lacking(self, search: Search[Result]) -> Sequence[Request]:
        """The next rows of a search, if one of them is missing."""
        while not self._unknown(requests := next(search)):
            self.fetch(requests)
        return requests

    def refine(self, scores: Scores) -> Scores:
        """The scores, with measured rows in place of estimates."""
        rows, exact = list(scores.token_scores), list(scores.exact)
        estimated = list(scores.estimated or (False,) * len(rows))
        asked = {_saying(row, None) for row in self._requested}
        for unit in range(len(rows)):
            ways = {self.ablating([unit]), self.ablating([unit], exact=True)} & asked
            if ways and not exact[unit] and (measured := self._measured(unit)):
                rows[unit], exact[unit] = measured
                estimated[unit] = False
        return replace(
            scores, token_scores=tuple(rows), exact=tuple(exact), estimated=tuple(estimated)
        )

    def _measured(self, unit: int) -> tuple[TokenScores, bool] | None:
        """The loss without a unit, NaN at tokens that no row scores, and whether it is exact.

        If parts are scored alone, it is made of their rows.
        """
        scored = self.scorer.scored
        found: list[tuple[TokenScores, bool]] = []
        for exact in (True, False):
            whole = self.ablating([unit], exact=exact)
            measured = scored.get(whole) or scored.get(self._longest.get(whole, whole))
            found += [(measured.loss, exact)] if measured else []
        # Rows end with sentences, so an exact one may score less than a masked one.
        best = max(found, key=lambda each: np.isfinite(each[0]).sum(), default=None)
        merged = None if best is None else [*best[0]]
        for own, first in self._first_alone.items():
            part = copy.copy(self)
            part._own = own
            if row := part.without([unit]):
                merged = merged or [np.nan] * len(row)
                end = (own.said or ())[-1] + 1
                merged[first:end] = row[first:end]
                best = row, part.without([unit], exact=True) is not None
        return None if merged is None or best is None else (tuple(merged), best[1])

    def _ids(self, units: Collection[int]) -> frozenset[int]:
        return frozenset(source for unit in units for source in self.scorer.units[unit])


def _whole(request: Request) -> Request:
    """The row of the whole response if this row scores its beginning; any other row unchanged."""
    return request if _end(request) == float("inf") else _saying(request, None)


def _saying(request: Request, said: tuple[int, ...] | None) -> Request:
    return replace(request, ablation=replace(request.ablation, said=said))


def _end(request: Request) -> float:
    """The number of response tokens in a row that scores a beginning; infinity for other rows."""
    said = request.ablation.said
    is_beginning = said is not None and said == tuple(range(len(said)))
    return len(said) if said is not None and is_beginning else float("inf")


@dataclass(frozen=True)
class PartLosses:
    """The losses of a part, and of its content words, in rows of the evidence, in nats.

    It requests no rows. Without a row, the part is assumed to lose its whole reliance.
    """

    part: Part
    evidence: Evidence
    limits: Limits

    @cached_property
    def reliance(self) -> float:
        return total(self.evidence.reliance, self.part.tokens)

    @property
    def may_be_cited(self) -> bool:
        """Whether the mean reliance of its tokens is high enough, if that is limited."""
        least = self.limits.min_per_token
        return not least or self.reliance >= least * len(self.part.tokens)

    @property
    def matters(self) -> bool:
        """Whether the part, or a word of it, relies on the documents."""
        least, row = self.limits.min_sought, self.evidence.reliance
        return any(total(row, own) >= least for own in self.part.each)

    def in_row(self, row: TokenScores | None) -> float:
        """The loss of the part in a row; 0 for None."""
        return total(row, self.part.tokens)

    def with_only(self, units: Collection[int]) -> float:
        """The loss of the part with only these units."""
        return self.in_row(self.evidence.only(units) or self.evidence.reliance)

    def words(self, row: TokenScores | None, beside: Collection[int] = ()) -> dict[int, float]:
        """The words that the part does not keep in a row, and their losses against all sources.

        A word is kept if it keeps `kept_word` of its reliance, or loses at most `min_word`. With
        the units `beside`, it must keep as much of what these keep as a part does (`kept_share`),
        if that is more.
        """
        row, limits = row or self.evidence.reliance, self.limits
        other = self.evidence.only(beside) if beside else None
        share = limits.kept_share if beside else limits.kept_word
        lost = {}
        for index, word in enumerate(self.part.words):
            least = min(0.0, total(other, word))
            worth = total(self.evidence.reliance, word) - least
            loss = total(row, word) - least
            if worth >= limits.min_word and loss > max(limits.min_word, (1 - share) * worth):
                lost[index] = loss
        return lost

    def keeps(self, row: TokenScores | None, share: float | None = None) -> bool:
        """Whether the part keeps this share of its reliance in a row, and each word its own."""
        most = 1 - (share or self.limits.kept_share)
        if self.in_row(row) > most * self.reliance:
            return False
        return row is None or not self.words(row)

    def irreplaceable(self, units: Iterable[int]) -> list[int]:
        """The units that no other units of the prompt replace, by scored rows."""
        rows = {unit: self.evidence.without([unit]) for unit in units}
        return [unit for unit, row in rows.items() if row is not None and not self.keeps(row)]

    def keep_after_nothing(self, units: Collection[int], held: Collection[str]) -> bool:
        """Whether the part alone, with these units, keeps each word that they lack.

        Words that they have may still be more likely after earlier sentences, like the next item of
        a list.
        """
        row = self.evidence.scorer.scored.get(self.evidence.keeping(units))
        return row is not None and self._are_held(self.words(row.loss), held)

    def explains(self, units: Sequence[int], held: Collection[str]) -> bool:
        """Whether one unit has each word that the part does not keep with only it.

        The part must keep enough in all, and lose these words without the unit.
        """
        only, without = self.evidence.only(units), self.evidence.without(units)
        if len(units) > 1 or only is None or without is None:
            return False
        lost, most = self.words(only), (1 - self.limits.kept_share) * self.reliance
        is_kept = self.in_row(only) <= most and self._are_held(lost, held)
        return is_kept and lost.keys() <= self.words(without).keys()

    def _are_held(self, words: Iterable[int], held: Collection[str]) -> bool:
        return all(self.part.texts[index] in held for index in words)

    def suffice(self, units: Collection[int], share: float | None = None) -> bool:
        """Whether these units alone are enough for the part, by a scored row."""
        row = self.evidence.only(units)
        return row is not None and self.keeps(row, share)
