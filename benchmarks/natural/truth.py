"""Whether a sentence's citations are true, by plain forward passes over prompts made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from support.implementations import plain_scores

from attribot_rag import Attribution, Document
from attribot_rag.attribution import Verdict
from attribot_rag.context import DocumentSpan
from attribot_rag.context.text import Interval, merge, subtract
from benchmarks.experiment.generation import Question, prompt_of
from benchmarks.labelled.row_cache import RowStore
from benchmarks.natural.answers import TEMPLATE

Spans = Sequence[DocumentSpan]

MIN_RELIANCE = 6.0
MIN_EFFECT = 2.0
DECISIVE = 4.0
NUM_LIKELIEST = 2
NECESSARY = 0.2
SUFFICIENT = 0.3
SUFFICIENT_ALONE = 0.2


@dataclass(frozen=True)
class PromptRows:
    """Log-likelihoods [num_response_tokens], in nats, after prompts with parts of the documents.

    Each prompt is made as text by the template, tokenized, and read whole with the response. The
    store keeps rows by their ids.
    """

    question: Question
    response_ids: tuple[int, ...]
    store: RowStore

    def without(self, spans: Spans) -> torch.Tensor:
        """With all of the documents but these spans."""
        return self.only(
            [
                DocumentSpan(index, start, end)
                for index, document in enumerate(self.question.example.documents)
                for start, end in subtract((0, len(document.text)), _within(spans, index))
            ]
        )

    def only(self, spans: Spans) -> torch.Tensor:
        """With nothing of the documents but these spans."""
        example, language_model = self.question.example, self.question.language_model
        documents = []
        for index, document in enumerate(example.documents):
            pieces = (document.text[start:end].strip() for start, end in _within(spans, index))
            documents.append(Document(" ".join(filter(None, pieces))))
        kept = tuple(document for document in documents if document.text)
        prompt = prompt_of(replace(example, documents=kept), TEMPLATE, language_model)
        prompt_ids = language_model.encode_prompt(prompt)
        key = ("plain", language_model.name, language_model.dtype, prompt_ids, self.response_ids)
        return self.store.vector(key, lambda: self._score(prompt_ids))

    def _score(self, prompt_ids: tuple[int, ...]) -> torch.Tensor:
        model, kept = self.question.language_model.model, len(self.response_ids) + 1
        return plain_scores(
            model, prompt_ids, self.response_ids, logits_to_keep=kept, use_cache=False
        )


def _within(spans: Spans, document: int) -> list[Interval]:
    return merge((span.start, span.end) for span in spans if span.document == document)


@dataclass(frozen=True)
class Truth:
    """The effects, in nats, that decide on the citations of a sentence; None if not needed.

    `reliance` is its loss without any document, `lost` its loss with only the cited sources (if it
    cites none, with the single source that carries most of it), `effect` its loss without them (if
    it cites none, without the one of its `likeliest` sources that costs most).
    """

    reliance: float
    lost: float | None = None
    effect: float | None = None
    is_false: bool = False
    is_carried: bool = False
    is_caused: bool = False

    @property
    def is_missed(self) -> bool:
        """Whether the sentence cites nothing though a single source suffices, or is decisive."""
        return self.is_carried or self.is_caused


def truth_of(
    rows: PromptRows,
    tokens: range,
    cited: Spans,
    sources: Sequence[Spans],
    likeliest: Callable[[], Sequence[Spans]],
    *,
    is_direct: bool = True,
) -> Truth:
    """The truth about a sentence, which is these tokens of the response.

    Cited sources are true if they suffice or are necessary: with nothing else the sentence loses
    at most 30 % of its reliance, or without them at least 20 % and 2 nats. A sentence that cites
    nothing misses its cause if its reliance is 6 nats or more and it loses at most 20 % of that
    with a single source alone, or if it loses 4 nats or more without one of the `likeliest`.

    Unless it `is_direct`, the sentence follows from another, and `cited` are the sources of that:
    if they are true of this sentence, too, it misses no cause, and else it cites nothing.
    """

    def loss(row: torch.Tensor) -> float:
        return float((whole - row)[tokens.start : tokens.stop].sum())

    whole = rows.without(())
    reliance = loss(rows.only(()))
    if cited:
        lost = loss(rows.only(cited))
        if lost <= SUFFICIENT * reliance:
            return Truth(reliance, lost)
        effect = loss(rows.without(cited))
        is_necessary = effect >= max(MIN_EFFECT, NECESSARY * reliance)
        if is_necessary or is_direct:
            return Truth(reliance, lost, effect, is_false=not is_necessary)
    effect = max((loss(rows.without(source)) for source in likeliest()), default=0.0)
    truth = Truth(reliance, effect=effect, is_caused=effect >= DECISIVE)
    if reliance < MIN_RELIANCE:
        return truth
    lost = min(loss(rows.only(source)) for source in sources)
    return replace(truth, lost=lost, is_carried=lost <= SUFFICIENT_ALONE * reliance)


@dataclass(frozen=True)
class JudgedSentence:
    """A sentence with its verdict, the texts of the sources that it cites, and the truth."""

    text: str
    verdict: Verdict
    cited: tuple[str, ...]
    truth: Truth


def judged_sentences(
    attribution: Attribution, rows: PromptRows, masked: Callable[[], Attribution]
) -> Iterator[JudgedSentence]:
    """The sentences of a response whose verdict can be right or wrong.

    The likeliest causes of a sentence without a citation are the two best by `masked` scores of all
    sources.
    """

    def likeliest(start: int, end: int) -> list[Spans]:
        best = masked().top(NUM_LIKELIEST, start, end)
        return [sources[ranked.source.id] for ranked in best]

    sources = [
        [span for occurrence in source.occurrences for span in occurrence.spans]
        for source in attribution.sources
    ]
    for verdict in attribution.verdicts:
        if verdict.kind not in ("trivial", "reasoning"):
            tokens = attribution.tokens_in(verdict.start, verdict.end)
            leads_to = verdict.traced(attribution.verdicts).source_ids
            spans = [span for index in leads_to for span in sources[index]]
            yield JudgedSentence(
                text=attribution.response[verdict.start : verdict.end].strip(),
                verdict=verdict,
                cited=tuple(attribution.sources[index].text for index in verdict.source_ids),
                truth=truth_of(
                    rows,
                    tokens,
                    spans,
                    sources,
                    partial(likeliest, verdict.start, verdict.end),
                    is_direct=verdict.kind != "follows",
                ),
            )
