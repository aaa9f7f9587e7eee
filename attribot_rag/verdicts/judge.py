"""A verdict for each sentence of an answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from rapidfuzz import fuzz

from attribot_rag.attribution import Marker, ResponseText, Verdict
from attribot_rag.attribution.verdict import Reason
from attribot_rag.methods import Scores
from attribot_rag.methods.base import TokenScores
from attribot_rag.scoring import Scorer
from attribot_rag.verdicts.evidence import Evidence
from attribot_rag.verdicts.joint import JointEffects
from attribot_rag.verdicts.marker_audit import MarkerAudit, numbered_documents
from attribot_rag.verdicts.markers import written_markers
from attribot_rag.verdicts.options import VerdictOptions
from attribot_rag.verdicts.origins import Origin, Origins
from attribot_rag.verdicts.redundancy import Group, find_group
from attribot_rag.verdicts.sentences import AnswerSentence, sentences_of
from attribot_rag.verdicts.thinking import thinking_of

_NUM_LIKELY = 4
_FEW = 10
_CONDITIONED = "The answer was conditioned on the model's own reasoning before it."


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdicts on an answer's sentences, the audit of its markers, and notes for the reader.

    `context_reliance` is the score of the whole context for each response token in nats, None if
    it was not measured.
    """

    verdicts: tuple[Verdict, ...] = ()
    markers: tuple[Marker, ...] = ()
    notes: tuple[str, ...] = ()
    context_reliance: TokenScores | None = None


def judge(
    scorer: Scorer, scores: Scores, response: ResponseText, options: VerdictOptions
) -> Judgement:
    """Judge each sentence of a response by its scores, and the citations the model wrote in it.

    Scores what the method did not: the prompt without the whole context, joint ablations where no
    single source carries a sentence, earlier sentences and turns where no source does.
    """
    meter = scorer.session.meter
    meter.reserve(max(options.min_tokens, round(options.token_share * meter.tokens)))
    reliance = scores.context_reliance
    if reliance is None:
        reliance = scorer.score([scorer.context.whole]).changes[0]
    numbers = numbered_documents(scorer.context)
    markers = written_markers(response.text, numbers, scorer.context.documents)
    thinking = thinking_of(
        response, scorer.generation, scorer.language_model, options.thinking_tags
    )
    language = scorer.context.answer_language(response.text)
    sentences = sentences_of(response, markers, thinking, language)
    judged = _Judge(sentences, scorer, scores, reliance, options)
    verdicts = tuple(judged.verdict(index) for index in range(len(sentences)))
    audit = MarkerAudit(markers, scorer.context, scores, options.min_effect)
    has_reasoning = len({sentence.thinking for sentence in sentences}) > 1
    return Judgement(
        verdicts=verdicts,
        markers=tuple(_markers(audit, sentences, verdicts)),
        notes=(_CONDITIONED,) if has_reasoning else (),
        context_reliance=reliance,
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
    """Judges each sentence of an answer by its evidence and by the sentences before it."""

    def __init__(
        self,
        sentences: Sequence[AnswerSentence],
        scorer: Scorer,
        scores: Scores,
        reliance: TokenScores | None,
        options: VerdictOptions,
    ) -> None:
        self._sentences = sentences
        self._scorer = scorer
        self._scores = scores
        self._reliance = reliance
        self._options = options
        exact_rows = {
            source_id: row
            for source_id, (row, exact) in enumerate(
                zip(scores.token_scores, scores.exact, strict=True)
            )
            if row is not None and exact
        }
        self._joint = JointEffects(scorer, exact_rows)

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

    def verdict(self, index: int) -> Verdict:
        """The verdict on a sentence, which may follow from an earlier sentence."""
        sentence, options = self._sentences[index], self._options
        unjudged = Verdict(start=sentence.start, end=sentence.end, kind="open")
        if sentence.thinking:
            return replace(unjudged, kind="reasoning")
        if sentence.trivial or not sentence.tokens:
            return replace(unjudged, kind="trivial")
        if self._reliance is None:
            return replace(unjudged, reason=self._ended_by)
        evidence = Evidence.of(
            self._scores,
            sentence.tokens,
            self._reliance,
            sentence.figures,
            self._scorer.models.noise or 0.0,
        )
        plain = replace(unjudged, reliance=evidence.reliance)
        cited = evidence.cited(options)
        if not cited and index == self._fragment:
            return replace(plain, reason="cut")
        if not cited:
            origin = self._origin(index, evidence.reliance)
            if origin is not None:
                return replace(
                    plain,
                    kind="conversation" if origin.sentence is None else "follows",
                    effect=origin.effect,
                    follows=origin.sentence,
                )
        carried = sum(evidence.effects[source_id] for source_id in cited)
        grounded = replace(plain, kind="grounded", source_ids=cited, effect=carried)
        if cited and evidence.is_explained_by(cited, options):
            return grounded
        group = None
        invented = not cited and evidence.has_unknown_figures(options)
        # Several sources that decide on words of their own are no group.
        if evidence.reliance >= options.min_effect and len(cited) < 2 and not invented:
            group = self._group(sentence, evidence)
        weak = carried < options.cited_share * evidence.reliance
        if group is not None and (group.relation != "together" or weak):
            return replace(
                plain,
                kind="redundant" if len(group.source_ids) > 1 else "grounded",
                source_ids=group.source_ids,
                relation=group.relation,
                effect=group.effect,
            )
        if cited and not weak:
            return grounded
        exhausted = self._scorer.session.meter.exhausted
        if evidence.reliance < options.min_reliance or invented:
            if self._scorer.context.unseen:
                return replace(plain, reason="not_located")
            if not (exhausted and self._may_have_origins(index)):
                return replace(plain, kind="unsupported")
        return replace(plain, reason=self._ended_by if exhausted else "scattered")

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

    def _group(self, sentence: AnswerSentence, evidence: Evidence) -> Group | None:
        """The sources that carry a sentence together or each alone, None without such sources."""
        if not self._in_time():
            return None
        needed = self._options.explained_share * evidence.reliance
        group = find_group(
            self._joint,
            self._candidates(sentence, evidence),
            sentence.tokens,
            [
                token
                for figure in evidence.figures
                if figure.is_retrieved(self._options)
                for token in figure.tokens
            ],
            needed=needed,
            options=self._options,
        )
        return None if group is None or group.effect < evidence.floor(self._options) else group

    def _candidates(self, sentence: AnswerSentence, evidence: Evidence) -> list[int]:
        """The sources most likely to carry a sentence, by effect, likeness and attention."""
        context = self._scorer.context
        if len(context.present) <= _FEW:
            return list(context.present)
        effects = evidence.effects
        effective = sorted(effects, key=lambda source: -effects[source])
        weights = self._scores.attention or ()
        attended = sorted(range(len(weights)), key=lambda source: -weights[source])
        alike = sorted(
            context.present,
            key=lambda source: -fuzz.token_set_ratio(context.sources[source].text, sentence.text),
        )
        ranked = (effective[:_NUM_LIKELY], alike[:_NUM_LIKELY], attended[:_NUM_LIKELY])
        return list(dict.fromkeys(chain.from_iterable(ranked)))

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
