"""Other origins of a sentence than documents: earlier sentences, turns, the prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from rapidfuzz import fuzz

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Ablation, Context
from attribot_rag.context.pieces import PromptPart, PromptPiece
from attribot_rag.context.text import (
    is_unspaced,
    numbers,
    same_word,
    words_and_numbers,
)
from attribot_rag.methods.base import Part, SourceSet, TokenScores, parts_of, total
from attribot_rag.methods.evidence import Evidence, Search
from attribot_rag.methods.limits import Limits
from attribot_rag.methods.necessity import UnitOrder
from attribot_rag.methods.search import find_sources
from attribot_rag.result import ResponseText
from attribot_rag.scoring.row import Request
from attribot_rag.verdicts.decision import EarlierOrigin, PromptOrigin
from attribot_rag.verdicts.sentences import AnswerSentence

TokenIds = tuple[int, ...]

_UNLOCATED_SHARE = 0.4
"""The least share of a sentence's words in the prompt if it may come from an unlocated document."""


class Origins:
    """Scores the answer's sentences after a prompt without its documents.

    With the documents, the model could read there what an earlier sentence repeats. The answer is
    scored once, and again without the conversation. Then each sentence is scored alone, and after
    each one of a few earlier sentences. So the tokens grow with the answer's length, not with its
    square.
    """

    def __init__(
        self,
        evidence: Evidence,
        sentences: Sequence[AnswerSentence],
        parts: Mapping[int, Part],
        limits: Limits,
        order: UnitOrder,
    ) -> None:
        self._order = order
        self._parts = parts
        self._evidence = evidence
        self._scorer = evidence.scorer
        self._sentences = sentences
        self._limits = limits
        self._kept: dict[tuple[TokenIds, TokenIds], TokenIds] = {}
        context = evidence.scorer.context
        self._turns = Ablation(characters=context.conversation)
        self._bare = Request(context.without_documents)
        self._without_turns = Request(context.without_documents | self._turns)

    def largest(self, index: int, reliance: float) -> Search[EarlierOrigin | None]:
        """The origin with the largest effect; None if that is too small.

        The effect must be at least the reliance on the documents.
        """
        origins = yield from self.find(index, reliance)
        return max(origins, key=lambda origin: origin.effect, default=None)

    def sources_without_turns(self, part: Part) -> SourceSet:
        """The sources that could carry a sentence in place of the conversation.

        They are searched without the conversation.
        """
        limits, evidence = self._limits, self._evidence_without_turns
        bare, without = map(self._scorer.scored.get, (self._bare, self._without_turns))
        if evidence is None or bare is None or without is None:
            return SourceSet()
        pairs = zip(bare.log_likelihoods, without.log_likelihoods, strict=True)
        turns = tuple(after - before for after, before in pairs)
        (found,) = find_sources([part], evidence, self._order, limits)
        alone = evidence.for_part(part).loss_with_only(found.members)
        if alone is None or not found.sufficient:
            return SourceSet()
        kept = tuple(rely - lost for rely, lost in zip(evidence.reliance, alone, strict=True))
        worth = total(turns, part.tokens)
        if total(kept, part.tokens) < max(limits.min_effect, limits.needed_share * worth):
            return SourceSet()
        for word in part.word_tokens:
            worth = total(turns, word)
            if worth >= limits.min_word and total(kept, word) < limits.kept_word * worth:
                return SourceSet()
        return found

    @cached_property
    def _evidence_without_turns(self) -> Evidence | None:
        scorer = self._scorer.rebased_without(self._turns)
        if scorer is None or scorer.units != self._scorer.units:
            return None
        reliance = scorer.score([scorer.context.without_documents]).changes[0]
        if reliance is None:
            return None
        return Evidence(scorer, reliance)

    def find(self, index: int, reliance: float) -> Search[list[EarlierOrigin]]:
        """Find the origins of a sentence: the conversation, and the most influential sentence.

        Their effect must be large enough, and at least the reliance. Only the last hundred earlier
        sentences are tried. Empty beyond the budget.
        """
        limits, tokens = self._limits, self._sentences[index].tokens
        earlier, alone = self._earlier(index), self._alone([], index)
        has_turns = bool(self._turns.characters)
        rows = [self._bare, *([self._without_turns] if has_turns else [])]
        if earlier:
            rows.append(alone)
        if self._evidence.prefetch.capacity and len(earlier) > 1:
            rows += self._after_each(earlier, index).values()
        yield rows
        origins = []
        effect = self._effect(self._without_turns, index, tokens) if has_turns else None
        if effect is not None and effect >= max(limits.min_turn, reliance):
            origins.append(EarlierOrigin(None, effect))
        # Right after the prompt, the first word would be another token, so it does not count.
        tokens = tokens[1:] or tokens
        effect = self._effect(alone, index, tokens) if earlier else None
        if effect is not None and effect >= max(limits.min_follows, reliance):
            source = yield from self._source(earlier, index, tokens)
            is_given = self._gives_numbers(index, earlier) and self._gives_words(index, earlier)
            if source is not None and is_given:
                origins.append(EarlierOrigin(source, effect))
        return origins

    def _earlier(self, index: int) -> list[int]:
        """The sentences that a sentence may follow from."""
        first = max(0, index - self._limits.max_earlier)
        before = enumerate(self._sentences[first:index], first)
        return [i for i, sentence in before if sentence.tokens and not sentence.is_trivial]

    def _gives_numbers(self, index: int, earlier: Sequence[int]) -> bool:
        """Whether earlier text explains the sentence's unlikely numbers.

        A number that was not said must then be likely. Of the numbers that are unlikely without
        earlier text, at least one loses half of its surprise with it.
        """
        least, share = self._limits.min_surprise, self._limits.kept_word
        before = {each[0] for i in earlier for each in numbers(self._sentences[i].text)}
        explained = []
        for figure in self._sentences[index].figures:
            after = self._log_likelihood(self._bare, index, figure)
            alone = self._log_likelihood(self._alone([], index), index, figure)
            assert after is not None and alone is not None
            if -after >= least and not {each[0] for each in numbers(self._text(figure))} <= before:
                return False
            if -alone >= least:
                explained.append(after - alone >= share * -alone)
        return any(explained) or not explained

    def _gives_words(self, index: int, earlier: Sequence[int]) -> bool:
        """Whether earlier text explains the sentence's new content words, not just a name.

        A word is new if neither the question nor an earlier sentence has it. The surprise of words
        that stay unlikely after the earlier sentences, and are not much more likely than without
        them, is added up. The first word may begin in any way ("That is, ..."). Words of scripts
        without spaces do not count, because they are not separated.
        """
        part = self._parts.get(index, Part())
        texts = [self._sentences[i].text.casefold() for i in earlier]
        before = [word[0] for text in texts for word in words_and_numbers(text)]
        first = self._sentences[index].tokens[:1]
        unexplained = 0.0
        for tokens, word in zip(part.word_tokens, part.words, strict=True):
            is_repeated = any(same_word(word, other) for other in before)
            if is_repeated or is_unspaced(word) or tokens[:1] == first:
                continue
            after = self._log_likelihood(self._bare, index, tokens)
            alone = self._log_likelihood(self._alone([], index), index, tokens)
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
    ) -> Search[int | None]:
        """The first of the probable earlier sentences with nearly the largest gain for a sentence.

        None beyond the budget.
        """
        if len(earlier) == 1:
            return earlier[0]
        rows = self._after_each(earlier, index)
        yield [*rows.values()]
        alone = self._log_likelihood(self._alone([], index), index, tokens)
        gains = {}
        for i, row in rows.items():
            after = self._log_likelihood(row, index, tokens)
            if after is None or alone is None:
                return None
            gains[i] = after - alone
        most = max(gains.values())
        least = self._limits.source_share * most
        return next((i for i, gain in gains.items() if gain >= least), earlier[-1])

    def _after_each(self, earlier: Sequence[int], index: int) -> dict[int, Request]:
        """The rows of a sentence after single earlier ones: the most similar ones, and the last."""
        text = self._sentences[index].text
        alike = sorted(earlier, key=lambda i: -fuzz.token_set_ratio(self._sentences[i].text, text))
        probable = sorted({*alike[: self._limits.num_at_once], earlier[-1]})
        return {i: self._alone([i], index) for i in probable}

    def _alone(self, earlier: Sequence[int], index: int) -> Request:
        """The row of a sentence right after these earlier ones, without documents.

        Equal sentences share one row.
        """
        own, before = self._span(index), [*chain.from_iterable(map(self._span, earlier))]
        ids = self._scorer.generation.response_ids
        key = tuple(ids[i] for i in before), tuple(ids[i] for i in own)
        kept = self._kept.setdefault(key, (*before, *own))
        return Request(self._bare.ablation | Ablation(kept_response=kept))

    def _span(self, index: int) -> range:
        tokens = self._sentences[index].tokens
        return range(tokens[0], tokens[-1] + 1)

    def _effect(self, without: Request, index: int, tokens: Sequence[int]) -> float | None:
        """How much some tokens of a sentence lose in a row, against the one without documents."""
        after, other = (self._log_likelihood(row, index, tokens) for row in (self._bare, without))
        return None if after is None or other is None else after - other

    def _log_likelihood(self, request: Request, index: int, tokens: Sequence[int]) -> float | None:
        """The log-likelihood of some tokens of a sentence in a row; None if it was not scored."""
        if (row := self._scorer.scored.get(request)) is None:
            return None
        kept, own = request.ablation.kept_response, self._span(index)
        moved = 0 if kept is None else kept[-len(own)] - own.start
        return total(row.log_likelihoods, [token + moved for token in tokens])


