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
from attribot_rag.methods.base import (
    Part,
    Ranking,
    SourceSet,
    TokenScores,
    parts_of,
    scores_of,
    total,
)
from attribot_rag.methods.evidence import Evidence, PartLosses, Search
from attribot_rag.methods.limits import Limits, VerdictOptions
from attribot_rag.methods.necessity import UnitOrder
from attribot_rag.methods.search import find_sources, first_requests
from attribot_rag.result import Marker, ResponseText, Verdict
from attribot_rag.result.verdict import Reason, Relation
from attribot_rag.support import ByWords, RetrievedText
from attribot_rag.verdicts.decision import (
    Citation,
    EarlierOrigin,
    Measurements,
    Postponed,
    PromptOrigin,
    WordLikelihood,
    decide,
)
from attribot_rag.verdicts.marker_syntax import WrittenMarker
from attribot_rag.verdicts.markers import markers_in, markers_of
from attribot_rag.verdicts.origins import Origins, PromptOrigins, may_rest_on_unlocated
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
    on_progress: Callable[[Judgement], None] | None = None,
    *,
    read: RetrievedText | None = None,
) -> Judgement:
    """Judge each sentence of a response, and the citations that the model wrote in it.

    Missing rows are scored: the prompt without all documents, or with only a few sources, and
    earlier sentences and turns if no source explains a sentence.

    Args:
        scorer: Scores the rows. Its units must be single sources.
        ranking: Ranks the sources. If its method has no search of its own, the search for verdicts
            is the method's, and no limit of tokens applies to it.
        response: The answer.
        options: The limits for judging.
        on_progress: Called after each sentence but the last, with a judgement so far: later
            sentences are open and `pending`. Sentences are then judged one after another.
        read: What was retrieved, if another model gave the answer. Other limits apply. A sentence
            that retrieved text says by its words is cited from it, and only the others are scored.
    """
    # The units of searches are taken as ids of sources.
    assert all(unit == (index,) for index, unit in enumerate(scorer.units))
    limits = options.limits(is_reader=read is not None)
    meter, context = scorer.session.meter, scorer.context
    meter.cap_further(max(options.min_tokens, round(options.token_share * meter.tokens)))
    log_likelihoods, reliance = _baseline(scorer, ranking.measured)
    marked = markers_in(response.text, context)
    tags = options.thinking_tags
    thinking = thinking_of(response, scorer.generation, scorer.language_model, tags)
    language, pieces = context.answer_language(response.text), context.pieces
    sentences = sentences_of(response, marked, thinking, language, pieces.question_as_written)
    by_words = None if read is None else ByWords(read, pieces.question, context.rest_of_prompt)
    judge = _SentenceJudge(
        sentences, scorer, reliance, log_likelihoods, ranking, response, limits, by_words
    )
    has_reasoning = len({sentence.is_thinking for sentence in sentences}) > 1
    notes = (_CONDITIONED,) if has_reasoning else ()

    def judgement(verdicts: Sequence[Verdict], markers: tuple[Marker, ...]) -> Judgement:
        scores = judge.refine(ranking.scores)
        return Judgement(scores=scores, verdicts=tuple(verdicts), markers=markers, notes=notes)

    verdicts: list[Verdict] = []
    for verdict in judge.verdicts(in_order=on_progress is not None):
        verdicts.append(verdict)
        rest = sentences[len(verdicts) :]
        if on_progress is not None and any(sentence.is_judged for sentence in rest):
            pending = (
                Verdict(start=later.start, end=later.end, kind="open", reason="pending")
                for later in rest
            )
            on_progress(judgement([*verdicts, *pending], markers_of(marked.markers)))
    if scorer.can_mask:  # short rows score each cited source
        judge.fetch_cited(verdicts)
    audit = MarkerAudit(marked.markers, context, judge.loss_without, limits.min_effect)
    # A marker is right if its document says the sentence, even if another one says it better.
    by_any = [judge.citing_all(index, verdict) for index, verdict in enumerate(verdicts)]
    return judgement(verdicts, tuple(audit.of_answer(sentences, by_any)))


def _baseline(scorer: Scorer, measured: Scores) -> tuple[TokenScores | None, TokenScores | None]:
    """The response's log-likelihoods and its reliance on the documents.

    `auto` has measured them for its ranking; for other methods, they are scored here.
    """
    if measured.context_reliance is not None and not measured.of_proxy:
        return measured.token_log_likelihoods, measured.context_reliance
    bare = scores_of(scorer.score([scorer.context.without_documents]))
    return bare.token_log_likelihoods or measured.token_log_likelihoods, bare.token_scores[0]


