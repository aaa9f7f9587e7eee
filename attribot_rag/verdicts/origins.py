"""The origins of a sentence in earlier sentences and turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np
from rapidfuzz import fuzz

from attribot_rag.context import Ablation
from attribot_rag.methods.base import Carriers, Part, total
from attribot_rag.methods.evidence import Evidence
from attribot_rag.methods.limits import Limits
from attribot_rag.methods.order import Order
from attribot_rag.methods.sufficiency import carriers_of
from attribot_rag.scoring import Scorer
from attribot_rag.scoring.engine import Matrix
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
        scorer: Scorer,
        sentences: Sequence[AnswerSentence],
        limits: Limits = _DEFAULTS,
        order: Order | None = None,
    ) -> None:
        self._order = order
        self._scorer = scorer
        self._sentences = sentences
        self._limits = limits
        self._bare = scorer.rebased_without(scorer.context.whole)
        self._after_all = _finite(scorer.score([scorer.context.whole]).ablated[0])
        self._without_turns: Matrix | None = None
        self._read_after = cache(partial(_read_after, self._bare))  # it may say the same again
        if self._bare is not None and self._bare.context.conversation:
            turns = Ablation(characters=self._bare.context.conversation)
            self._without_turns = _read(self._bare.rebased_without(turns))

    def largest(self, index: int, reliance: float) -> Origin | None:
        """The origin with the largest effect, None if that is too small.

        It is at least the reliance on the context.
        """
        enough = []
        for origin in self.find(index):
            limits = self._limits
            least = limits.min_turn if origin.sentence is None else limits.min_follows
            if origin.effect >= max(least, reliance):
                enough.append(origin)
        return max(enough, key=lambda origin: origin.effect, default=None)

    def carriers_without_turns(self, part: Part) -> Carriers:
        """The sources that could carry a sentence in place of the conversation.

        They are looked for without the conversation.
        """
        limits, evidence = self._limits, self._evidence_without_turns
        if evidence is None or self._after_all is None or self._without_turns is None:
            return Carriers()
        turns = tuple((self._after_all - self._without_turns).tolist())
        order = self._order or Order(evidence.scorer)
        (carried,) = carriers_of([part], evidence, order, limits)
        alone = evidence.only(carried.members)
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
        turns = Ablation(characters=self._scorer.context.conversation)
        scorer = self._scorer.rebased_without(turns)
        if scorer is None or scorer.units != self._scorer.units:
            return None
        reliance = scorer.score([scorer.context.whole]).changes[0]
        if reliance is None:
            return None
        return Evidence(scorer, reliance)

    def find(self, index: int) -> Iterator[Origin]:
        """Find the origins of a sentence: the conversation, and the most influential sentence.

        Of the last hundred earlier sentences. None of them beyond the budget.
        """
        tokens = self._sentences[index].tokens
        if self._bare is None or self._after_all is None:
            return
        after_all = self._sum(self._after_all, tokens)
        if self._without_turns is not None:
            yield Origin(None, after_all - self._sum(self._without_turns, tokens))
        # The first word would be another token right after the prompt, so it does not count.
        tokens = tokens[1:] or tokens
        after_all = self._sum(self._after_all, tokens)
        first = max(0, index - _MAX_EARLIER)
        before = enumerate(self._sentences[first:index], first)
        earlier = [i for i, sentence in before if sentence.tokens and not sentence.trivial]
        alone = self._after([], index, tokens) if earlier else None
        if alone is not None:
            source = self._source(earlier, index, tokens, alone)
            if source is not None and self._gives_numbers(index, earlier):
                yield Origin(source, after_all - alone)

    def _gives_numbers(self, index: int, earlier: Sequence[int]) -> bool:
        """Whether earlier text explains the sentence's unlikely numbers.

        A number that was not said has to be likely then. Of the numbers that are unlikely without
        earlier text, at least one loses half of its surprise with it.
        """
        assert self._after_all is not None
        least, share = self._limits.min_figure, self._limits.kept_word
        said = {number for i in earlier for number in numbers_in(self._sentences[i].text)}
        explained = []
        for figure in self._sentences[index].figures:
            after, alone = self._sum(self._after_all, figure), self._after([], index, figure)
            if -after >= least and not numbers_in(self._text(figure)) <= said:
                return False
            if alone is not None and -alone >= least:
                explained.append(after - alone >= share * -alone)
        return any(explained) or not explained

    def _text(self, tokens: Sequence[int]) -> str:
        """The response's text at neighbouring tokens."""
        response = self._scorer.response
        return response.text[response.spans[tokens[0]][0] : response.spans[tokens[-1]][1]]

    def _source(
        self, earlier: Sequence[int], index: int, tokens: Sequence[int], alone: float
    ) -> int | None:
        """The first of the likely earlier sentences with nearly the largest gain for a sentence.

        Likely are the most similar earlier sentences and the last. None beyond the budget.
        """
        if len(earlier) == 1:
            return earlier[0]
        text = self._sentences[index].text
        alike = sorted(earlier, key=lambda i: -fuzz.token_set_ratio(self._sentences[i].text, text))
        likely = sorted({*alike[:_NUM_LIKELY], earlier[-1]})
        scored = ((i, self._after([i], index, tokens)) for i in likely)
        gains = {i: after - alone for i, after in scored if after is not None}
        if len(gains) < len(likely):
            return None
        most = max(gains.values())
        return next((i for i, gain in gains.items() if gain >= _NEARLY * most), earlier[-1])

    def _after(self, earlier: Sequence[int], index: int, tokens: Sequence[int]) -> float | None:
        """The log-likelihood of some tokens of a sentence right after these earlier sentences."""
        assert self._bare is not None
        response_ids = self._bare.generation.response_ids
        own = self._span(index)
        preceding = tuple(response_ids[i] for j in earlier for i in self._span(j))
        own_ids = tuple(response_ids[i] for i in own)
        read = self._read_after(own_ids, preceding)
        return None if read is None else self._sum(read, [i - own.start for i in tokens])

    def _span(self, index: int) -> range:
        tokens = self._sentences[index].tokens
        return range(tokens[0], tokens[-1] + 1)

    @staticmethod
    def _sum(read: Matrix, tokens: Sequence[int]) -> float:
        return float(read[list(tokens)].sum())


def _read_after(bare: Scorer | None, own_ids: Ids, preceding: Ids) -> Matrix | None:
    """The log-likelihoods of these tokens right after the preceding ones of the answer."""
    return None if bare is None else _read(bare.answering(own_ids, preceding=preceding))


def _read(scorer: Scorer | None) -> Matrix | None:
    """The log-likelihood of each token of a scorer's response, None beyond the budget."""
    return None if scorer is None else _finite(scorer.score([]).full)


def _finite(row: Matrix) -> Matrix | None:
    return row if np.isfinite(row).all() else None
