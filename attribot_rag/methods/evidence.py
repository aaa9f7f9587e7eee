"""The rows of one answer, and how much each part of it loses in them."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Ablation
from attribot_rag.context.text import words_and_numbers
from attribot_rag.methods.base import Part, Scores, TokenScores, total
from attribot_rag.methods.limits import Limits
from attribot_rag.scoring.row import Request

if TYPE_CHECKING:
    from attribot_rag.scoring import Recomputed, Scorer

Result = TypeVar("Result")
# A search for one part. It yields the rows that it needs next, and goes on when they are scored.
Search = Generator["Sequence[Request]", None, Result]

_MIN_SHARED_ROWS = 6
"""From how many free rows in a pass on, rows of a part do not exclude earlier text: most parts can
then share their rows."""


class Prefetch:
    """Rows that may be needed soon, the most probable first.

    If launching a forward pass is expensive, they fill the pass of the requested rows. Otherwise
    nothing is added, and rows that are generated lazily are never made.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._now: dict[Request, None] = {}  # added in this step of the searches
        self._earlier: dict[Request, None] = {}  # since the last pass

    @property
    def capacity(self) -> int:
        """How many short rows fit into a pass; 0 if only tokens cost time."""
        return self._scorer.num_spare_rows

    def add(self, requests: Iterable[Request]) -> None:
        """Score these rows with the next ones that are fetched, as far as they fit."""
        if self.capacity:
            self._now.update(dict.fromkeys(requests))

    def end_step(self) -> None:
        """Rows added in the next step come before those added so far."""
        self._earlier, self._now = self._now | self._earlier, {}

    def take(self) -> dict[Request, None]:
        """The rows for the next pass. Those that do not fit must be added again."""
        requests, self._earlier = self._earlier, {}
        return requests


