"""A verdict for each sentence of an answer, and the audit of its markers."""

from __future__ import annotations

import logging
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING

from attribot_rag.cached_property import cached_property
from attribot_rag.context import Context
from attribot_rag.context.text import Interval
from attribot_rag.methods import Scores
from attribot_rag.methods.ahead import first_step
from attribot_rag.methods.base import (
    Carriers,
    Part,
    Ranking,
    TokenScores,
    parts_of,
    scores_of,
    total,
)
from attribot_rag.methods.evidence import Evidence, PartLosses, Search
from attribot_rag.methods.limits import Limits, VerdictOptions
from attribot_rag.methods.necessity import Order
from attribot_rag.methods.search import carriers_of
from attribot_rag.result import Marker, ResponseText, Verdict
from attribot_rag.result.verdict import Reason
from attribot_rag.support import ByWords, Retrieved
from attribot_rag.verdicts.decision import (
    Citing,
    Expected,
    Measured,
    SaidBefore,
    StatedInPrompt,
    Unknown,
    decide,
)
from attribot_rag.verdicts.marker_syntax import WrittenMarker
from attribot_rag.verdicts.markers import markers_in, markers_of
from attribot_rag.verdicts.origins import Origin, Origins, PromptOrigins, may_rest_on_unlocated
from attribot_rag.verdicts.sentences import AnswerSentence, fragment_of, sentences_of, thinking_of

if TYPE_CHECKING:
    from attribot_rag.scoring import Request, Scorer

logger = logging.getLogger(__name__)

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
    ranking: Ranking,
    response: ResponseText,
    options: VerdictOptions,
    settled: Callable[[Judgement], None] | None = None,
    *,
    read: Retrieved | None = None,
) -> Judgement:
    """Judge each sentence of a response, and the citations that the model wrote in it.

    Missing rows are scored: the prompt without all documents, or with only a few sources, and
    earlier sentences and turns if no source carries a sentence.

    Args:
        scorer: Scores the rows.
        ranking: Ranks the sources. With a ranking on demand, the search is the method's, and no
            limit of tokens applies to it.
        response: The answer.
        options: The limits for judging.
        settled: Called with each judgement except the last, in which later sentences are open and
            `pending`. Sentences are then judged one after another.
        read: What was retrieved, if another model gave the answer. Other limits apply. A sentence
            that retrieved text says by its words is cited from it, and only the others are scored.
    """
    limits = options.limits(is_reader=read is not None)
    meter = scorer.session.meter
    meter.reserve(max(options.min_tokens, round(options.token_share * meter.tokens)))
    likely, reliance = _baseline(scorer, ranking.measured)
    marked = markers_in(response.text, scorer.context)
    tags = options.thinking_tags
    thinking = thinking_of(response, scorer.generation, scorer.language_model, tags)
    language = scorer.context.answer_language(response.text)
    pieces = scorer.context.pieces
    sentences = sentences_of(response, marked, thinking, language, pieces.question)
    words = None if read is None else ByWords(read, pieces.asked, scorer.context.asked)
    has_reasoning = len({sentence.thinking for sentence in sentences}) > 1
    judged = _Judge(sentences, scorer, reliance, likely, ranking, response, limits, words)

    def scores() -> Scores:
        so_far = judged.evidence.refine(ranking.scores)
        return replace(
            so_far, token_log_likelihoods=likely, context_reliance=reliance, of_proxy=False
        )

    notes = (_CONDITIONED,) if has_reasoning else ()
    verdicts: tuple[Verdict, ...] = ()
    for verdict in judged.verdicts(in_order=settled is not None):
        verdicts = (*verdicts, verdict)
        rest = sentences[len(verdicts) :]
        if settled is not None and any(sentence.is_judged for sentence in rest):
            pending = (
                Verdict(start=later.start, end=later.end, kind="open", reason="pending")
                for later in rest
            )
            settled(
                Judgement(
                    scores=scores(),
                    verdicts=(*verdicts, *pending),
                    markers=markers_of(marked.markers),
                    notes=notes,
                )
            )
    if scorer.masked_refusal is None:  # short rows score each cited source
        for part, index in judged.parts.items():
            is_scored = index < len(verdicts) and index not in judged.said
            cited = verdicts[index].source_ids if is_scored else ()
            judged.evidence.for_part(part).fetch_without([source] for source in cited)
    # A marker is right if its document says the sentence, even if another one says it better.
    by_any = [
        replace(verdict, source_ids=judged.said[index][1]) if index in judged.said else verdict
        for index, verdict in enumerate(verdicts)
    ]
    audit = MarkerAudit(marked.markers, scorer.context, judged.evidence, limits.min_effect)
    return Judgement(
        verdicts=verdicts,
        markers=tuple(audit.of_answer(sentences, by_any)),
        notes=notes,
        scores=scores(),
    )