@dataclass(frozen=True)
class ContentWord:
    """A content word of a sentence that the question lacks, with its log-likelihoods.

    `after` and `without`: after the prompt without documents, with and without the pieces that have
    the word.
    """

    after: float
    without: float
    is_in_statements: bool
    is_figure: bool = False
    is_name: bool = False

    @property
    def gain(self) -> float:
        """How much the statements are worth to it, in nats."""
        return self.after - self.without

    @property
    def unlikely_by(self) -> float:
        """The negative log-likelihood of the word, with or without the statements, in nats."""
        return -min(self.after, self.without)


class PromptOrigins:
    """Finds the part of the prompt that states a sentence.

    Documents are left out, as for other origins. A question makes any answer about its topic
    likely, so the question and its words do not count.
    """

    def __init__(self, evidence: Evidence, response: ResponseText, limits: Limits) -> None:
        self._prefetch = evidence.prefetch
        self._scorer = evidence.scorer
        self._prompt = evidence.scorer.context.pieces
        self._response = response
        self._limits = limits

    def find(self, tokens: Sequence[int], reliance: float) -> Search[PromptOrigin]:
        """Find the part that states the sentence with these tokens; none beyond the budget.

        Its effect is at least the reliance on the documents.
        """
        content_words = self._part(tokens).words
        statements = [
            piece for piece in self._prompt.statements if any(map(piece.holds, content_words))
        ]
        stated = PromptOrigin(may_be=bool(statements))
        if not statements:
            return stated
        rows = self._without_each(statements)
        bare, all_gone = self._without([]), self._without(statements)
        yield [bare, all_gone, *(rows.values() if self._prefetch.capacity else ())]
        scored = self._scorer.scored
        if bare not in scored or all_gone not in scored:
            return stated
        after, without = scored[bare].log_likelihoods, scored[all_gone].log_likelihoods
        effect = total(after, tokens) - total(without, tokens)
        words = list(self._words(tokens, statements, after, without))
        if effect < reliance or not is_stated(words, self._limits):
            return stated
        yield [*rows.values()]
        effects = {}
        for part, request in rows.items():
            row = scored.get(request)
            lost = total(after, tokens) - total(row.log_likelihoods, tokens) if row else 0.0
            effects[part] = lost
        part = max(effects, key=lambda name: effects[name])
        return PromptOrigin(part, effect)

    def _words(
        self,
        tokens: Sequence[int],
        statements: Sequence[PromptPiece],
        after: TokenScores,
        without: TokenScores,
    ) -> Iterator[ContentWord]:
        part, spans = self._part(tokens), self._response.token_spans
        for text, own in zip(part.words, part.word_tokens, strict=True):
            written = self._response.text[spans[own[0]][0] : spans[own[-1]][1]].strip()
            yield ContentWord(
                total(after, own),
                total(without, own),
                is_in_statements=any(piece.holds(text) for piece in statements),
                is_figure=text[0].isdigit(),
                is_name=own[0] != tokens[0] and written[:1].isupper(),
            )

    def _part(self, tokens: Sequence[int]) -> Part:
        """The sentence with its content words."""
        response = self._response
        (part,) = parts_of([tokens], response.text, response.tokens_in, self._prompt.question)
        return part

    def _without(self, pieces: Sequence[PromptPiece]) -> Request:
        """The row without documents and these pieces."""
        removed = Ablation(characters=tuple(piece.span for piece in pieces))
        return Request(self._scorer.context.without_documents | removed)

    def _without_each(self, pieces: Sequence[PromptPiece]) -> dict[PromptPart, Request]:
        """The rows without the pieces of each part."""
        parts = dict.fromkeys(piece.part for piece in pieces)
        return {part: self._without([p for p in pieces if p.part == part]) for part in parts}


