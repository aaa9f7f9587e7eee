"""A verdict for each sentence of an answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from attribot_rag.methods import Scores
from attribot_rag.methods.base import Carriers, Part, parts_of, scores_of, total
from attribot_rag.methods.ranking import Ranking
from attribot_rag.methods.sufficiency import Sufficiency
from attribot_rag.methods.thresholds import VerdictOptions
from attribot_rag.result import Marker, ResponseText, Verdict
from attribot_rag.result.verdict import Reason, Relation
from attribot_rag.scoring import Scorer
from attribot_rag.verdicts.cited_sources import CitedSources, may_rest_on_unlocated
from attribot_rag.verdicts.marker_syntax import KnownLabels
from attribot_rag.verdicts.markers import MarkerAudit, markers_in, markers_of
from attribot_rag.verdicts.origins import Origin, Origins
from attribot_rag.verdicts.prompt_origins import PromptOrigins
from attribot_rag.verdicts.sentences import AnswerSentence, sentences_of, thinking_of

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
) -> Judgement:
    """Judge each sentence of a response, and the citations the model wrote in it.

    Scores what is missing: the prompt without the whole context, or with only a few sources, and
    earlier sentences and turns where no source carries a sentence. With `settled`, sentences are
    judged one after another, and it is called with each judgement but the last, in which later
    sentences are open and `pending`. With a `ranking` that is pending, the method was left to
    judging: no limit holds for the search.
    """
    meter = scorer.session.meter
    meter.reserve(max(options.min_tokens, round(options.token_share * meter.tokens)))
    scores = ranking.scores
    if scores.context_reliance is None or scores.of_proxy:
        whole = scores_of(scorer.score([scorer.context.whole]))
        full = whole.token_log_likelihoods or scores.token_log_likelihoods
        reliance = whole.token_scores[0]
        ranking.scores = replace(
            scores, token_log_likelihoods=full, context_reliance=reliance, of_proxy=False
        )
    markers = markers_in(response.text, scorer.context)
    tags = options.thinking_tags
    thinking = thinking_of(response, scorer.generation, scorer.language_model, tags)
    language = scorer.context.answer_language(response.text)
    sentences = sentences_of(response, markers, thinking, language)
    has_reasoning = len({sentence.thinking for sentence in sentences}) > 1
    judged = _Judge(sentences, scorer, ranking, response, options)
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
                    scores=judged.search.refine(ranking.scores),
                    verdicts=(*verdicts, *pending),
                    markers=markers_of(markers, KnownLabels.of(scorer.context)),
                    notes=notes,
                )
            )
    if scorer.masked_refusal is None:  # each cited source has a score of its own, by a short row
        cited = sorted({source for verdict in verdicts for source in verdict.source_ids})
        judged.search.score_without([source] for source in cited)
    audit = MarkerAudit(markers, scorer.context, judged.search, options.min_effect)
    return Judgement(
        verdicts=verdicts,
        markers=tuple(_markers(audit, sentences, verdicts)),
        notes=notes,
        scores=judged.search.refine(ranking.scores),
    )


def _markers(
    audit: MarkerAudit, sentences: Sequence[AnswerSentence], verdicts: Sequence[Verdict]
) -> Iterator[Marker]:
    """All markers of the response, each audited by what its sentence cites.

    A sentence that follows from another has the other's sources; "Sources: [1]" speaks of the
    whole answer.
    """
    spoken = (x.tokens for x in sentences if not (x.trivial or x.thinking))
    whole = tuple(chain.from_iterable(spoken))
    cited = frozenset(chain.from_iterable(verdict.source_ids for verdict in verdicts))
    for sentence, verdict in zip(sentences, verdicts, strict=True):
        own = verdict.traced(verdicts).source_ids
        of = (whole, cited) if sentence.trivial else (sentence.tokens, own)
        yield from audit.markers_in(sentence.start, sentence.end, *of)


class _Judge:
    """Judges each sentence of an answer by what carries it, and by the sentences before it."""

    def __init__(
        self,
        sentences: Sequence[AnswerSentence],
        scorer: Scorer,
        ranking: Ranking,
        response: ResponseText,
        options: VerdictOptions,
    ) -> None:
        self._sentences = sentences
        self._scorer = scorer
        self._ranking = ranking
        self._response = response
        self._options = options
        self._reliance = ranking.scores.context_reliance
        self._without_limit = scorer.session.meter.unlimited if ranking.is_pending else nullcontext
        self._given: list[Verdict] = []
        self.search = Sufficiency(scorer, self._reliance or (), options, ranking, ranking.scores)
        self._cited = CitedSources(self.search, ranking.scores, options)

    def verdicts(self, *, in_order: bool) -> Iterator[Verdict]:
        """The verdict on each sentence, which may follow from an earlier sentence.

        `in_order`, a sentence is judged before rows of the next sentence are scored.
        """
        carriers: Iterator[tuple[Part, Carriers]] = iter(())
        if self._reliance is not None:
            is_settled = self._is_settled
            found = self.search.carriers(self._parts, in_order=in_order, is_settled=is_settled)
            carriers = zip(self._parts, found, strict=True)
        for index, sentence in enumerate(self._sentences):
            carried = (Part(), Carriers())
            if sentence.is_judged:
                with self._without_limit():
                    carried = next(carriers, carried)
            self._given.append(self._verdict(index, *carried))
            yield self._given[-1]

    @cached_property
    def _parts(self) -> dict[Part, int]:
        """The sentences that are judged, with their indices."""
        judged = {i: each.tokens for i, each in enumerate(self._sentences) if each.is_judged}
        response, asked = self._response, self._scorer.context.asked
        tokens, tokens_in = [*judged.values()], response.tokens_in
        parts = parts_of(tokens, response.text, tokens_in, asked, self._reliance)
        return dict(zip(parts, judged, strict=True))

    def _is_settled(self, part: Part) -> bool:
        """Whether a sentence that hardly relies on the context is cut, or has another origin."""
        index = self._parts[part]
        return index == self._fragment or self._origin(index) is not None

    @cached_property
    def _fragment(self) -> int | None:
        """Index of the sentence in which the answer was cut, so that its end is missing."""
        scorer = self._scorer
        if not scorer.generation.unfinished or scorer.response.text.endswith("\n"):
            return None
        last = max((i for i, each in enumerate(self._sentences) if each.tokens), default=None)
        return None if last is None or self._sentences[last].ended else last

    @cached_property
    def _origins(self) -> Origins:
        return Origins(self._scorer, self._sentences, self._options, self._ranking)

    @cached_property
    def _prompt_origins(self) -> PromptOrigins:
        return PromptOrigins(self._scorer, self._response, self._options)

    def _verdict(self, index: int, part: Part, carried: Carriers) -> Verdict:
        """The verdict on a sentence: what it cites, else where it comes from, else why neither."""
        sentence = self._sentences[index]
        verdict = Verdict(start=sentence.start, end=sentence.end, kind="open")
        if sentence.thinking:
            return replace(verdict, kind="reasoning")
        if not sentence.is_judged:
            return replace(verdict, kind="trivial")
        if self._reliance is None:
            return replace(verdict, reason=self._ended_by)
        reliance = total(self._reliance, sentence.tokens)
        verdict = replace(verdict, reliance=reliance)
        cited = self._cited.verdict(verdict, part, carried)
        if cited is None and index == self._fragment:
            return replace(verdict, reason="cut")
        is_needed = cited is not None and self._cited.is_needed(cited, part)
        origin = None if is_needed else self._origin(index)
        least = self._least_reliance(sentence)
        is_invented = self._cited.is_invented(sentence.figures)
        is_warranted = cited is not None and self._cited.is_warranted(
            cited, part, carried, least=least, is_invented=is_invented
        )
        if origin is not None and not (is_warranted and self._is_uncaused(origin)):
            return self._from(origin, verdict, part)
        if cited is not None and is_warranted:
            return cited
        if reliance < least or is_invented:
            is_searched = carried.complete or is_invented
            return self._unsupported(index, verdict, is_searched=is_searched)
        was_cut_short = cited is None and carried.members and self._scorer.session.meter.exhausted
        if was_cut_short or not carried.complete:
            return replace(verdict, reason=self._ended_by)
        if self._cited.has_unexpected(part):
            return self._unsupported(index, verdict)
        return replace(verdict, reason="scattered")

    def _is_uncaused(self, origin: Origin) -> bool:
        """Whether it is an earlier sentence for which nothing was found that caused it."""
        earlier = None if origin.sentence is None else self._given[origin.sentence]
        return earlier is not None and earlier.traced(self._given).kind in ("open", "unsupported")

    def _least_reliance(self, sentence: AnswerSentence) -> float:
        """The reliance, in nats, from which the context matters to a sentence."""
        noise = self._scorer.language_model.backend.noise or 0.0
        of_sentence = noise * math.sqrt(len(sentence.tokens))
        return max(self._options.min_reliance, self._options.noise_factor * of_sentence)

    def _unsupported(self, index: int, verdict: Verdict, *, is_searched: bool = True) -> Verdict:
        """Unsupported, unless the prompt states it, or it might rest on what was not located.

        If the budget ended, it is open unless sources, turns and sentences were ruled out.
        """
        if may_rest_on_unlocated(self._scorer.context, self._sentences[index].words):
            return replace(verdict, reason="not_located")
        tokens = self._sentences[index].tokens
        stated = self._prompt_origins.find(tokens, verdict.reliance or 0.0)
        if stated is not None:
            return replace(verdict, kind="conversation", origin=stated.part, effect=stated.effect)
        may_be_stated = self._prompt_origins.may_state(tokens)
        is_undecided = not is_searched or may_be_stated or self._may_have_origins(index)
        if self._scorer.session.meter.exhausted and is_undecided:
            return replace(verdict, reason=self._ended_by)
        return replace(verdict, kind="unsupported")

    def _from(self, origin: Origin, verdict: Verdict, part: Part) -> Verdict:
        if origin.sentence is not None:
            return replace(verdict, kind="follows", follows=origin.sentence, effect=origin.effect)
        carried = self._origins.carriers_without_turns(part)
        relation: Relation = "either" if carried.members else "each"
        if len(carried.members) > 1:
            relation = "together"
        cited = (*carried.members, *carried.alternatives)
        verdict = replace(verdict, kind="conversation", origin="turn", effect=origin.effect)
        return replace(verdict, source_ids=cited, relation=relation)

    @property
    def _ended_by(self) -> Reason:
        """The reason for what was left undone, if something was."""
        return "limit" if self._scorer.session.meter.is_limited else "budget"

    def _may_have_origins(self, index: int) -> bool:
        return bool(index or self._scorer.context.conversation)

    def _origin(self, index: int) -> Origin | None:
        """The earlier sentence, or the conversation, that a sentence comes from, None if neither.

        Where the reliance on the context is large, or time is up, no origin is looked for.
        """
        reliance = total(self._reliance, self._sentences[index].tokens)
        if not self._may_have_origins(index) or reliance >= 2 * self._options.min_reliance:
            return None
        meter = self._scorer.session.meter
        meter.exhausted |= meter.is_late
        return None if meter.is_late else self._origins.largest(index, reliance)
