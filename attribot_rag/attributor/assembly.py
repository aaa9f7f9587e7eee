"""Makes the attribution that users get, from scores and verdicts."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
import transformers

from attribot_rag._version import __version__
from attribot_rag.annotation import Annotation
from attribot_rag.attribution import Attribution, Provenance, ResponseText, SourceGroup
from attribot_rag.attributor.options import Options
from attribot_rag.attributor.prompts import context_fields, location_notes, rag_prompt
from attribot_rag.cached_property import cached_property
from attribot_rag.context import ContextOptions, Document, TokenizedText
from attribot_rag.errors import InvalidInput
from attribot_rag.methods import Method, Scores
from attribot_rag.methods.base import Ranking, Workload
from attribot_rag.model.generation import Generation
from attribot_rag.model.local_model import LocalModel
from attribot_rag.scoring import Budget, Scorer, ScoringOptions
from attribot_rag.support import Likelihoods, RetrievedText, with_support
from attribot_rag.verdicts import Judgement, judge
from attribot_rag.verdicts.markers import markers_in, markers_of

OnSentence = Callable[[Attribution], None]

_UNLIKELY = -6.0
_NOISY = 0.05  # nats


def run_attribution(
    scorer: Scorer,
    method: Method,
    response: str | None,
    options: Options,
    on_sentence: OnSentence | None = None,
    answered_by: str | None = None,
) -> Attribution:
    """Score the sources by a method, judge the response, and return the attribution.

    It has verdicts if scores are in nats. `answered_by` is None if the model gave the response.
    Otherwise it is the name of the model that did, or ''.
    """
    judged = options.verdicts is not None
    ranking = method.ranking(scorer) if judged else Ranking(method.run(scorer))
    shown = ResponseText(*scorer.response.aligned(response))
    assembler = _Assembler(scorer, method, shown, options, answered_by)
    scores = ranking.scores
    if options.verdicts is None or scores.unit != "nats":
        markers = markers_of(markers_in(shown.text, scorer.context).markers)
        return assembler.attribution(Judgement(scores=scores, markers=markers))
    on_progress = None
    if on_sentence is not None:
        on_progress = lambda so_far: on_sentence(assembler.attribution(so_far))  # noqa: E731
    reader_passages = None if answered_by is None else assembler.retrieved
    return assembler.attribution(
        judge(scorer, ranking, shown, options.verdicts, on_progress, read=reader_passages)
    )


@dataclass(frozen=True, eq=False)
class _Assembler:
    """Makes the attribution of one response from judgements of it, unfinished or final."""

    scorer: Scorer
    method: Method
    response: ResponseText
    options: Options
    answered_by: str | None

    @cached_property
    def annotation(self) -> Annotation:
        return Annotation(self.options.annotator, self.response.text, self.scorer.context)

    @cached_property
    def retrieved(self) -> RetrievedText:
        context = self.scorer.context
        language = context.answer_language(self.response.text)
        return RetrievedText(context.documents, context.sources, language)

    @cached_property
    def question(self) -> str:
        return self.scorer.context.pieces.question.strip()

    @cached_property
    def score_question(self) -> Callable[[str], Likelihoods | None]:
        return cache(partial(_question_log_likelihoods, self.scorer, self.question))

    def attribution(self, judgement: Judgement) -> Attribution:
        """The attribution. The scorer's usage is final with the last judgement."""
        scorer, response, answered_by = self.scorer, self.response, self.answered_by
        context, scores = scorer.context, judgement.scores
        markers = [(marker.start, marker.end) for marker in judgement.markers]
        verdicts = with_support(
            self.annotation.of(judgement.verdicts, markers),
            response.text,
            self.retrieved,
            question=self.question,
            markers=markers,
            score_question=self.score_question,
        )
        return Attribution(
            response=response.text,
            token_spans=response.token_spans,
            token_log_likelihoods=scores.token_log_likelihoods
            or (0.0,) * len(response.token_spans),
            **context_fields(context, judgement.markers),
            token_scores=tuple(
                row and tuple(None if math.isnan(score) else score for score in row)
                for row in scores.token_scores
            ),
            exact=scores.exact,
            estimated=scores.estimated if any(scores.estimated) else (),
            notes=(
                *(_generation_notes(scorer, scores) if answered_by is None else ()),
                *_notes(scorer, scores),
                *judgement.notes,
                *_budget_note(scorer),
                *self.annotation.notes,
            ),
            provenance=_provenance(
                scorer, self.method, scores.ranked_by, self.options, answered_by
            ),
            groups=tuple(
                SourceGroup(group.units, group.token_scores, group.exact) for group in scores.groups
            ),
            context_reliance=scores.context_reliance,
            unit=scores.unit,
            incomplete=scorer.session.meter.exhausted,
            verdicts=verdicts,
            markers=judgement.markers,
            numbering=self.options.numbering,
        )


def _question_log_likelihoods(scorer: Scorer, question: str, text: str) -> Likelihoods | None:
    """The log-likelihoods of the question's tokens after this text alone, with their places.

    None without a question, if the model does not run here, if its chat template does not take the
    question alone, or if the budget is spent.
    """
    model = scorer.language_model
    if not isinstance(model, LocalModel) or not question:
        return None
    prompt = rag_prompt(question, [Document(text)], bool(model.tokenizer.chat_template))
    try:
        ids = model.encode_prompt(prompt)
    except InvalidInput:  # the template needs a system message, for example
        return None
    read = TokenizedText.of(ids, model)
    start = read.text.rfind(question)  # the tokenizer may have changed it
    if start < 0:
        return None
    asked = read.tokens_in((start, start + len(question)))
    nats = scorer.score_other(
        Generation(tuple(ids[: asked.start]), tuple(ids[asked.start : asked.stop]))
    )
    if nats is None:
        return None
    spans = read.spans[asked.start : asked.stop]
    return [
        (first - start, end - start, log_likelihood)
        for (first, end), log_likelihood in zip(spans, nats, strict=True)
    ]