def _baseline(scorer: Scorer, measured: Scores) -> tuple[TokenScores | None, TokenScores | None]:
    """The response's log-likelihoods and its reliance on the documents; scored if necessary."""
    if measured.context_reliance is not None and not measured.of_proxy:
        return measured.token_log_likelihoods, measured.context_reliance
    whole = scores_of(scorer.score([scorer.context.whole]))
    return whole.token_log_likelihoods or measured.token_log_likelihoods, whole.token_scores[0]


class _Judge:
    """Measures each sentence of an answer until it has a verdict."""

    def __init__(
        self,
        sentences: Sequence[AnswerSentence],
        scorer: Scorer,
        reliance: TokenScores | None,
        likely: TokenScores | None,
        ranking: Ranking,
        response: ResponseText,
        limits: Limits,
        words: ByWords | None = None,
    ) -> None:
        self._words = words
        self._sentences = sentences
        self._scorer = scorer
        self._meter = scorer.session.meter
        self._response = response
        self._limits = limits
        self._reliance = reliance
        self._likely = likely
        self._without_limit = self._meter.unlimited if ranking.is_on_demand else nullcontext
        self._given: list[Verdict] = []
        self._order = Order(scorer, ranking)
        # Scores of the method for the whole answer come before rows of a sentence alone.
        is_scored = any(ranking.scores.token_scores)
        self.evidence = Evidence(scorer, reliance or (), may_be_alone=not is_scored)
        self._fragment = fragment_of(sentences, scorer.generation, scorer.response.text)
        self._origin_of: dict[Part, Origin | None] = {}

    def verdicts(self, *, in_order: bool) -> Iterator[Verdict]:
        """The verdict on each sentence. It may depend on an earlier sentence.

        With `in_order`, a sentence is judged before rows of the next one are scored.
        """
        carriers: Iterator[Carriers] = iter(())
        if self._reliance is not None:
            with self._without_limit():
                self.evidence.ahead.expect(self._rows_of_origins())
            carriers = carriers_of(
                [part for part, index in self.parts.items() if index not in self.said],
                self.evidence,
                self._order,
                self._limits,
                in_order=in_order,
                is_settled=self._is_settled,
            )
        parts = iter(self.parts)
        for index, sentence in enumerate(self._sentences):
            verdict = Verdict(start=sentence.start, end=sentence.end, kind="trivial")
            if sentence.thinking:
                verdict = replace(verdict, kind="reasoning")
            elif index in self.said:
                part = next(parts)
                reliance = None if self._reliance is None else total(self._reliance, part.tokens)
                verdict = replace(self.said[index][0], reliance=reliance)
            elif sentence.is_judged:
                with self._without_limit():
                    carried = next(carriers, Carriers())
                verdict = self._judged(index, next(parts), carried)
            self._given.append(verdict)
            yield verdict

    @cached_property
    def said(self) -> dict[int, tuple[Verdict, tuple[int, ...]]]:
        """The verdicts on sentences of another model's answer that passages say by their words.

        Each comes with all sources that say the sentence.
        """
        if self._words is None:
            return {}
        said: dict[int, tuple[Verdict, tuple[int, ...]]] = {}
        for index, sentence in enumerate(self._sentences):
            verdict = Verdict(start=sentence.start, end=sentence.end, kind="open")
            if sentence.is_judged:
                found, every = self._words.verdict(verdict, sentence.words)
                said |= {index: (found, every)} if found else {}
        return said

    @cached_property
    def parts(self) -> dict[Part, int]:
        """The judged sentences with their indices."""
        judged = {i: each.tokens for i, each in enumerate(self._sentences) if each.is_judged}
        response, asked = self._response, self._scorer.context.asked
        tokens, tokens_in = [*judged.values()], response.tokens_in
        parts = parts_of(tokens, response.text, tokens_in, asked, self._reliance)
        return dict(zip(parts, judged, strict=True))

    def _judged(self, index: int, part: Part, carriers: Carriers) -> Verdict:
        """The verdict on a sentence. Measurements that it depends on are made first."""
        sentence, measured = self._sentences[index], self._measure(index, part, carriers)
        while isinstance(verdict := decide(self._now(measured), self._limits), Unknown):
            if verdict is Unknown.SAID_BEFORE:
                (origin,) = self.evidence.in_rounds([self._said_before(part)])
                measured = replace(measured, said_before=self._traced(origin, part))
            else:
                measured = replace(measured, stated=self._stated(index, measured.reliance or 0.0))
        logger.debug("%r\n%s\n%s", sentence.text, self._now(measured), verdict)
        words, is_cited = self._words, verdict.kind in ("grounded", "redundant")
        if words is None or not is_cited or words.may_say(verdict.source_ids, sentence.words):
            return verdict
        uncited = Verdict(start=verdict.start, end=verdict.end, kind="unsupported")
        return replace(uncited, reliance=verdict.reliance)

    def _now(self, measured: Measured) -> Measured:
        """The measurements, and whether the budget ended them."""
        meter = self._meter
        ended_by: Reason = "limit" if meter.is_limited else "budget"
        return replace(measured, is_exhausted=meter.exhausted, ended_by=ended_by)

    def _measure(self, index: int, part: Part, carriers: Carriers) -> Measured:
        """The measurements of a sentence by the rows of the search, and its citation."""
        sentence = self._sentences[index]
        least = self._least_reliance(sentence)
        measured = Measured(start=sentence.start, end=sentence.end, reliance=None, least=least)
        if self._reliance is None:
            return measured
        losses = PartLosses(part, self.evidence.for_part(part), self._limits)
        may_be_said_before = bool(index or self._scorer.context.conversation)
        return replace(
            measured,
            reliance=losses.reliance,
            words=tuple(map(self._expected, part.words)),
            figures=tuple(map(self._expected, sentence.figures)),
            carriers=carriers,
            citation=Citing(losses, self._order).citation(carriers),
            said_before=Unknown.SAID_BEFORE if may_be_said_before else None,
            may_be_said_before=may_be_said_before,
            is_cut=index == self._fragment,
        )

    def _expected(self, tokens: Sequence[int]) -> Expected:
        return Expected(total(self._likely, tokens), total(self._reliance, tokens))

    def _least_reliance(self, sentence: AnswerSentence) -> float:
        """The reliance, in nats, from which the documents matter to a sentence."""
        noise = self._scorer.language_model.weights.noise or 0.0
        of_sentence = noise * math.sqrt(len(sentence.tokens))
        limits, per_token = self._limits, self._limits.min_per_token * len(sentence.tokens)
        return max(limits.min_reliance, per_token, limits.noise_factor * of_sentence)

    def _rows_of_origins(self) -> Iterator[Request]:
        """The first rows of other origins, for sentences that rely little on the documents."""
        for part, index in self.parts.items():
            reliance = total(self._reliance, part.tokens)
            if reliance < self._limits.sure_reliance:
                yield from first_step(self._origins.find(index, reliance))
                yield from first_step(self._prompt_origins.find(part.tokens, reliance))

    def _is_settled(self, part: Part) -> Search[bool]:
        """Whether a sentence with little reliance is cut off, or has another origin."""
        if self.parts[part] == self._fragment:
            return True
        return (yield from self._said_before(part)) is not None

    @cached_property
    def _origins(self) -> Origins:
        parts = {index: part for part, index in self.parts.items()}
        return Origins(self.evidence, self._sentences, parts, self._limits, self._order)

    @cached_property
    def _prompt_origins(self) -> PromptOrigins:
        return PromptOrigins(self.evidence, self._response, self._limits)

    def _said_before(self, part: Part) -> Search[Origin | None]:
        """The origin of a sentence in earlier sentences or the conversation, or None.

        If time is up, there is no search.
        """
        index, meter = self.parts[part], self._meter
        if part not in self._origin_of and (index or self._scorer.context.conversation):
            meter.exhausted |= meter.is_late
            if not meter.is_late:
                reliance = total(self._reliance, part.tokens)
                self._origin_of[part] = yield from self._origins.largest(index, reliance)
        return self._origin_of.get(part)

    def _traced(self, origin: Origin | None, part: Part) -> SaidBefore | None:
        """An origin with its own cause, and the sources that could replace it."""
        if origin is None:
            return None
        if origin.sentence is None:
            carriers = self._origins.carriers_without_turns(part)
            return SaidBefore(None, origin.effect, carriers=carriers)
        earlier = self._given[origin.sentence].traced(self._given)
        is_uncaused = earlier.kind in ("open", "unsupported")
        return SaidBefore(origin.sentence, origin.effect, is_uncaused)

    def _stated(self, index: int, reliance: float) -> StatedInPrompt:
        """The origin of a sentence in the rest of the prompt."""
        sentence = self._sentences[index]
        if may_rest_on_unlocated(self._scorer.context, sentence.words):
            return StatedInPrompt(is_unlocated=True)
        search = self._prompt_origins.find(sentence.tokens, reliance)
        (stated,) = self.evidence.in_rounds([search])
        return stated