class Evidence:
    """The scored rows of one answer, and the evidence that they give on each part of it.

    `reliance` [response tokens] is the loss without all documents, in nats. `prefetch` has rows
    that may be needed soon. The scorer scores each row once. With `whole_rows`, rows of a part
    cover the whole answer. Unless they `may_exclude_earlier_text`, they always have it.
    """

    def __init__(
        self,
        scorer: Scorer,
        reliance: TokenScores,
        *,
        whole_rows: bool = False,
        may_exclude_earlier_text: bool = True,
    ) -> None:
        self.scorer = scorer
        self.reliance = reliance
        self.prefetch = Prefetch(scorer)
        self.can_mask = scorer.can_mask
        self.may_exclude_earlier_text = may_exclude_earlier_text
        self._has_whole_rows = whole_rows
        # No `PartEvidence` is kept here: a cycle would hold the KV cache after the attribution.
        self.parts_alone: dict[range, None] = {}
        """The tokens of parts whose rows exclude the text before them now."""
        self.with_only: dict[frozenset[int], Request] = {}
        """By kept sources: the row of the whole response with only them."""
        self.requested: set[Request] = set()
        """The rows that searches requested. Other rows are scored only by chance."""
        self.longest: dict[Request, Request] = {}
        """By a row of the whole response: the scored row with the same prompt and most of it."""

    @property
    def of_whole_answer(self) -> PartEvidence:
        return PartEvidence(self)

    def for_part(self, part: Part) -> PartEvidence:
        """The evidence on a part. Evidence on the same part shares everything."""
        if self._has_whole_rows or not part.tokens:
            return self.of_whole_answer
        return PartEvidence(self, range(part.tokens[0], part.tokens[-1] + 1))

    def fetch(self, requests: Iterable[Request]) -> None:
        """Score these rows in one batch. A masked row is left out if its exact row is known."""
        requested = dict.fromkeys(requests)
        self.requested.update(requested)
        self.prefetch.end_step()
        if missing := self._missing(requested):
            taken = self._missing(self.prefetch.take())
            prefetched = [request for request in taken if request not in requested]
            self.scorer.score_each(missing, prefetched)
            for request in (*missing, *prefetched):
                if request in self.scorer.scored:
                    whole = _of_whole_response(request)
                    longest = self.longest.get(whole, request)
                    self.longest[whole] = max(request, longest, key=_num_beginning)

    def _missing(self, requests: Iterable[Request]) -> list[Request]:
        """The rows that must be scored. Of several that only end differently, the longest."""
        scored = self.scorer.scored
        missing: dict[Request, Request] = {}
        for request in requests:
            whole = _of_whole_response(request)
            exact = Request(request.ablation), Request(whole.ablation)
            if scored.keys().isdisjoint((request, *exact)):
                missing[whole] = max(missing.get(whole, request), request, key=_num_beginning)
        return [*missing.values()]

    def in_rounds(self, searches: Sequence[Search[Result]]) -> list[Result]:
        """The results of the searches.

        In each round, the rows that all of them lack are fetched together.
        """
        results: dict[int, Result] = {}
        lacking: dict[int, Sequence[Request]] = dict.fromkeys(range(len(searches)), ())
        while lacking:
            self.fetch(request for requests in lacking.values() for request in requests)
            for index in [*lacking]:
                try:
                    lacking[index] = self._advance(searches[index])
                except StopIteration as end:
                    del lacking[index]
                    results[index] = end.value
        return [results[index] for index in range(len(searches))]

    def _advance(self, search: Search[Result]) -> Sequence[Request]:
        """Resume a search until it needs a row that was not scored; returns the rows it needs."""
        while not self._missing(requests := next(search)):
            self.fetch(requests)  # scores nothing, but notes that they were requested
        return requests

    def refine(self, scores: Scores) -> Scores:
        """The scores, with measured rows in place of estimates."""
        rows, exact = list(scores.token_scores), list(scores.exact)
        estimated = list(scores.estimated or (False,) * len(rows))
        requested = {_with_response(request, None) for request in self.requested}
        request_without = self.of_whole_answer.request_without
        for unit in range(len(rows)):
            ways = {request_without([unit]), request_without([unit], exact=True)} & requested
            if ways and not exact[unit] and (measured := self._measured(unit)):
                rows[unit], exact[unit] = measured
                estimated[unit] = False
        return replace(
            scores, token_scores=tuple(rows), exact=tuple(exact), estimated=tuple(estimated)
        )

    def _measured(self, unit: int) -> tuple[TokenScores, bool] | None:
        """The loss without a unit, NaN at tokens that no row scores, and whether it is exact.

        Parts whose rows exclude earlier text have the losses of these rows.
        """
        scored = self.scorer.scored
        found: list[tuple[TokenScores, bool]] = []
        for exact in (True, False):
            whole = self.of_whole_answer.request_without([unit], exact=exact)
            if measured := scored.get(whole) or scored.get(self.longest.get(whole, whole)):
                found.append((measured.loss, exact))
        # Rows end with sentences, so an exact one may score less than a masked one.
        best = max(found, key=lambda measured: np.isfinite(measured[0]).sum(), default=None)
        merged = None if best is None else [*best[0]]
        for tokens in self.parts_alone:
            part = PartEvidence(self, tokens)
            if loss := part.loss_without([unit]):
                merged = merged or [np.nan] * len(loss)
                own = slice(tokens.start, tokens.stop)
                merged[own] = loss[own]
                best = loss, part.loss_without([unit], exact=True) is not None
        return None if merged is None or best is None else (tuple(merged), best[1])


