"""A verdict for each sentence of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from attribot_rag.attribution import Attribution, Verdict
from attribot_rag.methods import Scores
from attribot_rag.scoring import Scorer
from attribot_rag.verdicts.markers import audit
from attribot_rag.verdicts.options import VerdictOptions
from attribot_rag.verdicts.origins import Origin, Origins
from attribot_rag.verdicts.outliers import outliers
from attribot_rag.verdicts.redundancy import Group, find_group
from attribot_rag.verdicts.sentences import Sentence, sentences_of

_FEW = 4


def judge(
    attribution: Attribution, scorer: Scorer, scores: Scores, options: VerdictOptions
) -> Attribution:
    """The attribution with verdicts and an audit of the model's own markers.

    Asks the scorer for what the method did not: the row without the whole context, joint ablations
    where no single source carries a sentence, earlier sentences and turns where nothing does.
    """
    reliance = scores.context_reliance
    if reliance is None:
        reliance = scorer.score([scorer.context.whole]).changes[0]
    attribution = replace(attribution, context_reliance=reliance)
    sentences = sentences_of(attribution)
    judged = Judge(attribution, sentences, scorer, scores, options)
    verdicts = tuple(judged.verdict(index) for index in range(len(sentences)))
    markers = (
        marker
        for index, one in enumerate(sentences)
        for marker in audit(
            attribution,
            (one.start, one.end),
            *_marked(index, sentences, verdicts),
            options.min_effect,
        )
    )
    thinking = {one.thinking for one in sentences}
    conditioned = "The answer was conditioned on the model's own reasoning before it."
    return replace(
        attribution,
        verdicts=verdicts,
        markers=tuple(markers),
        notes=(*attribution.notes, conditioned) if len(thinking) > 1 else attribution.notes,
    )


def _marked(
    index: int, sentences: Sequence[Sentence], verdicts: Sequence[Verdict]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The response tokens that markers in a sentence speak of, and the sources cited for these.

    What follows from another sentence has its sources; "Sources: [1]" speaks of the whole answer.
    """
    sentence, verdict = sentences[index], verdicts[index]
    if sentence.trivial:
        judged = [one for one in sentences if not (one.trivial or one.thinking)]
        everything = chain.from_iterable(one.tokens for one in judged)
        cited = chain.from_iterable(one.source_ids for one in verdicts)
        return tuple(everything), tuple(cited)
    while verdict.follows is not None:
        verdict = verdicts[verdict.follows]
    return sentence.tokens, verdict.source_ids


class Judge:
    """Judges the sentences of one answer."""

    def __init__(
        self,
        attribution: Attribution,
        sentences: Sequence[Sentence],
        scorer: Scorer,
        scores: Scores,
        options: VerdictOptions,
    ) -> None:
        self._attribution = attribution
        self._sentences = sentences
        self._scorer = scorer
        self._scores = scores
        self._options = options
        self._origins: Origins | None = None

    def verdict(self, index: int) -> Verdict:
        """The verdict on one sentence, which may follow from those before it."""
        sentence, options = self._sentences[index], self._options
        unjudged = Verdict(start=sentence.start, end=sentence.end, kind="open")
        if sentence.thinking:
            return replace(unjudged, kind="reasoning")
        if sentence.trivial or not sentence.tokens:
            return replace(unjudged, kind="trivial")
        whole = self._attribution.context_reliance
        if whole is None:
            return unjudged
        reliance = sum(whole[i] for i in sentence.tokens)
        effects = self._effects(sentence)
        cited = self._standing_out(sentence, effects, reliance)
        carried = sum(effects[one] for one in cited)
        stake = max(carried, reliance)
        plain = replace(unjudged, reliance=reliance)
        if stake < 2 * options.min_reliance:
            origin = self._origin(index)
            if origin is not None and origin.effect >= max(
                options.min_origin, options.origin_ratio * stake
            ):
                return replace(
                    plain,
                    kind="conversation" if origin.sentence is None else "follows",
                    effect=origin.effect,
                    follows=origin.sentence,
                )
        if stake < options.min_reliance:
            return replace(plain, kind="unsupported")
        if carried < options.cited_share * reliance:
            cited = ()
        grounded = replace(plain, kind="grounded", source_ids=cited, effect=carried)
        if cited and carried >= options.explained_share * reliance:
            return grounded
        group = self._group(sentence, effects, reliance)
        if group is not None and (group.either or not cited):
            return replace(
                plain,
                kind="redundant" if len(group.source_ids) > 1 else "grounded",
                source_ids=group.source_ids,
                relation=group.relation,
                effect=group.effect,
            )
        return grounded if cited else plain

    def _effects(self, sentence: Sentence) -> dict[int, float]:
        """What each scored source is worth to the sentence, by the best score there is."""
        rows = self._attribution.token_scores
        return {
            source_id: sum(row[i] for i in sentence.tokens)
            for source_id, row in enumerate(rows)
            if row is not None
        }

    def _standing_out(
        self, sentence: Sentence, effects: dict[int, float], reliance: float
    ) -> tuple[int, ...]:
        """Sources that are outliers, or carry most of what the context does; best first.

        Outliers are looked for among scores of one kind: those of the screening, if there was one.
        With four or fewer the test has no power.
        """
        options = self._options
        rows = self._scores.screened or self._scores.token_scores
        sample = {
            source_id: sum(row[i] for i in sentence.tokens)
            for source_id, row in enumerate(rows)
            if row is not None
        }
        found = {one for one in effects if effects[one] >= options.carrying_share * reliance}
        if len(sample) > _FEW:
            ids = list(sample)
            places = outliers([sample[one] for one in ids], form="rosner", alpha=options.alpha)
            found |= {ids[place] for place in places}
        floor = max(options.min_effect, options.min_share * max(effects.values(), default=0.0))
        cited = (one for one in found if effects[one] >= floor)
        return tuple(sorted(cited, key=lambda one: (-effects[one], one)))

    def _group(
        self, sentence: Sentence, effects: dict[int, float], reliance: float
    ) -> Group | None:
        options = self._options
        return find_group(
            self._scorer,
            effects,
            sentence.text,
            sentence.tokens,
            needed=options.explained_share * reliance,
            max_group=options.max_group,
        )

    def _origin(self, index: int) -> Origin | None:
        """The earlier sentence, or the conversation, that matters most to a sentence."""
        earlier = {
            number: one.tokens
            for number, one in enumerate(self._sentences[:index])
            if one.tokens and not one.trivial
        }
        if not earlier and not self._scorer.context.conversation:
            return None
        self._origins = self._origins or Origins(self._scorer)
        found = self._origins.find(self._sentences[index].tokens, earlier)
        return max(found, key=lambda one: one.effect) if found else None