class _SentenceJudge:
    """Measures each sentence of an answer until it has a verdict.

    With `by_words`, retrieved text is compared with the sentences of another model's answer first.
    """

    def __init__(
        self,
        sentences: Sequence[AnswerSentence],
        scorer: Scorer,
        reliance: TokenScores | None,
        log_likelihoods: TokenScores | None,
        ranking: Ranking,
        response: ResponseText,
        limits: Limits,
        by_words: ByWords | None = None,
    ) -> None:
        self._by_words = by_words
        self._sentences = sentences
        self._scorer = scorer
        self._meter = scorer.session.meter
        self._response = response
        self._limits = limits
        self._reliance = reliance
        self._log_likelihoods = log_likelihoods
        # Beyond the limit of tokens, rows are also prefetched: see Scorer.num_spare_rows.
        self._without_limit = nullcontext if ranking.has_search else self._meter.uncapped
        self._verdicts: list[Verdict] = []
        self._order = UnitOrder(scorer, ranking, limits=limits)
        # Scores of the method for the whole answer come before rows of a sentence alone.
        is_scored = any(ranking.scores.token_scores)
        self._evidence = Evidence(scorer, reliance or (), may_exclude_earlier_text=not is_scored)
        self._fragment = fragment_of(sentences, scorer.generation, scorer.response.text)
        self._earlier_origins: dict[int, EarlierOrigin | None] = {}

    def verdicts(self, *, in_order: bool) -> Iterator[Verdict]:
        """The verdict on each sentence. It may depend on an earlier sentence.

        With `in_order`, a sentence is judged before rows of the next one are scored. Otherwise, the
        rows of all sentences are fetched together.
        """
        if self._reliance is not None:
            with self._without_limit():
                self._evidence.prefetch.add(self._first_requests_of_origins())
        to_score = [i for i in self._parts if i not in self._said_by_words]
        found = {} if in_order else self._search(to_score)
        for index, sentence in enumerate(self._sentences):
            verdict = Verdict(start=sentence.start, end=sentence.end, kind="trivial")
            if sentence.is_thinking:
                verdict = replace(verdict, kind="reasoning")
            elif index in self._said_by_words:
                tokens, (verdict, _) = sentence.tokens, self._said_by_words[index]
                reliance = None if self._reliance is None else total(self._reliance, tokens)
                verdict = replace(verdict, reliance=reliance)
            elif sentence.is_judged:
                if in_order:
                    found = self._search([index])
                verdict = self._verdict_on(index, found.get(index, SourceSet()))
            self._verdicts.append(verdict)
            yield verdict

    def refine(self, scores: Scores) -> Scores:
        """The scores, with those that judging measured."""
        return replace(
            self._evidence.refine(scores),
            token_log_likelihoods=self._log_likelihoods,
            context_reliance=self._reliance,
            of_proxy=False,
        )

    def fetch_cited(self, verdicts: Sequence[Verdict]) -> None:
        """Score each source that is cited for a sentence, unless its words say the sentence."""
        for index, part in self._parts.items():
            cited = () if index in self._said_by_words else verdicts[index].source_ids
            self._evidence.for_part(part).fetch_without([source_id] for source_id in cited)

    def citing_all(self, index: int, verdict: Verdict) -> Verdict:
        """The verdict, with all sources that say the sentence by their words."""
        _, source_ids = self._said_by_words.get(index, (verdict, verdict.source_ids))
        return replace(verdict, source_ids=source_ids)

    def loss_without(self, source_ids: Collection[int], tokens: Sequence[int]) -> float | None:
        """The loss of some tokens without these sources, in nats; None if it was not scored."""
        evidence = self._evidence.for_part(Part(tuple(tokens)))
        evidence.fetch_without([source_ids])
        loss = evidence.loss_without(source_ids)
        return None if loss is None else total(loss, tokens)

    @cached_property
    def _said_by_words(self) -> dict[int, tuple[Verdict, tuple[int, ...]]]:
        """The verdicts on sentences of another model's answer that passages say by their words.

        Each comes with all sources that say the sentence.
        """
        said: dict[int, tuple[Verdict, tuple[int, ...]]] = {}
        for index, sentence in enumerate(self._sentences):
            if self._by_words is not None and sentence.is_judged:
                open_verdict = Verdict(start=sentence.start, end=sentence.end, kind="open")
                verdict, source_ids = self._by_words.verdict(open_verdict, sentence.plain_text)
                if verdict is not None:
                    said[index] = verdict, source_ids
        return said

    @cached_property
    def _parts(self) -> dict[int, Part]:
        """The judged sentences by their indices."""
        judged = {i: each.tokens for i, each in enumerate(self._sentences) if each.is_judged}
        response, asked = self._response, self._scorer.context.rest_of_prompt
        tokens, tokens_in = [*judged.values()], response.tokens_in
        parts = parts_of(tokens, response.text, tokens_in, asked, self._reliance)
        return dict(zip(judged, parts, strict=True))

    @cached_property
    def _indices(self) -> dict[Part, int]:
        return {part: index for index, part in self._parts.items()}

    def _search(self, indices: Sequence[int]) -> dict[int, SourceSet]:
        """What a search finds for each of these sentences; nothing without a measured reliance."""
        if self._reliance is None:
            return {}
        parts = [self._parts[index] for index in indices]
        with self._without_limit():
            found = find_sources(
                parts, self._evidence, self._order, self._limits, self._needs_no_search
            )
        return dict(zip(indices, found, strict=True))

    def _verdict_on(self, index: int, found: SourceSet) -> Verdict:
        """The verdict on a sentence. Measurements that it depends on are made first."""
        sentence, measured = self._sentences[index], self._measure(index, found)
        while isinstance(outcome := decide(self._with_budget(measured), self._limits), Postponed):
            if outcome is Postponed.EARLIER:
                (origin,) = self._evidence.in_rounds([self._earlier_origin(index)])
                measured = replace(measured, earlier=self._with_cause(origin, index))
            else:
                reliance = measured.reliance or 0.0
                measured = replace(measured, in_prompt=self._prompt_origin(index, reliance))
        logger.debug("%r\n%s\n%s", sentence.text, self._with_budget(measured), outcome)
        by_words, cited = self._by_words, outcome.source_ids
        is_cited = outcome.kind in ("grounded", "redundant")
        if by_words is None or not is_cited or by_words.may_say(cited, sentence.plain_text):
            return outcome
        uncited = Verdict(start=outcome.start, end=outcome.end, kind="unsupported")
        return replace(uncited, reliance=outcome.reliance)

    def _with_budget(self, measured: Measurements) -> Measurements:
        """The measurements, and whether the budget ended them."""
        meter = self._meter
        ended_by: Reason = "limit" if meter.stopped_at_cap else "budget"
        return replace(measured, is_exhausted=meter.exhausted, ended_by=ended_by)

    def _measure(self, index: int, found: SourceSet) -> Measurements:
        """The measurements of a sentence by the rows of the search, and its citation."""
        sentence, part = self._sentences[index], self._parts[index]
        measured = Measurements(
            start=sentence.start,
            end=sentence.end,
            reliance=None,
            min_reliance=self._min_reliance(sentence),
        )
        if self._reliance is None:
            return measured
        losses = PartLosses(part, self._evidence.for_part(part), self._limits)
        may_have_earlier = bool(index or self._scorer.context.conversation)
        return replace(
            measured,
            reliance=losses.reliance,
            words=tuple(map(self._likelihood, part.word_tokens)),
            figures=tuple(map(self._likelihood, sentence.figures)),
            found=found,
            citation=CitationFinder(losses, self._order).citation(found),
            earlier=Postponed.EARLIER if may_have_earlier else None,
            may_have_earlier=may_have_earlier,
            is_cut=index == self._fragment,
        )

    def _likelihood(self, tokens: Sequence[int]) -> WordLikelihood:
        return WordLikelihood(total(self._log_likelihoods, tokens), total(self._reliance, tokens))

    def _min_reliance(self, sentence: AnswerSentence) -> float:
        """The reliance, in nats, from which the documents matter to a sentence."""
        noise = self._scorer.language_model.weights.noise or 0.0
        of_sentence = noise * math.sqrt(len(sentence.tokens))
        limits, per_token = self._limits, self._limits.min_per_token * len(sentence.tokens)
        return max(limits.min_reliance, per_token, limits.noise_factor * of_sentence)

    def _first_requests_of_origins(self) -> Iterator[Request]:
        """The first rows of other origins, for sentences that rely little on the documents."""
        for index, part in self._parts.items():
            reliance = total(self._reliance, part.tokens)
            if reliance < self._limits.sure_reliance:
                yield from first_requests(self._origins.find(index, reliance))
                yield from first_requests(self._prompt_origins.find(part.tokens, reliance))

    def _needs_no_search(self, part: Part) -> Search[bool]:
        """Whether a sentence with little reliance is cut off, or has another origin."""
        index = self._indices[part]
        return index == self._fragment or (yield from self._earlier_origin(index)) is not None

    @cached_property
    def _origins(self) -> Origins:
        return Origins(self._evidence, self._sentences, self._parts, self._limits, self._order)

    @cached_property
    def _prompt_origins(self) -> PromptOrigins:
        return PromptOrigins(self._evidence, self._response, self._limits)

    def _earlier_origin(self, index: int) -> Search[EarlierOrigin | None]:
        """The origin of a sentence in earlier sentences or the conversation, or None.

        If time is up, there is no search.
        """
        meter = self._meter
        if index not in self._earlier_origins and (index or self._scorer.context.conversation):
            meter.exhausted |= meter.is_late
            if not meter.is_late:
                reliance = total(self._reliance, self._parts[index].tokens)
                self._earlier_origins[index] = yield from self._origins.largest(index, reliance)
        return self._earlier_origins.get(index)

    def _with_cause(self, origin: EarlierOrigin | None, index: int) -> EarlierOrigin | None:
        """An origin of a sentence, with its own cause, or the sources that could replace it."""
        if origin is None:
            return None
        if origin.sentence is None:
            found = self._origins.sources_without_turns(self._parts[index])
            return replace(origin, replaced_by=found)
        earlier = self._verdicts[origin.sentence].traced(self._verdicts)
        return replace(origin, is_uncaused=earlier.kind in ("open", "unsupported"))

    def _prompt_origin(self, index: int, reliance: float) -> PromptOrigin:
        """The origin of a sentence in the instructions or the question."""
        sentence = self._sentences[index]
        if may_rest_on_unlocated(self._scorer.context, sentence.plain_text):
            return PromptOrigin(is_unlocated=True)
        search = self._prompt_origins.find(sentence.tokens, reliance)
        (origin,) = self._evidence.in_rounds([search])
        return origin


