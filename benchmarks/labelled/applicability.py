"""The applicability of a label to the model: the exact effect of the labelled cause.

A small model ignores a fact now and then, however plainly it is stated. Effects are measured by
exact ablation of the labelled characters, without any code of the verdicts, and summed over the
sentence's tokens. docs/evaluation/error-rates.md gives the rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from attribot_rag.context import Ablation, TokenizedText, locate_context
from attribot_rag.context.text import Interval
from attribot_rag.methods.base import answer_sentences
from attribot_rag.model.generation import Generation
from attribot_rag.scoring import Scorer
from benchmarks.labelled.cases import BETWEEN, ExpectedVerdict, LabelledCase, LabelledSource
from benchmarks.labelled.row_cache import CachingAttributor

LEAST = 3.0
LEAST_OF_SEVERAL = 1.5
MOST_LOST = 0.5
MOST_RELIANCE = 6.0


@dataclass(frozen=True)
class Worth:
    """The effect of the labelled cause in nats; of the whole context if there is none.

    `reason` is why the label is not applicable, None if it is.
    """

    effect: float
    reason: str | None = None


def worths(attributor: CachingAttributor, case: LabelledCase) -> list[Worth]:
    """The effect of the cause of each answer sentence."""
    scorer = _scorer(attributor, case)
    columns = answer_sentences(scorer)
    if len(columns) != len(case.expected):
        raise ValueError(f"{case.id}: {len(columns)} sentences, {len(case.expected)} labels")
    return [
        _Measure(scorer, case, columns, index).worth(expected)
        for index, expected in enumerate(case.expected)
    ]


def _scorer(attributor: CachingAttributor, case: LabelledCase) -> Scorer:
    """A scorer of the case; its documents are their text in the prompt."""
    language_model = attributor.language_model
    prompt_ids = language_model.encode_prompt(case.prompt)
    generation = Generation(prompt_ids, language_model.encode(case.answer), retokenized=True)
    prompt = TokenizedText.of(prompt_ids, language_model)
    context = locate_context(prompt, list(case.shown), attributor.context_options)
    return Scorer(language_model, generation, context, attributor.backend)


@dataclass(frozen=True)
class _Measure:
    """Effects on the sentence with this index, whose tokens are `columns[index]`."""

    scorer: Scorer
    case: LabelledCase
    columns: Sequence[range]
    index: int

    def worth(self, expected: ExpectedVerdict) -> Worth:
        if expected.verdict == "unsupported":
            reliance = self._effect(self.scorer, self.scorer.context.without_documents)
            too_much = reliance > MOST_RELIANCE and not expected.at_any_reliance
            return _judged(reliance, too_much, "the context matters")
        if expected.verdict == "conversation":
            effect = self._of_conversation()
            return _judged(effect, effect < LEAST, "the earlier turn does not matter")
        if expected.follows is not None:
            before = self._of_sentence(expected.follows)
            return _judged(before, before < LEAST, "the earlier sentence does not matter")
        return self._of_sources(expected)

    def _of_sources(self, expected: ExpectedVerdict) -> Worth:
        joint = self._without(expected.sources)
        if joint < LEAST:
            return Worth(joint, "the sources do not matter")
        if expected.relation == "either":
            for kept in expected.sources:
                lost = self._without([source for source in expected.sources if source != kept])
                if lost >= MOST_LOST * joint:
                    return Worth(joint, f"not carried by {kept.text!r} alone")
            return Worth(joint)
        if any(label.relation == "either" for label in expected.acceptable):
            return Worth(joint)
        texts = dict.fromkeys(source.text for source in expected.sources)
        for text in texts if len(texts) > 1 else ():
            copies = [source for source in expected.sources if source.text == text]
            if self._without(copies) < LEAST_OF_SEVERAL:
                return Worth(joint, f"{text!r} does not matter")
        return Worth(joint)

    def _without(self, sources: Sequence[LabelledSource]) -> float:
        places = sorted(self._place(source) for source in sources)
        return self._effect(self.scorer, Ablation(characters=tuple(places)))

    def _place(self, source: LabelledSource) -> Interval:
        """The characters of the labelled text in the prompt."""
        text = self.scorer.context.prompt.text
        before = self.case.shown[: source.document]
        start = text.index(self.case.context)
        start += sum(len(document.strip()) + len(BETWEEN) for document in before)
        pattern = r"\s+".join(map(re.escape, source.shown.split()))
        match = re.search(pattern, text[start:])
        assert match is not None
        return start + match.start(), start + match.end()

    def _of_conversation(self) -> float:
        """The effect of the earlier turns in the prompt without the documents."""
        bare = self._after(self._bare_ids)
        places = []
        done = 0
        for message in self.case.messages[:-1]:
            content = str(message["content"])
            start = bare.context.prompt.text.index(content, done)
            done = start + len(content)
            places.append((start, done))
        return self._effect(bare, Ablation(characters=tuple(places)))

    def _of_sentence(self, earlier: int) -> float:
        """The effect of an earlier sentence after the prompt without the documents."""
        own, before = self.columns[self.index], self.columns[earlier]
        bare = self._bare_ids
        after = self._after((*bare, *self.scorer.generation.response_ids[: own.start]), own.start)
        spans = after.context.prompt.spans[len(bare) :]
        place = spans[before.start][0], spans[before.stop - 1][1]
        return self._effect(after, Ablation(characters=(place,)), own.start)

    @property
    def _bare_ids(self) -> tuple[int, ...]:
        """The prompt without the documents."""
        context = self.scorer.context
        return context.ablate(context.without_documents, self.scorer.language_model).ids

    def _after(self, prompt_ids: tuple[int, ...], first: int = 0) -> Scorer:
        """A scorer of the response from one of its tokens on, after another prompt."""
        scorer = self.scorer
        response_ids = scorer.generation.response_ids[first:]
        prompt = TokenizedText.of(prompt_ids, scorer.language_model)
        return replace(
            scorer,
            generation=Generation(prompt_ids, response_ids),
            context=replace(scorer.context, prompt=prompt),
        )

    def _effect(self, scorer: Scorer, ablation: Ablation, first: int = 0) -> float:
        """The ablation's effect on the sentence; the scorer's response begins at token `first`."""
        change = scorer.score([ablation]).changes[0]
        assert change is not None
        return sum(change[i - first] for i in self.columns[self.index])


def _judged(effect: float, refused: bool, reason: str) -> Worth:
    return Worth(effect, reason if refused else None)
