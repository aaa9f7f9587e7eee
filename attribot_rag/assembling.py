"""From a method's scores to the attribution that the user gets."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from attribot_rag.attribution import Attribution, Provenance, SourceGroup
from attribot_rag.attribution.notes import not_found_note
from attribot_rag.context import ContextOptions, TokenizedText
from attribot_rag.context.alignment import align
from attribot_rag.methods import Method, Scores
from attribot_rag.methods.cost import Workload
from attribot_rag.scoring import Budget, Scorer, ScoringOptions

_UNLIKELY = -6.0
_RAN_OUT = "The budget ran out before everything was scored."


def assemble(
    scorer: Scorer, method: Method, scores: Scores, response: str | None, *options: object
) -> Attribution:
    """The scores with their texts, spans, notes and provenance; no verdicts yet.

    `response` is the text that was shown, if it differs from the decoded one by white space.
    """
    generation, context = scorer.generation, scorer.context
    decoded = TokenizedText.of(
        generation.response_ids, scorer.language_model, skip_special_tokens=True
    )
    text, spans = align(decoded, response)
    unscored = (0.0,) * len(spans)
    return Attribution(
        response=text,
        token_spans=spans,
        token_log_likelihoods=scores.token_log_likelihoods or unscored,
        documents=context.documents,
        not_located=context.not_located,
        partly_located=context.partly_located,
        sources=context.sources,
        token_scores=scores.token_scores,
        exact=scores.exact,
        notes=tuple(_notes(scorer, scores)),
        provenance=_provenance(scorer, method, *options),
        groups=tuple(SourceGroup(one.units, one.token_scores, one.exact) for one in scores.groups),
        context_reliance=scores.context_reliance,
        agreement=scores.agreement,
        unit=scores.unit,
    )


def finished(
    attribution: Attribution, scorer: Scorer, method: Method, *options: object
) -> Attribution:
    """With what everything has cost, verdicts included, and whether the budget sufficed."""
    partial = scorer.session.meter.exhausted
    return replace(
        attribution,
        provenance=_provenance(scorer, method, *options),
        partial=partial,
        notes=(*attribution.notes, _RAN_OUT) if partial else attribution.notes,
    )


def _provenance(scorer: Scorer, method: Method, *options: object) -> Provenance:
    """How the scores came about, and what that has cost so far."""
    session, generation = scorer.session, scorer.generation
    used = [usage for _, usage in session.usages]
    row = len(generation.prompt_ids) + len(generation.response_ids) - 1
    cost = method.cost(workload_of(scorer))
    return Provenance(
        method=method.name,
        model=scorer.language_model.name,
        dtype=str(scorer.language_model.dtype).removeprefix("torch."),
        device=str(scorer.language_model.device),
        implementation=scorer.implementation,
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
        self_check=session.self_check,
        options={name: value for one in options for name, value in _described(one).items()},
        versions={
            "python": platform.python_version(),
            **{name: version(name) for name in ("attribot-rag", "torch", "transformers")},
        },
    )


def workload_of(scorer: Scorer) -> Workload:
    """What the cost model has to know of a scorer."""
    context, generation = scorer.context, scorer.generation
    first = context.prompt.tokens_in(context.regions[0]).start if context.regions else context.end
    num_sources = len(context.sources)
    num_documents = len({i for source in context.sources for i in source.documents})
    return Workload(
        context_tokens=context.end - first,
        query_tokens=len(generation.prompt_ids) - context.end,
        response_tokens=len(generation.response_ids),
        num_sources=num_sources,
        num_groups=max(1, min(num_documents, num_sources)),
        target_parameters=scorer.language_model.num_parameters,
        taken_over=generation.cache is not None,
        preamble_tokens=first,
    )


def _notes(scorer: Scorer, scores: Scores) -> Iterator[str]:
    if scorer.generation.retokenized:
        yield (
            "Prompt or response was tokenized again; the ids need not be those of the generation."
        )
    if scorer.context.not_located:
        yield not_found_note(scorer.context.not_located)
    if scores.unit != "nats":
        yield (
            f"Scores are not in nats but in units of {scores.unit}, and for the whole answer: no "
            "verdict is given."
        )
    yield from scores.notes
    if scores.num_dropped:
        yield f"{scores.num_dropped} sources were removed as whole tokens, not to the character."
    log_likelihoods = scores.token_log_likelihoods
    if log_likelihoods and sum(log_likelihoods) / len(log_likelihoods) < _UNLIKELY:
        yield (
            "The response is very unlikely for this model after this prompt; "
            "another model or prompt may have given it."
        )


def _described(options: object) -> dict[str, Any]:
    prefix = "budget_" if isinstance(options, Budget) else ""
    assert isinstance(options, Budget | ContextOptions | ScoringOptions)
    return {
        prefix + name: value if isinstance(value, str | int | float | None) else repr(value)
        for name, value in vars(options).items()
    }