class CitationFinder:
    """Measures which of the sources that a search found can be cited, and fetches rows for that."""

    def __init__(self, losses: PartLosses, order: UnitOrder) -> None:
        self._losses = losses
        self._evidence = losses.evidence
        self._part = losses.part
        self._words_of = order.words_of
        self._limits = losses.limits

    def citation(self, found: SourceSet) -> Citation | None:
        """The citation of the sources that were found; None if none can be cited."""
        members = found.members
        if not members:
            return None
        if found.alternatives:
            return self._measure(found, (*members, *found.alternatives), "either")
        if len(members) == 1:
            if self._needs_exact_row(found):  # its necessity decides
                self._evidence.fetch_without([members], exact=True)
            return self._measure(found, (*members, *found.further))
        deciding = tuple(self._members_with_own_words(found))
        if deciding and self._are_enough(deciding):
            return self._measure(found, (*deciding, *found.further))
        return self._measure(found, members, "together") if found.sufficient else None

    def _needs_exact_row(self, found: SourceSet) -> bool:
        """Whether the effect alone decides on the citation, and is near its threshold."""
        limits, reliance = self._limits, self._losses.reliance
        effect = self._losses.of_part(self._evidence.loss_without(found.members))
        if reliance < limits.min_reliance:
            return effect < limits.clear_effect
        is_near = limits.cited_share * reliance <= effect < limits.min_effect
        return is_near and not found.sufficient

    def _measure(
        self, found: SourceSet, source_ids: Sequence[int], relation: Relation = "each"
    ) -> Citation:
        """The necessity and the sufficiency of the cited sources."""
        evidence = self._evidence
        sets = [(unit,) for unit in source_ids] if relation == "each" else [tuple(source_ids)]
        alone = found.members if relation == "either" else source_ids
        requests = [*map(evidence.request_without, sets), evidence.request_with_only(alone)]
        evidence.answer.fetch(requests)
        return Citation(
            source_ids=tuple(source_ids),
            relation=relation,
            effect=sum(self._losses.of_part(evidence.loss_without(units)) for units in sets),
            word_effects=tuple(self._word_effects(source_ids)),
            kept=self._kept(alone),
            sufficient=found.sufficient,
        )

    def _kept(self, units: Sequence[int]) -> float | None:
        loss, reliance = self._evidence.loss_with_only(units), self._losses.reliance
        if loss is None or reliance <= 0:
            return None
        return min(1.0, max(0.0, 1.0 - self._losses.of_part(loss) / reliance))

    def _word_effects(self, source_ids: Sequence[int]) -> Iterator[tuple[float, float]]:
        losses = {unit: self._evidence.loss_without([unit]) for unit in source_ids}
        for tokens, word in zip(self._part.word_tokens, self._part.words, strict=True):
            effects = {unit: total(loss, tokens) for unit, loss in losses.items()}
            with_word = (effects[unit] for unit in source_ids if word in self._words_of(unit))
            yield max(with_word, default=0.0), max(effects.values())

    def _are_enough(self, deciding: Sequence[int]) -> bool:
        """Whether the sentence keeps enough with only these, or loses the rest without them."""
        losses, evidence = self._losses, self._evidence
        most = (1 - self._limits.kept_share) * losses.reliance
        evidence.answer.fetch([evidence.request_with_only(deciding)])
        loss = evidence.loss_with_only(deciding)
        if loss is not None and losses.of_part(loss) <= most:
            return True
        return sum(losses.of_part(evidence.loss_without([unit])) for unit in deciding) >= most

    def _members_with_own_words(self, found: SourceSet) -> Iterator[int]:
        """The members with words of their own: words that the other members alone lose.

        A member must also matter with all sources in the prompt. A source that only makes the
        subject clear does not.
        """
        members = found.members
        lost = [self._lost_by_others(found, member).keys() for member in members]
        for index, member in enumerate(members):
            rest = {word for i, words in enumerate(lost) if i != index for word in words}
            effect = self._losses.of_part(self._evidence.loss_without([member]))
            if lost[index] - rest and effect >= self._limits.min_word:
                yield member

    def _lost_by_others(self, found: SourceSet, member: int) -> dict[int, float]:
        """The words that the other members alone lose, with the losses in nats.

        If no search requested that row, it is the row with the units that need the member too, or
        with all other units: more units cannot lose what fewer keep.
        """
        evidence, losses = self._evidence, self._losses
        others = tuple(unit for unit in found.members if unit != member)
        for kept in (others, found.needed_with.get(member, others)):
            if loss := evidence.requested_loss_with_only(kept):
                return losses.lost_words(loss)
        return losses.lost_words(evidence.loss_without([member]) or evidence.reliance)