def _provenance(
    scorer: Scorer,
    method: Method,
    ranked_by: str | None,
    options: Options,
    answered_by: str | None,
) -> Provenance:
    session, generation, weights = scorer.session, scorer.generation, scorer.language_model.weights
    used = [usage for _, usage in session.usages]
    row = len(generation.prompt_ids) + len(generation.response_ids) - 1
    cost = method.cost(Workload.of(scorer))
    budget = _plain(options.budget or Budget())
    return Provenance(
        method=f"{method.name}, ranked by {ranked_by}" if ranked_by else method.name,
        model=scorer.language_model.name,
        basis="cause" if answered_by is None else "reader",
        answered_by=answered_by or None,
        dtype=weights.dtype_name,
        device=weights.device_name,
        implementation=scorer.prefix.name,
        fallback=scorer.prefix.fallback,
        retokenized=generation.retokenized,
        prompt_tokens=len(generation.prompt_ids),
        prefilled_tokens=scorer.usage.prefilled_tokens,
        scored_tokens=scorer.usage.scored_tokens,
        proxy_tokens=sum(usage.tokens for usage in used) - scorer.usage.tokens,
        forward_passes=sum(usage.forward_passes for usage in used),
        seconds=round(sum(usage.seconds for usage in used), 6),
        flops=sum(usage.flops for usage in used),
        naive_tokens=row * (len(scorer.context.sources) + 1),
        expected_tokens=round(cost.target_tokens + cost.proxy_tokens),
        self_check=session.largest_difference,
        noise=weights.noise,
        options={
            **_plain(options.context or ContextOptions()),
            **_plain(scorer.options),
            **{f"budget_{name}": value for name, value in budget.items()},
        },
        versions={
            "python": platform.python_version(),
            "attribot-rag": __version__,
            "torch": str(torch.__version__),
            "transformers": transformers.__version__,
        },
    )


def _generation_notes(scorer: Scorer, scores: Scores) -> Iterator[str]:
    """Notes on differences between the model's own generation and the scores."""
    if scorer.generation.retokenized:
        yield (
            "Prompt or response was tokenized again, because no generation with both was recorded; "
            "tokens may differ from those that the model saw."
        )
        if scorer.language_model.weights.dequantized:
            yield (
                "The quantized weights of a GGUF file are read as floats: if Ollama "
                "or llama.cpp gave the answer, its log-probabilities differ."
            )
    dropped = scorer.generation.dropped_bytes
    if dropped and scorer.usage.prefilled_tokens:
        yield (
            f"The prompt was read again: its cache, {dropped / 1e6:,.0f} MB, was dropped before "
            "the answer was attributed. Raise max_cache_bytes to keep more."
        )
    if (cut_at := scorer.generation.cut_at) is not None:
        room = scorer.language_model.room(len(scorer.generation.prompt_ids))
        remedy = (
            "raise max_new_tokens"
            if room is None or cut_at < room
            else (
                "no more tokens fit into the model's context: retrieve fewer or shorter documents"
            )
        )
        yield (
            f"The answer was cut off at its length limit of {cut_at} tokens; {remedy} for a longer "
            "one."
        )
    if scorer.generation.out_of_time:
        yield "The answer was cut off when its time was up; allow more time for a longer one."
    settings = scorer.generation.settings
    if settings is not None and settings.constraints:
        names = ", ".join(settings.constraints)
        yield (
            f"Not every token may be the model's choice: {names} may have preferred others. The "
            "answer is scored as if the model had chosen it."
        )
    if scorer.backend.changed_since(scorer.generation):
        yield (
            "The model was changed after it gave this answer (another adapter, a hook, other "
            "weights); the scores are from the model as it is now."
        )
    log_likelihoods = scores.token_log_likelihoods
    if log_likelihoods and sum(log_likelihoods) / len(log_likelihoods) < _UNLIKELY:
        yield (
            "The response is very unlikely for this model after this prompt; "
            "another model or prompt may have given it."
        )


def _notes(scorer: Scorer, scores: Scores) -> Iterator[str]:
    yield from location_notes(scorer.context)
    if (scorer.language_model.weights.noise or 0.0) > _NOISY:
        yield (
            "The server gives other figures for the same text from one call to the next, or than "
            "the reference; scores are no more exact than that."
        )
    if scores.unit != "nats":
        yield (
            f"Scores are not in nats but in units of {scores.unit}, and for the whole answer: no "
            "verdict is given."
        )
    yield from scores.notes
    if scores.num_dropped:
        yield f"{scores.num_dropped} sources were removed as whole tokens, not to the character."


def _budget_note(scorer: Scorer) -> Iterator[str]:
    meter = scorer.session.meter
    if meter.stopped_at_cap:
        yield (
            "Judging reached its limit of tokens, so not everything was decided; "
            "VerdictOptions(token_share=..., min_tokens=...) allows more."
        )
    elif meter.exhausted:
        yield "The budget ran out before everything was scored; a larger one checks more."


def _plain(options: ContextOptions | ScoringOptions | Budget) -> dict[str, Any]:
    """The options as JSON values. A function becomes its repr."""
    return {
        name: value if isinstance(value, str | int | float | None) else repr(value)
        for name, value in vars(options).items()
    }