class PartEvidence:
    """The losses of one part without some units, or with only some, in nats per response token.

    A row with only some units is exact: its prompt is short, however long the documents are. A row
    without some units is masked if the architecture allows it, unless an exact one is requested.
    The loss in a row that was not fetched, or is beyond the budget, is None.

    Rows end with the part's `tokens`, because later ones change nothing; by default, they have the
    whole answer. They may also exclude the earlier text of the answer, except a sign between them.
    Losses are then compared with the full prompt's row of the part alone: how much the part depends
    on the units if nothing was said before. So rows do not grow with the answer. Tokens that a row
    does not score are NaN.
    """

    def __init__(self, answer: Evidence, tokens: range | None = None) -> None:
        self.answer = answer
        self.scorer = answer.scorer
        self.reliance = answer.reliance
        self.prefetch = answer.prefetch
        self.can_mask = answer.can_mask
        self.tokens = tokens or range(0)
        self._recompute: Recomputed | None = "question" if answer.can_mask else None
        self._to_end = self._alone = Ablation()
        if tokens:
            first = tokens.start - self._is_sign(tokens.start - 1)
            self._to_end = Ablation(kept_response=tuple(range(tokens.stop)))
            self._alone = Ablation(kept_response=tuple(range(first, tokens.stop)))

    def _is_sign(self, token: int) -> bool:
        """Whether a token of the response is a sign or white space, so that it says nothing."""
        if token < 0:
            return False
        start, end = self.scorer.response.spans[token]
        return not any(map(str.isalnum, self.scorer.response.text[start:end]))

    @property
    def excludes_earlier_text(self) -> bool:
        """Whether rows leave out the text before the part."""
        return self.tokens in self.answer.parts_alone

    def exclude_earlier_text(self) -> list[Request]:
        """From now on, leave out the text before the part, if there is any.

        Returns the row of the part alone in the full prompt.

        This needs masks; otherwise a row without a unit would read half of the prompt a second
        time. If passes are expensive, earlier text is only left out if few rows with it fit into
        one: a part that needs it takes more passes.
        """
        is_cheap = self.can_mask and self.prefetch.capacity < _MIN_SHARED_ROWS
        is_possible = is_cheap and self.answer.may_exclude_earlier_text
        if self._alone == self._to_end or not is_possible:
            return []
        self.answer.parts_alone[self.tokens] = None
        return [Request(self._alone)]

    def include_earlier_text(self) -> None:
        """From now on, rows have the text before the part."""
        self.answer.parts_alone.pop(self.tokens, None)

    def words_before(self) -> frozenset[str]:
        """The words and numbers of the text before the part, in lower case."""
        response = self.scorer.response
        before = response.text[: response.spans[self.tokens.start][0]].casefold()
        return frozenset(word[0] for word in words_and_numbers(before))

    def request_without(self, units: Collection[int], *, exact: bool = False) -> Request:
        """The row without these units."""
        recompute = None if exact else self._recompute
        return self._shortened(Request(Ablation(self._sources(units)), recompute))

    def masked_requests_without(self, sets: Iterable[Collection[int]]) -> list[Request]:
        """The rows without each set if masks make them short; else none."""
        return [self.request_without(units) for units in sets] if self.can_mask else []

    def request_with_only(self, units: Collection[int]) -> Request:
        """The row with only these units."""
        kept, with_only = self._sources(units), self.answer.with_only
        if kept not in with_only:
            with_only[kept] = Request(self.scorer.context.ablation_of_others(kept))
        return self._shortened(with_only[kept])

    def _sources(self, units: Collection[int]) -> frozenset[int]:
        return frozenset(source for unit in units for source in self.scorer.units[unit])

    def _shortened(self, request: Request) -> Request:
        """The row of the part alone, or up to its end, or a longer one that was scored."""
        if self.excludes_earlier_text:
            return _with_response(request, self._alone.kept_response)
        if request in self.scorer.scored or self._to_end.kept_response is None:
            return request
        ending = _with_response(request, self._to_end.kept_response)
        return max(self.answer.longest.get(request, ending), ending, key=_num_beginning)

    def loss_without(self, units: Collection[int], *, exact: bool = False) -> TokenScores | None:
        """The loss of each response token without these units; by any row, unless `exact`."""
        loss = self._loss(self.request_without(units, exact=True))
        return loss if loss or exact else self._loss(self.request_without(units))

    def loss_with_only(self, units: Collection[int]) -> TokenScores | None:
        """The loss of each response token with only these units."""
        return self._loss(self.request_with_only(units))

    def requested_loss_with_only(self, units: Collection[int]) -> TokenScores | None:
        """As `loss_with_only`, but None for a row that no search requested."""
        request = self.request_with_only(units)
        return self._loss(request) if request in self.answer.requested else None

    def _loss(self, request: Request) -> TokenScores | None:
        scored = self.scorer.scored
        if (row := scored.get(request)) is None or not self.excludes_earlier_text:
            return None if row is None else row.loss
        if (full := scored.get(Request(self._alone))) is None:
            return None
        return tuple(lost - other for lost, other in zip(row.loss, full.loss, strict=True))

    def fetch_without(self, sets: Iterable[Collection[int]], *, exact: bool = False) -> None:
        """Fetch the rows without one set of units at a time."""
        self.answer.fetch(self.request_without(units, exact=exact) for units in sets)


def _of_whole_response(request: Request) -> Request:
    """The row of the whole response if this row scores its beginning; any other row unchanged."""
    return request if _num_beginning(request) == inf else _with_response(request, None)


