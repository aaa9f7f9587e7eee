"""A verdict for each sentence of an answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, repeat

from attribot_rag.attribution import Marker, ResponseText, Verdict
from attribot_rag.attribution.verdict import Reason, Relation
from attribot_rag.context import Ablation
from attribot_rag.methods import Scores
from attribot_rag.methods.auto import rankings
from attribot_rag.methods.base import TokenScores
from attribot_rag.methods.sufficiency import Carriers, Part, Sufficiency, parts_of
from attribot_rag.scoring import Scorer
from attribot_rag.verdicts.absent import may_rest_on_unlocated
from attribot_rag.verdicts.markers import MarkerAudit, numbered_documents, written_markers
from attribot_rag.verdicts.options import VerdictOptions
from attribot_rag.verdicts.origins import Origin, Origins
from attribot_rag.verdicts.sentences import AnswerSentence, sentences_of
from attribot_rag.verdicts.thinking import thinking_of

_CONDITIONED = "The answer was conditioned on the model's own reasoning before it."


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdicts on an answer's sentences, the audit of its markers, and notes for the reader.

    `scores` are the method's, with those that judging measured.
    """

    scores: Scores
    verdicts: tuple[Verdict, ...] = ()
    markers: tuple[Marker, ...] = ()
    notes: tuple[str, ...] = ()


def judge(
    scorer: Scorer,
    scores: Scores,
    response: ResponseText,
    options: VerdictOptions,
    settled: Callable[[Judgement], None] | None = None,
) -> Judgement:
    """Judge each sentence of a response, and the citations the model wrote in it.

    Scores what the method did not: the prompt without the whole context, or with only a few
    sources, and earlier sentences and turns where no source carries a sentence. With `settled`,
    sentences are judged one after another, and each judgement but the last is told; what it has not
    judged yet is open and `pending`.
    """
    meter = scorer.session.meter
    meter.reserve(max(options.min_tokens, round(options.token_share * meter.tokens)))
    if scores.context_reliance is None:
        scores = replace(scores, context_reliance=scorer.score([scorer.context.whole]).changes[0])
    numbers = numbered_documents(scorer.context)
    markers = written_markers(response.text, numbers, scorer.context.documents)
    thinking = thinking_of(
        response, scorer.generation, scorer.language_model, options.thinking_tags
    )
    language = scorer.context.answer_language(response.text)
    sentences = sentences_of(response, markers, thinking, language)
    has_reasoning = len({sentence.thinking for sentence in sentences}) > 1
    judged = _Judge(sentences, scorer, scores, response, options)
    notes = (_CONDITIONED,) if has_reasoning else ()
    verdicts: tuple[Verdict, ...] = ()
    for verdict in judged.verdicts(in_order=settled is not None):
        verdicts = (*verdicts, verdict)
        rest = sentences[len(verdicts) :]
        if settled is not None and any(sentence.is_judged for sentence in rest):
            pending = (
                Verdict(start=one.start, end=one.end, kind="open", reason="pending") for one in rest
            )
            so_far = (*verdicts, *pending)
            settled(Judgement(scores=judged.search.refine(scores), verdicts=so_far, notes=notes))
    audit = MarkerAudit(markers, scorer.context, judged.search, options.min_effect)
    return Judgement(
        verdicts=verdicts,
        markers=tuple(_markers(audit, sentences, verdicts)),
        notes=notes,
        scores=judged.search.refine(scores),
    )


def _markers(
    audit: MarkerAudit, sentences: Sequence[AnswerSentence], verdicts: Sequence[Verdict]
) -> Iterator[Marker]:
    """All markers of the response, each audited by what its sentence cites.

    A sentence that follows from another has the other's sources; "Sources: [1]" speaks of the
    whole answer.
    """
    told = (one.tokens for one in sentences if not (one.trivial or one.thinking))
    whole = tuple(chain.from_iterable(told))
    cited = frozenset(chain.from_iterable(verdict.source_ids for verdict in verdicts))
    own: list[Collection[int]] = []
    for sentence, verdict in zip(sentences, verdicts, strict=True):
        own.append(verdict.source_ids if verdict.follows is None else own[verdict.follows])
        of = (whole, cited) if sentence.trivial else (sentence.tokens, own[-1])
        yield from audit.markers_in(sentence.start, sentence.end, *of)