@dataclass(frozen=True)
class MarkerAudit:
    """Checks whether the scores support the markers of a response.

    A marker is supported if a source of its document is cited for the marked text, or if the
    document is worth `min_effect` nats to it. If several documents have its label, one of them is
    enough. Without `evidence`, only the citations count, and the result is unknown for a document
    whose sources `may_say` the tokens.
    """

    markers: tuple[WrittenMarker, ...]
    context: Context
    evidence: Evidence | None = None
    min_effect: float = 0.0
    may_say: Callable[[Sequence[int], Sequence[int]], bool] | None = None

    def of_answer(
        self, sentences: Sequence[AnswerSentence], verdicts: Sequence[Verdict]
    ) -> Iterator[Marker]:
        """All markers of the response, each audited by the citations of its text.

        A sentence that follows from another one has its sources. A marker that stands alone is
        about the whole answer.
        """
        starts = [sentence.start for sentence in sentences]
        whole = (0, sentences[-1].end) if sentences else (0, 0)

        @cache
        def said_in(scope: Interval) -> tuple[tuple[int, ...], frozenset[int]]:
            first, last = bisect_right(starts, scope[0]) - 1, bisect_left(starts, scope[1])
            stated = [i for i in range(first, last) if sentences[i].is_judged]
            tokens = chain.from_iterable(sentences[i].tokens for i in stated)
            cited = (verdicts[i].traced(verdicts).source_ids for i in stated)
            return tuple(tokens), frozenset(chain.from_iterable(cited))

        for marker in self.markers:
            index = bisect_right(starts, marker.start) - 1
            own = sentences[index].start, sentences[index].end
            scopes = map(said_in, (*(marker.scopes or (own,)), whole))
            tokens, cited = next((said for said in scopes if said[0]), said_in(whole))
            yield from markers_of([marker], cache(partial(self._supports, tokens, cited)))

    def _supports(
        self, tokens: Sequence[int], cited: Collection[int], document: int
    ) -> bool | None:
        """Whether a document supports these tokens, for which sources are cited.

        None if it was not scored, or if the marker has no tokens.
        """
        if any(document in self.context.sources[source_id].documents for source_id in cited):
            return True
        if document in self.context.not_located:
            return False
        own = [source.id for source in self.context.sources if document in source.documents]
        if not own or not tokens:
            return None
        if self.evidence is None:
            return None if self.may_say and self.may_say(own, tokens) else False
        evidence = self.evidence.for_part(Part(tuple(tokens)))
        evidence.fetch_without([own])
        row = evidence.without(own)
        return None if row is None else total(row, tokens) >= self.min_effect
