"""Proxy attribution: a smaller model reads the same prompt and answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

from attribot_rag.cached_property import cached_property
from attribot_rag.context import (
    Ablation,
    DocumentSpan,
    PromptInput,
    Source,
    TokenizedText,
    locate_context,
)
from attribot_rag.context.context import Context, reduce_context
from attribot_rag.context.prompt import token_anchors
from attribot_rag.errors import ContextTooLong, InvalidInput
from attribot_rag.methods.base import Cost, Method, Scores, TokenScores, Workload
from attribot_rag.methods.leave_one_out import LeaveOneOut
from attribot_rag.model.chat_messages import Message, message_text
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel, Prompt, is_chat
from attribot_rag.scoring import Backend, Scorer, scoring_backend


@dataclass(frozen=True)
class Proxy(Method):
    """Runs any method on a smaller causal model (AttriBoT, section 3.3).

    The proxy may have another tokenizer, template and family. If its token ids differ from the
    target's, the proxy's template renders chat messages, and other prompts are read as text without
    the target's special tokens. The sources are then located in this prompt. The score of a proxy's
    token counts for the target's token that contains the first character of the proxy's token.
    """

    language_model: LanguageModel
    method: Method = field(default_factory=LeaveOneOut)

    @property
    def name(self) -> str:
        return f"proxy ({self.language_model.public_name}, {self.method.name})"

    @cached_property
    def _backend(self) -> Backend:
        return scoring_backend(self.language_model)

    def cost(self, workload: Workload) -> Cost:
        """With the target's tokenizer. The proxy must read the prompt first."""
        parameters = self.language_model.weights.num_parameters
        on_proxy = replace(workload, num_parameters=parameters, is_cached=False)
        cost = self.method.cost(on_proxy)
        return Cost(0.0, cost.target_tokens + cost.proxy_tokens, cost.flops)

    def run(self, scorer: Scorer) -> Scores:
        other = proxied(scorer, self.language_model, self._backend)
        if other is None:
            return Scores.empty(scorer)
        scores = self.method.run(other)
        columns = partial(_columns, scorer, other)
        full, reliance = columns((scores.token_log_likelihoods, scores.context_reliance))
        of_groups = columns([group.token_scores for group in scores.groups])
        note = f"Scores that are not exact are from the proxy {self.language_model.public_name}."
        return replace(
            scores,
            token_log_likelihoods=full,
            token_scores=columns(scores.token_scores),
            exact=(False,) * len(scorer.units),
            context_reliance=reliance,
            of_proxy=True,
            groups=tuple(
                replace(group, token_scores=row, exact=False)
                for group, row in zip(scores.groups, of_groups, strict=True)
                if row is not None
            ),
            notes=(*scores.notes, note),
        )


def proxied(scorer: Scorer, language_model: LanguageModel, backend: Backend) -> Scorer | None:
    """A scorer of the same prompt, response and units for another model; None beyond the budget.

    Raises InvalidInput if the scorer has no prompt input, or if the proxy's prompt lacks a document
    that the target's has.
    """
    prompt_input = scorer.prompt_input
    if prompt_input is None:
        raise InvalidInput("this scorer was made without a prompt_input, which a proxy has to read")
    target = scorer.language_model
    if _encodes_alike(target, language_model, scorer):
        generation, context = scorer.generation.without_cache(), scorer.context
    else:
        prompt_ids = language_model.encode_prompt(_readable(prompt_input, target, language_model))
        tokens = TokenizedText.of(prompt_ids, language_model)
        located = locate_context(tokens, scorer.context.documents, prompt_input.context_options)
        context = _with_ids_of(prompt_input.context, located)
        gone = frozenset(context.present) - frozenset(scorer.context.present)
        context = reduce_context(context, Ablation(gone), language_model)
        response = target.decode(scorer.generation.response_ids, skip_special_tokens=True)
        response_ids = language_model.encode(response)
        generation = Generation(context.prompt.ids, response_ids, retokenized=True)
    length = len(generation.prompt_ids) + len(generation.response_ids) - 1
    most = language_model.weights.max_positions
    if most is not None and length > most:
        raise ContextTooLong(
            f"prompt and response take {length} tokens of the proxy "
            f"{language_model.public_name!r}, which has {most}; use another proxy"
        )
    has_scores = any(usage.scored_tokens for _, usage in scorer.session.usages)  # else it must read
    if has_scores and not scorer.session.meter.fit_or_stop(len(generation.prompt_ids)):
        return None
    return replace(
        scorer,
        language_model=language_model,
        generation=generation,
        context=context,
        backend=backend,
        decoded=None,
    )


def _encodes_alike(target: LanguageModel, proxy: LanguageModel, scorer: Scorer) -> bool:
    """Whether both have the same vocabulary and template, so that they can share token ids."""
    ours, theirs = target.tokenizer, proxy.tokenizer
    if ours.get_vocab() != theirs.get_vocab() or ours.chat_template != theirs.chat_template:
        return False
    text = scorer.context.prompt.text
    return target.encode(text, special=True) == proxy.encode(text, special=True)


def _readable(prompt_input: PromptInput, target: LanguageModel, proxy: LanguageModel) -> Prompt:
    """The prompt for the proxy: messages if it has a chat template, otherwise plain text."""
    prompt = prompt_input.prompt
    if isinstance(prompt, str):
        return target.decode(target.encode_prompt(prompt), skip_special_tokens=True)
    if not is_chat(prompt):
        return target.decode(cast(Sequence[int], prompt), skip_special_tokens=True)
    messages = cast(Sequence[Message], prompt)
    if proxy.tokenizer.chat_template:
        return messages
    return "\n\n".join(map(message_text, messages))


def _with_ids_of(target: Context, proxy: Context) -> Context:
    """The proxy's context with the target's source ids, matched by spans of the documents."""
    by_span = {span: source for source in proxy.sources for span in _spans(source)}
    sources = []
    for source in target.sources:
        matches = [by_span[span] for span in _spans(source) if span in by_span]
        if not matches:
            raise InvalidInput(
                f"the proxy's prompt does not hold the source {source.text[:60]!r}; its template "
                "may change or cut the documents: use another proxy"
            )
        places = {place.start: place for match in matches for place in match.occurrences}
        occurrences = tuple(places[start] for start in sorted(places))
        sources.append(replace(source, occurrences=occurrences))
    return replace(proxy, sources=tuple(sources))


def _spans(source: Source) -> list[DocumentSpan]:
    return [span for occurrence in source.occurrences for span in occurrence.spans]


def _columns(
    target: Scorer, proxy: Scorer, rows: Sequence[TokenScores | None]
) -> tuple[TokenScores | None, ...]:
    """Rows over the proxy's response tokens as rows over the target's, with the same sums."""
    if proxy.generation.response_ids == target.generation.response_ids:
        return tuple(rows)
    ours = target.response
    aligned_text, spans = proxy.response.aligned(ours.text)
    anchors, last = token_anchors(spans, aligned_text), len(ours.ids) - 1
    owners = [min(ours.tokens_touching((at, at + 1)).start, last) for at in anchors]
    mapped: list[TokenScores | None] = []
    for row in rows:
        columns = [0.0] * len(ours.ids)
        for owner, score in zip(owners, row or (), strict=False):
            columns[owner] += score
        mapped.append(None if row is None else tuple(columns))
    return tuple(mapped)