class _Judge:
    """Judges each sentence of an answer by what carries it, and by the sentences before it."""

    def __init__(
        self,
        sentences: Sequence[AnswerSentence],
        scorer: Scorer,
        scores: Scores,
        response: ResponseText,
        options: VerdictOptions,
    ) -> None:
        self._sentences = sentences
        self._scorer = scorer
        self._scores = scores
        self._response = response
        self._options = options
        self._reliance = scores.context_reliance
        self.search = Sufficiency(scorer, self._reliance or (), options)

    def verdicts(self, *, in_order: bool) -> Iterator[Verdict]:
        """The verdict on each sentence, which may follow from an earlier sentence.

        `in_order`, a sentence is judged before rows of the next sentence are scored.
        """
        judged = [sentence.tokens for sentence in self._sentences if sentence.is_judged]
        parts = parts_of(
            judged, self._response.text, self._response.tokens_in, self._scorer.context.asked
        )
        carriers: Iterator[Carriers] = repeat(Carriers())
        if self._reliance is not None:
            carriers = self.search.carriers(parts, rankings(self._scores, parts), in_order=in_order)
        of_judged = zip(parts, carriers, strict=False)
        meter, is_searched = self._scorer.session.meter, self._scorer.session.is_searched
        for index, sentence in enumerate(self._sentences):
            carried = (Part(), Carriers())
            if sentence.is_judged and is_searched:  # as methods do that search by themselves
                with meter.unlimited():
                    carried = next(of_judged)
            elif sentence.is_judged:
                carried = next(of_judged)
            yield self._verdict(index, *carried)

    def _is_invented(self, sentence: AnswerSentence) -> bool:
        """Whether the model expects its numbers neither with the context nor without.

        An invented price, for example, whose currency stands everywhere.
        """
        least = self._options.min_figure
        assert self._reliance is not None
        unexpected = []
        for figure in sentence.figures:
            worth = sum(self._reliance[i] for i in figure)
            known = sum((self._scores.token_log_likelihoods or ())[i] for i in figure)
            if worth - known >= least:
                unexpected.append(worth < least and -known >= least)
        return bool(unexpected) and all(unexpected)

    @cached_property
    def _fragment(self) -> int | None:
        """Index of the sentence in which the answer was cut: what it would say is not known."""
        scorer = self._scorer
        if not scorer.generation.unfinished or scorer.response.text.endswith("\n"):
            return None
        told = (index for index, sentence in enumerate(self._sentences) if sentence.tokens)
        last = max(told, default=None)
        return None if last is None or self._sentences[last].ended else last

    @cached_property
    def _origins(self) -> Origins:
        return Origins(self._scorer, self._sentences)

    def _verdict(self, index: int, part: Part, carried: Carriers) -> Verdict:
        sentence, options = self._sentences[index], self._options
        unjudged = Verdict(start=sentence.start, end=sentence.end, kind="open")
        if sentence.thinking:
            return replace(unjudged, kind="reasoning")
        if not sentence.is_judged:
            return replace(unjudged, kind="trivial")
        if self._reliance is None:
            return replace(unjudged, reason=self._ended_by)
        reliance = sum(self._reliance[i] for i in sentence.tokens)
        plain = replace(unjudged, reliance=reliance)
        cited = self._cited(plain, part, carried)
        noise = (self._scorer.language_model.backend.noise or 0.0) * math.sqrt(len(sentence.tokens))
        least = max(options.min_reliance, options.noise_factor * noise)
        is_invented = self._is_invented(sentence)
        if cited is None and index == self._fragment:
            return replace(plain, reason="cut")
        is_needed = cited is not None and self._is_needed(cited, part)
        if not is_needed:
            origin = self._origin(index, reliance)
            if origin is not None:
                return self._from(origin, plain, part)
        if cited is not None:
            is_single = cited.kind == "grounded"
            relies = self._most_reliant(part)
            is_needed &= cited.relation != "together" and (is_single or relies >= options.min_word)
            is_large = reliance >= (least if is_single or relies >= least else 2 * least)
            is_large &= carried.sufficient and relies >= options.min_word
            is_large &= cited.relation != "together" or self._is_fair(cited.effect, reliance)
            if (is_needed or is_large) and not (is_invented and not (is_needed and is_single)):
                return cited
        if reliance < least or is_invented:
            if may_rest_on_unlocated(self._scorer.context, sentence.text):
                return replace(plain, reason="not_located")
            if self._scorer.session.meter.exhausted and self._may_have_origins(index):
                return replace(plain, reason=self._ended_by)
            return replace(plain, kind="unsupported")
        return replace(plain, reason="scattered" if carried.complete else self._ended_by)

    def _from(self, origin: Origin, plain: Verdict, part: Part) -> Verdict:
        """The verdict on a sentence that comes from an earlier sentence or the conversation."""
        told = replace(plain, effect=origin.effect)
        if origin.sentence is not None:
            return replace(told, kind="follows", follows=origin.sentence)
        also = self._sufficient_without_turns(part)
        relation: Relation = "either" if also.members else "each"
        if len(also.members) > 1:
            relation = "together"
        cited = (*also.members, *also.others)
        return replace(told, kind="conversation", source_ids=cited, relation=relation)

    def _sufficient_without_turns(self, part: Part) -> Carriers:
        """What carries a sentence, and each of its words, as the conversation does."""
        options, search, turns = (
            self._options,
            self._search_without_turns,
            self._origins.effects_of_turns,
        )
        if search is None or turns is None:
            return Carriers()
        (carried,) = search.carriers([part], rankings(self._scores, [part]))
        alone = search.only(carried.members)
        if alone is None or not carried.sufficient:
            return Carriers()
        kept = tuple(reliance - lost for reliance, lost in zip(search.reliance, alone, strict=True))
        worth = self._total(turns, part.tokens)
        if self._total(kept, part.tokens) < max(options.min_effect, options.needed_share * worth):
            return Carriers()
        for word in part.words:
            worth = self._total(turns, word)
            if worth >= options.min_word and self._total(kept, word) < options.kept_word * worth:
                return Carriers()
        return carried

    @cached_property
    def _search_without_turns(self) -> Sufficiency | None:
        turns = Ablation(characters=self._scorer.context.conversation)
        scorer = self._scorer.without(turns)
        if scorer is None or scorer.units != self._scorer.units:
            return None
        reliance = scorer.score([scorer.context.whole]).changes[0]
        return None if reliance is None else Sufficiency(scorer, reliance, self._options)

    def _is_needed(self, cited: Verdict, part: Part) -> bool:
        """Whether the sentence, or one of its words, loses enough without the cited sources."""
        options, effect = self._options, cited.effect or 0.0
        if cited.kind == "redundant":
            return effect >= options.min_reliance
        if effect < options.cited_share * (cited.reliance or 0.0):
            return False
        rows = [self.search.without([unit]) for unit in cited.source_ids]
        of_words = [max(self._total(row, word) for row in rows) for word in part.words]
        if effect >= options.min_effect:
            return max(of_words, default=effect) >= options.min_word_effect / 2
        return any(
            of_word >= max(options.min_word_effect, options.cited_share * surprise)
            for of_word, surprise in zip(of_words, self._surprises(part), strict=True)
        )

    def _most_reliant(self, part: Part) -> float:
        """The largest reliance of a content word; that of a sentence without any."""
        return max(self._total(self._reliance, own) for own in part.words or (part.tokens,))

    def _surprises(self, part: Part) -> list[float]:
        """How unlikely each content word is without the context, in nats."""
        total, likely = self._total, self._scores.token_log_likelihoods
        return [total(self._reliance, word) - total(likely, word) for word in part.words]

    def _cited(self, plain: Verdict, part: Part, carried: Carriers) -> Verdict | None:
        """The verdict that cites the sources that carry the sentence, None if there are none."""
        members, tokens, reliance = carried.members, part.tokens, plain.reliance or 0.0
        if not members:
            return None
        grounded = replace(plain, kind="grounded", source_ids=members)
        if carried.others:
            group = (*members, *carried.others)
            self.search.score_without([group])
            grounded = replace(grounded, kind="redundant", source_ids=group, relation="either")
        elif len(members) > 1:
            cited = tuple(self._deciding(members, part))
            if cited:
                self.search.score_only([cited])
            if cited and self._is_enough(cited, part, reliance):
                grounded = replace(grounded, source_ids=cited)
            else:
                grounded = self._joint(grounded, part)
        elif reliance < self._options.min_reliance:
            self.search.score_without([members], exact=True)  # its necessity decides
        cited = grounded.source_ids
        rows = [[*cited]] if grounded.kind == "redundant" else [[one] for one in cited]
        effect = sum(self._total(self.search.without(units), tokens) for units in rows)
        alone = members if grounded.relation == "either" else cited
        lost = self._total(self.search.only(alone), tokens)
        kept = min(1.0, 1.0 - lost / reliance) if reliance > 0 else None
        return replace(grounded, effect=effect, kept=kept)

    def _joint(self, grounded: Verdict, part: Part) -> Verdict:
        """The group of these sources; the best of them, where others make up for the group."""
        members, reliance = grounded.source_ids, grounded.reliance or 0.0
        self.search.score_without([members])
        if not self._is_fair(self._total(self.search.without(members), part.tokens), reliance):
            self.search.score_only([[one] for one in members])
            rows = {one: self.search.only([one]) for one in members}
            lost = {one: self._total(row, part.tokens) for one, row in rows.items() if row}
            best = min(lost, key=lambda one: lost[one], default=members[0])
            if lost and lost[best] <= (1 - self._options.kept_share) * reliance:
                return replace(grounded, source_ids=(best,))
        return replace(grounded, kind="redundant", relation="together")

    def _is_fair(self, effect: float | None, reliance: float) -> bool:
        """Whether a group is worth what a sentence may lose with sources that suffice."""
        return (effect or 0.0) >= (1 - self._options.kept_share) * reliance

    def _is_enough(self, cited: Sequence[int], part: Part, reliance: float) -> bool:
        """Whether the sentence keeps enough with these alone, or loses enough without them."""
        kept = reliance - self._total(self.search.only(cited), part.tokens)
        lost = sum(self._total(self.search.without([one]), part.tokens) for one in cited)
        options = self._options
        return kept >= options.kept_share * reliance or lost >= (1 - options.kept_share) * reliance

    def _deciding(self, members: Sequence[int], part: Part) -> Iterator[int]:
        """The members that decide words of their own.

        These are words that only the other members lose, if the member matters at all with all
        sources in the prompt: what only makes the subject clear does not. Or the member is worth
        `min_own` nats there to words to which no other is worth more.
        """
        sets = [[other for other in members if other != one] for one in members]
        self.search.score_only(sets)
        lost = [self.search.lost(part, others).keys() for others in sets]
        nothing = (0.0,) * len(self._reliance or ())
        without = [self.search.without([one]) or nothing for one in members]
        for index, one in enumerate(members):
            rest = {word for i, words in enumerate(lost) if i != index for word in words}
            is_worth = self._total(without[index], part.tokens) >= self._options.min_word
            own = self._own(index, without, part)
            if (lost[index] - rest and is_worth) or own >= self._options.min_own:
                yield one

    def _own(self, index: int, rows: Sequence[TokenScores], part: Part) -> float:
        """What row `index` is worth to words that rely on the context, and to no other row more."""
        own = 0.0
        for word in part.words:
            worth = [self._total(row, word) for row in rows]
            if self._total(self._reliance, word) >= self._options.min_word:
                own += max(0.0, worth[index]) * (worth[index] == max(worth))
        return own

    @staticmethod
    def _total(row: TokenScores | None, tokens: Sequence[int]) -> float:
        return 0.0 if row is None else sum(row[i] for i in tokens)

    @property
    def _ended_by(self) -> Reason:
        """What left something undone, if something was."""
        return "limit" if self._scorer.session.meter.is_limited else "budget"

    def _may_have_origins(self, index: int) -> bool:
        """Whether the answer or the conversation has a sentence before this sentence."""
        return bool(index or self._scorer.context.conversation)

    def _in_time(self) -> bool:
        """Whether there is time to look further than at the scores that are there."""
        meter = self._scorer.session.meter
        meter.exhausted |= meter.is_late
        return not meter.is_late

    def _origin(self, index: int, reliance: float) -> Origin | None:
        """The earlier sentence, or the conversation, that a sentence comes from, None if neither.

        Its effect must be at least the reliance on the context. Where that is large, the origin is
        not scored.
        """
        options = self._options
        if not self._may_have_origins(index) or reliance >= 2 * options.min_reliance:
            return None
        if not self._in_time():
            return None
        enough = []
        for origin in self._origins.find(index):
            least = options.min_turn if origin.sentence is None else options.min_follows
            if origin.effect >= max(least, reliance):
                enough.append(origin)
        return max(enough, key=lambda origin: origin.effect, default=None)