def may_rest_on_unlocated(context: Context, sentence: str) -> bool:
    """Whether an unlocated or partly located document may have caused a sentence.

    Text of a document that was located in part, or was not looked for, may stand anywhere. A
    document of which nothing was located was most likely dropped, by a reranker for example. If it
    was put in other words instead, the last message or the instructions state what the sentence
    says.
    """
    if context.partly_located or not context.absent:
        return bool(context.partly_located)
    return context.pieces.state(sentence, _UNLOCATED_SHARE)


def is_stated(words: Sequence[ContentWord], limits: Limits) -> bool:
    """Whether the statements explain the sentence's informative words.

    A word is explained if the statements have it and remove half of its surprise. At least as many
    words must be explained as the statements lack. No unlikely number may be unexplained, and no
    name or number may be missing. The statements must be worth as much as a turn to the words that
    they have, and explain most of the surprise of all words.
    """
    unlikely = [word for word in words if word.unlikely_by >= limits.min_surprise]
    explained = [
        word
        for word in unlikely
        if word.is_in_statements and word.gain >= limits.kept_word * -word.without
    ]
    if any(word.is_figure and word not in explained for word in unlikely):
        return False
    foreign = [word for word in words if not word.is_in_statements]
    if any(word.is_name or word.is_figure for word in foreign) or len(foreign) > len(explained):
        return False
    worth = sum(word.gain for word in unlikely if word.is_in_statements)
    needed = limits.stated_share * sum(word.unlikely_by for word in unlikely)
    return worth >= max(limits.min_turn, needed)
