"""Finds the smallest set of sources that is enough for a part of the response.

The functions at the end name rows that the search may need next, to prefetch them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, islice, zip_longest
from typing import TYPE_CHECKING

from attribot_rag.context.context import group
from attribot_rag.methods.base import Part, SourceSet, TokenScores, answer_parts, best, total
from attribot_rag.methods.evidence import Evidence, PartEvidence, PartLosses, Search
from attribot_rag.methods.limits import Limits
from attribot_rag.methods.necessity import BudgetEnded, Necessity, UnitOrder

if TYPE_CHECKING:
    from attribot_rag.scoring import Request

_MAX_EARLY = 4
"""How many sources of a part are scored early, with the reliance."""


def find_sources(
    parts: Iterable[Part],
    evidence: Evidence,
    order: UnitOrder,
    limits: Limits,
    needs_no_search: Callable[[Part], Search[bool]] | None = None,
) -> list[SourceSet]:
    """The sources of each part of one answer: the smallest set that keeps its likelihood.

    Rows of all parts are fetched together, which is faster on a GPU. A part that relies little on
    the documents is skipped if it `needs_no_search`.
    """
    searches = (
        _Search(PartLosses(part, evidence.for_part(part), limits), order).run(needs_no_search)
        for part in parts
    )
    return evidence.in_rounds([*searches])


class _Search:
    """The search for the sources of one part.

    Units with words of the part are tried first, then the highest ranked ones. Without a ranking,
    units are ranked by how much each document, then each unit of the best documents, keeps alone.
    """

    def __init__(self, losses: PartLosses, order: UnitOrder) -> None:
        self._necessity = Necessity(losses, order)
        self._losses = losses
        self._order = order
        self._part = losses.part
        self._limits = losses.limits
        self._evidence = losses.evidence
        self._prefetch = losses.evidence.prefetch
        self._by_search: list[int] = []

    def run(self, needs_no_search: Callable[[Part], Search[bool]] | None) -> Search[SourceSet]:
        """Find the smallest set that is enough, or the one unit that a part needs.

        The part is not searched if its tokens rely too little on the documents. If it relies little
        on them as a whole, the search ends with any other origin.
        """
        evidence, necessity = self._evidence, self._necessity
        if not self._losses.may_be_cited:
            return SourceSet()
        try:
            if self._losses.matters and (not evidence.can_mask or (yield from self._relies())):
                return (yield from self._smallest_set())
            if evidence.can_mask:
                self._prefetch.add(first_requests(necessity.decisive()))
            if needs_no_search is not None and (yield from needs_no_search(self._part)):
                return SourceSet()
            return (yield from necessity.decisive())
        except BudgetEnded:
            return SourceSet(complete=False)

    def _relies(self) -> Search[bool]:
        """Whether the part relies on the documents, or needs the unit that has its words.

        For the second, rows exclude the earlier text if possible, and go on so if it does.
        """
        evidence, limits = self._evidence, self._limits
        if self._losses.reliance >= limits.min_reliance:
            return True
        alone = self._exclude_earlier_text()
        of_words = (total(evidence.reliance, word) for word in self._part.word_tokens)
        nats = {index: max(0.0, worth) for index, worth in enumerate(of_words)}
        if units := self._order.with_words_of(self._part, nats)[:1]:
            self._prefetch.add(requests_after_first(self._losses, self._order, units[0]))
            yield [evidence.request_without(units), *alone]
            loss = evidence.loss_without(units)
            least = limits.search_share * limits.min_word_effect
            if loss is None or any(total(loss, word) >= least for word in self._part.word_tokens):
                return True
        evidence.include_earlier_text()
        return False

    def _smallest_set(self) -> Search[SourceSet]:
        """Find the smallest set that is enough, then the replacements of a single unit."""
        members = yield from self._enough()
        if not members and not self._ranked:
            self._by_search = yield from self._rank_by_search()
            members = yield from self._enough()
        if not members:
            return (yield from self._necessity.most_needed(self._ranked))
        if needed := (yield from self._explaining(members)):
            return SourceSet(tuple(needed), sufficient=self._losses.are_enough(needed))
        members, needed_with = yield from self._drop_unneeded(members)
        yield [self._evidence.request_without([unit]) for unit in members]
        alternatives: tuple[int, ...] = ()
        if len(members) == 1 and self._is_replaceable(members[0]):
            alternatives = yield from self._replacements(members[0])
        further = () if alternatives else (yield from self._further(members))
        return SourceSet(
            tuple(members),
            alternatives,
            self._losses.are_enough(members),
            further=further,
            needed_with=needed_with,
        )

    def _enough(self) -> Search[list[int]]:
        """The first unit, two, four, six, until they are enough; empty if no set is."""
        losses, evidence, units = self._losses, self._evidence, list[int]()
        alone, loss = self._exclude_earlier_text(), evidence.reliance
        while added := self._growth(units, loss):
            units += added
            self._prefetch_after(units, loss)
            needed = evidence.masked_requests_without([unit] for unit in added)
            with_only = evidence.request_with_only(units)
            yield [with_only, *alone, *needed]  # the row of the part alone will be needed soon
            are_enough = yield from self._are_enough(units)
            if alone and not (are_enough and losses.keeps_new_words(units, self._words_of(units))):
                evidence.include_earlier_text()  # it refers to that, or needs other units
                masked = evidence.masked_requests_without([unit] for unit in units)
                yield [evidence.request_with_only(units), *masked]
                are_enough = yield from self._are_enough(units)
            if are_enough:
                return units
            alone, loss = [], evidence.loss_with_only(units) or evidence.reliance
        return []

    def _prefetch_after(self, units: Sequence[int], loss: TokenScores) -> None:
        """Score the rows that may be needed after these units, if they fit into a pass."""
        if len(units) == 1:
            requests = requests_after_first(self._losses, self._order, units[0])
        else:
            growths = self._growths(units, loss)
            least = self._limits.search_share * self._losses.reliance
            document_search = self._necessity.mattering_documents(least)
            requests = requests_after_several(
                self._losses, self._order, units, growths, document_search
            )
        self._prefetch.add(requests)

    def _are_enough(self, units: Sequence[int]) -> Search[bool]:
        """Whether the units are enough, or explain the part."""
        losses = self._losses
        if self._evidence.loss_with_only(units) is None:
            raise BudgetEnded
        if losses.are_enough(units) or losses.explains(units, self._words_of(units)):
            return True
        return bool((yield from self._explaining(units)))

    def _words_of(self, units: Sequence[int]) -> frozenset[str]:
        return frozenset(chain.from_iterable(map(self._order.words_of, units)))

    def _exclude_earlier_text(self) -> list[Request]:
        """From now on, score the part without the earlier text, if that is no origin of the part.

        The part, or those of its words that were not said before, must rely so much on the
        documents that it comes from no earlier sentence. Or one unit has all these words. Returns
        the row of the part alone, or nothing if the earlier text stays.
        """
        part, limits, evidence = self._part, self._limits, self._evidence
        before = evidence.words_before()
        new = {i: text for i, text in enumerate(part.words) if text not in before}
        of_new = sum(total(evidence.reliance, part.word_tokens[i]) for i in new)
        is_own = self._losses.reliance >= limits.sure_reliance or of_new >= limits.min_reliance
        is_in_one = len(new) >= limits.num_new_words and self._order.has_together(new.values())
        return evidence.exclude_earlier_text() if part.word_tokens and (is_own or is_in_one) else []

    def _growth(self, units: Sequence[int], loss: TokenScores) -> list[int]:
        """The units to try next in addition to these, by the loss with only these: as many again.

        Three follow the first if that leaves half of the reliance unexplained.
        """
        losses, limits = self._losses, self._limits
        half = limits.search_share * losses.reliance
        is_far = len(units) == 1 and losses.of_part(loss) >= half
        count = limits.num_at_once if is_far else max(1, len(units))
        room = min(count, limits.largest_set(losses.reliance) - len(units))
        return self._promising(losses.lost_words(loss), units)[:room] if room > 0 else []

    def _growths(self, units: Sequence[int], loss: TokenScores) -> Iterator[list[int]]:
        """The sets that these would grow to after their rows; none if ranking takes time."""
        grown = [*units]
        while self._order.is_ranked and (added := self._growth(grown, loss)):
            grown = [*grown, *added]
            yield grown

    def _explaining(self, units: Sequence[int]) -> Search[list[int]]:
        """The irreplaceable ones of several units if they explain the part; else none.

        No other units of the prompt replace them. They explain the part if both are true: without
        them, it loses `min_effect`, and more than it may lose with sources that are enough. And
        each word that is lost with only them is also lost without one of them.
        """
        losses, limits, evidence = self._losses, self._limits, self._evidence
        scored = {unit: loss for unit in units if (loss := evidence.loss_without([unit]))}
        if len(units) < 2 or len(scored) < len(units):
            return []
        needed = losses.irreplaceable(units)
        nats = sum(losses.of_part(scored[unit]) for unit in needed)
        if nats < max(limits.min_effect, (1 - limits.kept_share) * losses.reliance):
            return []
        yield [evidence.request_with_only(needed)]
        loss = evidence.loss_with_only(needed) or evidence.reliance
        lost = {word for unit in needed for word in losses.lost_words(scored[unit])}
        return needed if losses.lost_words(loss).keys() <= lost else []

    def _promising(self, nats: Mapping[int, float], units: Sequence[int]) -> list[int]:
        """The other units with words worth these nats, mixed with the ranked ones if needed.

        They are needed if no unit has such words, or if two units were not enough.
        """
        with_words = self._order.with_words_of(self._part, nats)
        others = [unit for unit in with_words if unit not in units]
        if others and len(units) < 2:
            return others
        ranking = [unit for unit in self._ranked if unit not in units]
        pairs = zip_longest(others, ranking)
        return list(dict.fromkeys(unit for pair in pairs for unit in pair if unit is not None))

    @property
    def _ranked(self) -> Sequence[int]:
        return self._by_search or self._order.ranked(self._part)

    def _drop_unneeded(
        self, units: list[int]
    ) -> Search[tuple[list[int], dict[int, tuple[int, ...]]]]:
        """The units without unneeded ones, and for each needed one the units that need it too.

        Units without words of the part are left out first, then the least promising ones. Without a
        unit that no other units replace, the few are not enough either.
        """
        needed_with: dict[int, tuple[int, ...]] = {}
        texts, words_of = self._part.words, self._order.words_of
        with_words_first = sorted(units, key=lambda unit: words_of(unit).isdisjoint(texts))
        tried = [unit for unit in with_words_first[::-1] if self._losses.may_be_unneeded(unit)]
        for index, unit in enumerate(tried if len(units) > 1 else ()):
            self._prefetch.add(
                requests_after_fewer(self._losses, self._order, units, tried[index:])
            )
            fewer = [other for other in units if other != unit]
            yield [self._evidence.request_with_only(fewer)]
            if fewer and self._losses.are_enough(fewer):
                units = fewer
            else:
                needed_with[unit] = tuple(fewer)
        return units, needed_with

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
        self._prefetch.add(evidence.masked_requests_without([members]))  # to cite all of them
        both = [*members, unit]
        yield [evidence.request_with_only(both)]
        loss = evidence.loss_with_only(both)
        if loss is None or left - losses.of_part(loss) < limits.min_effect:
            return ()
        try:
            return (unit,) if (yield from self._necessity.decides([unit])) else ()
        except BudgetEnded:
            return ()

    def _is_replaceable(self, unit: int) -> bool:
        """Whether neither the part nor any of its words needs the unit."""
        evidence, limits = self._evidence, self._limits
        loss = evidence.loss_without([unit])
        return loss is not None and all(
            total(loss, tokens)
            < max(limits.min_word, limits.kept_share * total(evidence.reliance, tokens))
            for tokens in self._part.tokens_and_words
        )

    def _replacements(self, unit: int) -> Search[tuple[int, ...]]:
        """The units that are enough alone in place of this one.

        A few are tried, and more as long as all of them are enough: a fact may be in any number
        of documents.
        """
        promising = self._promising(self._losses.reliant_words, [unit])
        found: list[int] = []
        count = self._limits.num_at_once
        for start in range(0, len(promising), count):
            tried = promising[start : start + count]
            singles_and_pairs = (units for other in tried for units in ([other], [unit, other]))
            self._prefetch.add(
                self._evidence.masked_requests_without([[unit, *tried], *singles_and_pairs])
            )
            yield [self._evidence.request_with_only([other]) for other in tried]
            found += (other for other in tried if self._replaces(unit, other))
            if len(found) < start + len(tried):
                break
        return tuple(found)

    def _replaces(self, unit: int, other: int) -> bool:
        """Whether the other unit alone is enough, and keeps the words that the unit keeps."""
        loss = self._evidence.loss_with_only([other])
        if loss is None or not self._losses.keeps(loss, self._limits.needed_share):
            return False
        return not self._losses.lost_words(loss, compared_with=[unit])

    def _rank_by_search(self) -> Search[list[int]]:
        """The units of the best documents, ranked by the part's loss with each unit alone."""
        scorer, losses = self._evidence.scorer, self._losses
        documents = group(scorer.context, scorer.units, "document")
        yield [self._evidence.request_with_only(members) for members in documents]
        of_documents = [-losses.with_only(members) for members in documents]
        chosen = best(of_documents, self._limits.num_at_once)
        units = [unit for index in chosen for unit in documents[index]]
        yield [self._evidence.request_with_only([unit]) for unit in units]
        units.sort(key=lambda unit: losses.with_only([unit]))
        return [*dict.fromkeys([*units, *range(len(scorer.units))])]


