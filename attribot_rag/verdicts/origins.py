"""The origins of a sentence in earlier sentences and turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from rapidfuzz import fuzz

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Ablation
from attribot_rag.context.text import UNSPACED, same_word
from attribot_rag.methods.base import Carriers, Part, total, words_in
from attribot_rag.methods.evidence import Evidence, Steps
from attribot_rag.methods.limits import Limits
from attribot_rag.methods.order import Order
from attribot_rag.methods.sufficiency import carriers_of
from attribot_rag.scoring import Request
from attribot_rag.verdicts.sentences import AnswerSentence, numbers_in

_DEFAULTS = Limits()
_NEARLY = 0.8
_NUM_LIKELY = 3
_MAX_EARLIER = 100

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Origin:
    """The index of the earlier sentence that matters most, or None for the conversation.

    `effect` is what removing all earlier sentences, or the conversation, costs, in nats.
    """

    sentence: int | None
    effect: float


class Origins:
    """Scores the answer's sentences after a prompt without its documents.

    With the documents, the model could read there what an earlier sentence repeats. The answer is
    scored once, and once more without the conversation; then each sentence alone, and after each of
    a few earlier sentences. So the tokens grow with the answer's length, not with its square.
    """

    def __init__(
        self,
        evidence: Evidence,
        sentences: Sequence[AnswerSentence],
        parts: Mapping[int, Part],
        limits: Limits = _DEFAULTS,
        order: Order | None = None,
    ) -> None:
        self._order = order
        self._parts = parts
        self._evidence = evidence
        self._scorer = evidence.scorer
        self._sentences = sentences
        self._limits = limits
        self._said: dict[tuple[Ids, Ids], Ids] = {}
        context = evidence.scorer.context
        self._turns = Ablation(characters=context.conversation)
        self._bare: Request = context.whole, None
        self._without_turns: Request = context.whole | self._turns, None

    def largest(self, index: int, reliance: float) -> Steps[Origin | None]:
        """The origin with the largest effect, None if that is too small.

        It is at least the reliance on the context.
        """
        origins = yield from self.find(index, reliance)
        return max(origins, key=lambda origin: origin.effect, default=None)

    def carriers_without_turns(self, part: Part) -> Carriers:
        """The sources that could carry a sentence in place of the conversation.

        They are looked for without the conversation.
        """
        limits, evidence = self._limits, self._evidence_without_turns
        bare, without = map(self._scorer.likely, (self._bare, self._without_turns))
        if evidence is None or bare is None or without is None:
            return Carriers()
        turns = tuple(after - before for after, before in zip(bare, without, strict=True))
        order = self._order or Order(evidence.scorer)
        (carried,) = carriers_of([part], evidence, order, limits)
        alone = evidence.of(part).only(carried.members)
        if alone is None or not carried.sufficient:
            return Carriers()
        kept = tuple(rely - lost for rely, lost in zip(evidence.reliance, alone, strict=True))
        worth = total(turns, part.tokens)
        if total(kept, part.tokens) < max(limits.min_effect, limits.needed_share * worth):
            return Carriers()
        for word in part.words:
            worth = total(turns, word)
            if worth >= limits.min_word and total(kept, word) < limits.kept_word * worth:
                return Carriers()
        return carried

    @cached_property
    def _evidence_without_turns(self) -> Evidence | None:
        scorer = self._scorer.rebased_without(self._turns)
        if scorer is None or scorer.units != self._scorer.units:
            return None
        reliance = scorer.score([scorer.context.whole]).changes[0]
        if reliance is None:
            return None
        return Evidence(scorer, reliance)

    def find(self, index: int, reliance: float) -> Steps[list[Origin]]:
        """Find the origins of a sentence: the conversation, and the most influential sentence.

        Those with enough effect, at least the reliance; of the last hundred earlier sentences. None
        of them beyond the budget.
        """
        limits, tokens = self._limits, self._sentences[index].tokens
        earlier, alone = self._earlier(index), self._saying([], index)
        has_turns = bool(self._turns.characters)
        rows = [self._bare, *([self._without_turns] if has_turns else [])]
        rows += [alone] if earlier else []
        if self._scorer.num_spare and len(earlier) > 1:
            rows += self._after_each(earlier, index).values()
        yield rows
        origins = []
        effect = self._effect(self._without_turns, index, tokens) if has_turns else None
        if effect is not None and effect >= max(limits.min_turn, reliance):
            origins.append(Origin(None, effect))
        # The first word would be another token right after the prompt, so it does not count.
        tokens = tokens[1:] or tokens
        effect = self._effect(alone, index, tokens) if earlier else None
        if effect is not None and effect >= max(limits.min_follows, reliance):
            source = yield from self._source(earlier, index, tokens)
            is_given = self._gives_numbers(index, earlier) and self._gives_words(index, earlier)
            if source is not None and is_given:
                origins.append(Origin(source, effect))
        return origins

    def _earlier(self, index: int) -> list[int]:
        """The sentences that a sentence may follow from."""
        first = max(0, index - _MAX_EARLIER)
        before = enumerate(self._sentences[first:index], first)
        return [i for i, sentence in before if sentence.tokens and not sentence.trivial]

    def _gives_numbers(self, index: int, earlier: Sequence[int]) -> bool:
        """Whether earlier text explains the sentence's unlikely numbers.

        A number that was not said has to be likely then. Of the numbers that are unlikely without
        earlier text, at least one loses half of its surprise with it.
        """
        least, share = self._limits.min_figure, self._limits.kept_word
        said = {number for i in earlier for number in numbers_in(self._sentences[i].text)}
        explained = []
        for figure in self._sentences[index].figures:
            after = self._likely(self._bare, index, figure)
            alone = self._likely(self._saying([], index), index, figure)
            assert after is not None and alone is not None
            if -after >= least and not numbers_in(self._text(figure)) <= said:
                return False
            if -alone >= least:
                explained.append(after - alone >= share * -alone)
        return any(explained) or not explained

    def _gives_words(self, index: int, earlier: Sequence[int]) -> bool:
        """Whether earlier text explains the sentence's new content words, not a name alone.

        A word is new if neither the question nor an earlier sentence has it. What stays unlikely
        after the earlier sentences, and is not much likelier than without them, is added up. The
        first word may begin in any way ("That is, ..."). Words of scripts without spaces are not
        told apart, and do not count.
        """
        part = self._parts.get(index, Part())
        said = [word.casefold() for i in earlier for word in words_in(self._sentences[i].text)]
        first = self._sentences[index].tokens[:1]
        unexplained = 0.0
        for tokens, word in zip(part.words, part.texts, strict=True):
            is_said = any(same_word(word, other) for other in said)
            if is_said or word[0] >= UNSPACED or tokens[:1] == first:
                continue
            after = self._likely(self._bare, index, tokens)
            alone = self._likely(self._saying([], index), index, tokens)
            assert after is not None and alone is not None
            if after - alone < self._limits.kept_word * -alone:
                unexplained -= after
        return unexplained < self._limits.max_unexplained

    def _text(self, tokens: Sequence[int]) -> str:
        """The response's text at neighbouring tokens."""
        response = self._scorer.response
        return response.text[response.spans[tokens[0]][0] : response.spans[tokens[-1]][1]]

    def _source(
        self, earlier: Sequence[int], index: int, tokens: Sequence[int]
    ) -> Steps[int | None]:
        """The first of the likely earlier sentences with nearly the largest gain for a sentence.

        None beyond the budget.
        """
        if len(earlier) == 1:
            return earlier[0]
        rows = self._after_each(earlier, index)
        yield [*rows.values()]
        alone = self._likely(self._saying([], index), index, tokens)
        gains = {}
        for i, row in rows.items():
            after = self._likely(row, index, tokens)
            if after is None or alone is None:
                return None
            gains[i] = after - alone
        most = max(gains.values())
        return next((i for i, gain in gains.items() if gain >= _NEARLY * most), earlier[-1])

    def _after_each(self, earlier: Sequence[int], index: int) -> dict[int, Request]:
        """The rows of a sentence after each of the most similar earlier ones, and the last."""
        text = self._sentences[index].text
        alike = sorted(earlier, key=lambda i: -fuzz.token_set_ratio(self._sentences[i].text, text))
        likely = sorted({*alike[:_NUM_LIKELY], earlier[-1]})
        return {i: self._saying([i], index) for i in likely}

    def _saying(self, earlier: Sequence[int], index: int) -> Request:
        """The row of a sentence right after these earlier ones, without documents.

        Of equal sentences it is the same row.
        """
        own, before = self._span(index), [*chain.from_iterable(map(self._span, earlier))]
        ids = self._scorer.generation.response_ids
        key = tuple(ids[i] for i in before), tuple(ids[i] for i in own)
        said = self._said.setdefault(key, (*before, *own))
        return self._bare[0] | Ablation(said=said), None

    def _span(self, index: int) -> range:
        tokens = self._sentences[index].tokens
        return range(tokens[0], tokens[-1] + 1)

    def _effect(self, without: Request, index: int, tokens: Sequence[int]) -> float | None:
        """What some tokens of a sentence lose in a row, beside that without documents."""
        after, other = (self._likely(row, index, tokens) for row in (self._bare, without))
        return None if after is None or other is None else after - other

    def _likely(self, request: Request, index: int, tokens: Sequence[int]) -> float | None:
        """The log-likelihood of some tokens of a sentence in a row, None if it was not scored."""
        row, said, own = self._scorer.likely(request), request[0].said, self._span(index)
        moved = 0 if said is None else said[-len(own)] - own.start
        return None if row is None else total(row, [token + moved for token in tokens])