def _with_response(request: Request, tokens: tuple[int, ...] | None) -> Request:
    """The same row for these tokens of the response; None stands for all."""
    return replace(request, ablation=replace(request.ablation, kept_response=tokens))


def _num_beginning(request: Request) -> float:
    """The number of response tokens in a row that scores a beginning; infinity for other rows."""
    said = request.ablation.kept_response
    is_beginning = said is not None and said == tuple(range(len(said)))
    return len(said) if said is not None and is_beginning else inf


@dataclass(frozen=True)
class PartLosses:
    """The losses of a part, and of its content words, in scored rows, in nats.

    It requests no rows.
    """

    part: Part
    evidence: PartEvidence
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
        least, reliance = self.limits.min_sought, self.evidence.reliance
        return any(total(reliance, tokens) >= least for tokens in self.part.tokens_and_words)

    def of_part(self, loss: TokenScores | None) -> float:
        """The loss of the part, from that of each token; 0 for None."""
        return total(loss, self.part.tokens)

    def with_only(self, units: Collection[int]) -> float:
        """The loss of the part with only these units; its reliance if the row was not scored."""
        return self.of_part(self.evidence.loss_with_only(units) or self.evidence.reliance)

    def lost_words(
        self, loss: TokenScores, compared_with: Collection[int] = ()
    ) -> dict[int, float]:
        """The words that the part does not keep, and their losses against all sources.

        A word is kept if it keeps `kept_word` of its reliance, or loses at most `min_word`. If
        units are given to be `compared_with`, it must keep as much of what it keeps with only them
        as a part does (`kept_share`), if that is more.
        """
        limits = self.limits
        other = self.evidence.loss_with_only(compared_with) if compared_with else None
        share = limits.kept_share if compared_with else limits.kept_word
        lost = {}
        for index, word in enumerate(self.part.word_tokens):
            least = min(0.0, total(other, word))
            worth = total(self.evidence.reliance, word) - least
            word_loss = total(loss, word) - least
            if worth >= limits.min_word and word_loss > max(limits.min_word, (1 - share) * worth):
                lost[index] = word_loss
        return lost

    @property
    def reliant_words(self) -> dict[int, float]:
        """The words that the part does not keep without any documents."""
        return self.lost_words(self.evidence.reliance)

    def keeps(self, loss: TokenScores, share: float | None = None) -> bool:
        """Whether the part keeps this share of its reliance, and each word its own."""
        most = 1 - (share or self.limits.kept_share)
        return not (self.of_part(loss) > most * self.reliance or self.lost_words(loss))

    def may_be_unneeded(self, unit: int) -> bool:
        """Whether the part keeps enough without a unit, or no row says so."""
        loss = self.evidence.loss_without([unit])
        return loss is None or self.keeps(loss)

    def irreplaceable(self, units: Iterable[int]) -> list[int]:
        """The units that no other units of the prompt replace, by scored rows."""
        return [unit for unit in units if not self.may_be_unneeded(unit)]

    def keeps_new_words(self, units: Collection[int], words: Collection[str]) -> bool:
        """Whether the part alone, with these units, keeps each word that is not among theirs.

        Their own `words` may still be more likely after earlier sentences, like the next item of a
        list.
        """
        row = self.evidence.scorer.scored.get(self.evidence.request_with_only(units))
        return row is not None and self._are_among(self.lost_words(row.loss), words)

    def explains(self, units: Sequence[int], words: Collection[str]) -> bool:
        """Whether one unit has each word that the part does not keep with only it.

        The part must keep enough in all, and lose these words without the unit, whose `words` are
        given.
        """
        only, without = self.evidence.loss_with_only(units), self.evidence.loss_without(units)
        if len(units) > 1 or only is None or without is None:
            return False
        lost, most = self.lost_words(only), (1 - self.limits.kept_share) * self.reliance
        is_kept = self.of_part(only) <= most and self._are_among(lost, words)
        return is_kept and lost.keys() <= self.lost_words(without).keys()

    def _are_among(self, indices: Iterable[int], words: Collection[str]) -> bool:
        return all(self.part.words[index] in words for index in indices)

    def are_enough(self, units: Collection[int], share: float | None = None) -> bool:
        """Whether these units alone are enough for the part, by a scored row."""
        loss = self.evidence.loss_with_only(units)
        return loss is not None and self.keeps(loss, share)