def first_requests(search: Iterable[Sequence[Request]]) -> Iterator[Request]:
    """The rows that a search requests first. It is started for that, and never goes on."""
    return chain.from_iterable(islice(search, 1))


def requests_after_reliance(evidence: Evidence, order: UnitOrder, few: int) -> Iterator[Request]:
    """The rows that may be needed after the one without any documents.

    With few units, each is left out. Otherwise, for each part in turn, the units with most of its
    words are kept: alone, and every second time also with those before; then they are left out.
    After that, each document is left out, for sentences with little reliance. Finally, the first
    unit of each part is kept together with the unit that has the missing words. Rows of a long
    answer exclude earlier sentences.
    """
    context, units = evidence.scorer.context, evidence.scorer.units
    masked_requests_without = evidence.of_whole_answer.masked_requests_without
    by_part: list[list[Request]] = []
    with_complements: list[Request] = []
    if len(units) <= few:
        by_part.append(masked_requests_without([unit] for unit in range(len(units))))
    for part in answer_parts(evidence.scorer):
        nats = dict.fromkeys(range(len(part.word_tokens)), 1.0)
        with_words = order.with_words_of(part, nats)[:_MAX_EARLY]
        of_part = evidence.for_part(part)
        requests = of_part.exclude_earlier_text()
        for index, unit in enumerate(with_words):
            sets = [[unit], with_words[: index + 1]] if index % 2 else [[unit]]
            for kept in sets:
                requests += [of_part.request_with_only(kept)]
                requests += of_part.masked_requests_without([kept])
        with_complements += _with_complement(of_part, order, part, with_words[:1])
        by_part.append(requests)
    early = dict.fromkeys(filter(None, chain.from_iterable(zip_longest(*by_part))))
    yield from early
    documents = group(context, units, "document")
    capacity = evidence.prefetch.capacity
    room = 2 * (capacity - len(early))  # a row without units has half the tokens
    if 1 < len(documents) <= min(room, capacity):
        yield from masked_requests_without(documents)
        room -= len(documents)
    yield from with_complements[: max(0, room // 2)]


def requests_after_first(losses: PartLosses, order: UnitOrder, unit: int) -> Iterator[Request]:
    """The rows of units that may replace the first one, or are tried with it."""
    part, evidence, count = losses.part, losses.evidence, losses.limits.num_at_once
    with_words = order.with_words_of(part, losses.reliant_words)
    others = [other for other in with_words if other != unit]
    single = [[unit], *([other] for other in others[:count])]
    yield from map(evidence.request_with_only, single)
    for added in (1, count):
        yield evidence.request_with_only([unit, *others[:added]])
    yield from _with_complement(evidence, order, part, [unit])
    yield from evidence.masked_requests_without(single)


def requests_after_several(
    losses: PartLosses,
    order: UnitOrder,
    units: Sequence[int],
    growths: Iterable[Sequence[int]],
    document_search: Iterable[Sequence[Request]],
) -> Iterator[Request]:
    """The rows of the sets that the units may grow to, and those needed if the units are enough.

    If no set is enough, the search for documents begins. If the units are, each is left out.
    """
    evidence = losses.evidence
    for larger in growths:
        yield evidence.request_with_only(larger)
        yield from evidence.masked_requests_without([unit] for unit in larger)
    if evidence.can_mask and order.is_ranked:  # otherwise, other rows follow
        yield from first_requests(document_search)
    fewer = ([other for other in units if other != unit] for unit in units)
    sets = filter(None, [losses.irreplaceable(units), *fewer])
    yield from map(evidence.request_with_only, sets)
    yield from _with_complement(evidence, order, losses.part, units)
    yield from evidence.masked_requests_without([units])


def requests_after_fewer(
    losses: PartLosses, order: UnitOrder, units: Sequence[int], tried: Sequence[int]
) -> Iterator[Request]:
    """The rows of the sets without one of the units that are tried next, in turn.

    Then the rows that are needed if one of these sets is the smallest.
    """
    evidence = losses.evidence
    dropped = [
        {unit, *earlier}
        for index, unit in enumerate(tried)
        for count in range(index + 1)
        for earlier in combinations(tried[:index], count)
    ]
    subsets = [[unit for unit in units if unit not in gone] for gone in dropped]
    yield from map(evidence.request_with_only, filter(None, subsets))
    for smallest in filter(None, [units, *subsets]):
        yield from evidence.masked_requests_without([smallest])
        yield from _with_complement(evidence, order, losses.part, smallest)


def _with_complement(
    evidence: PartEvidence, order: UnitOrder, part: Part, units: Sequence[int]
) -> Iterator[Request]:
    """The row of the units and the unit with most of the words that they lack."""
    missing = order.complement(part, units) if units else None
    if missing is not None:
        yield evidence.request_with_only([*units, missing])