@dataclass(frozen=True)
class MarkerAudit:
    """Checks whether the scores support the markers of a response.

    A marker is supported if a source of its document is cited for the marked text, or if some
    tokens of the text lose `min_effect` nats without the document. If several documents have its
    label, one of them is enough. Without `loss_without`, only the citations count, and the result
    is unknown for a document whose sources `may_say` the tokens. Both take ids of sources, and
    tokens.
    """

    markers: tuple[WrittenMarker, ...]
    context: Context
    loss_without: Callable[[Sequence[int], Sequence[int]], float | None] | None = None
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
        def tokens_and_sources(scope: Interval) -> tuple[tuple[int, ...], frozenset[int]]:
            first, last = bisect_right(starts, scope[0]) - 1, bisect_left(starts, scope[1])
            stated = [i for i in range(first, last) if sentences[i].is_judged]
            tokens = chain.from_iterable(sentences[i].tokens for i in stated)
            cited = (verdicts[i].traced(verdicts).source_ids for i in stated)
            return tuple(tokens), frozenset(chain.from_iterable(cited))

        for marker in self.markers:
            index = bisect_right(starts, marker.start) - 1
            own = sentences[index].start, sentences[index].end
            scopes = map(tokens_and_sources, (*(marker.scopes or (own,)), whole))
            with_tokens = (scope for scope in scopes if scope[0])
            tokens, cited = next(with_tokens, tokens_and_sources(whole))
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
        if self.loss_without is None:
            return None if self.may_say and self.may_say(own, tokens) else False
        loss = self.loss_without(own, tokens)
        return None if loss is None else loss >= self.min_effect
