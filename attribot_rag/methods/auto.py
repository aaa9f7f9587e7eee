"""The default method: the few sources that carry each sentence, and estimates of all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from attribot_rag.methods.base import (
    Method,
    Part,
    Scores,
    answer_sentences,
    best,
    check_count,
    in_turn,
    parts_of,
    scores_of,
    span_totals,
    whole_response,
)
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.methods.leave_one_out import LeaveOneOut, Masked
from attribot_rag.methods.patching import Patching, spread_over
from attribot_rag.methods.proxy import Proxy
from attribot_rag.methods.sufficiency import Sufficiency
from attribot_rag.methods.thresholds import Thresholds
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.scoring import Scorer


@dataclass(frozen=True)
class Auto:
    """The whole context, estimates of all sources, exact rows of the few that suffice.

    Without the whole context, the response loses its reliance. Where that matters to a sentence,
    patching with one gate estimates all units, and observes attention: both rank them in turn. The
    first 1, 2, 4, ... units alone are scored exactly until they suffice for the sentence; those
    that are needed for that are scored by masked ablation (see `Sufficiency`). All other units keep
    their estimates. If there are no more than `few` units, all are scored.

    Where the response is judged afterwards, judging searches instead: it knows which sentences need
    no sources. If the reliance of all sentences is little, units are only estimated if a sentence
    needs that which holds most of its words, by masked ablation.

    Where attention is not observed, a `proxy` ranks the units, or else the words that they share
    with a sentence; where that finds none that suffice, what each document, and each unit of the
    best documents, keeps alone. Without a proxy, the other units get no score.
    """

    thresholds: Thresholds = field(default_factory=Thresholds)
    few: int = 4
    proxy: LanguageModel | None = None

    name = "auto"

    def __post_init__(self) -> None:
        check_count("few", self.few, 0)

    def run(self, scorer: Scorer) -> Scores:
        whole = scorer.score([scorer.context.whole])
        reliance = whole.changes[0]
        full = scores_of(whole).token_log_likelihoods
        scores = replace(whole_response(scorer, None, "nats", full), context_reliance=reliance)
        if reliance is None:
            return scores
        search = Sufficiency(scorer, reliance, self.thresholds)
        sentences = answer_sentences(scorer)
        response, asked = scorer.response, scorer.context.asked
        parts = parts_of(
            sentences, response.text, lambda *span: response.tokens_in(span), asked, reliance
        )
        is_judged = scorer.session.judged is scorer.language_model
        is_sought = any(map(search.matters, parts))
        if is_sought and is_judged and len(scorer.units) > self.few:
            is_sought = search.may_be_needed(parts)
        if not is_sought:
            missing = scorer.context.unseen or scorer.context.absent
            located = "What was located of the context" if missing else "The context"
            note = f"{located} hardly matters to any sentence: its sources were not scored."
            return replace(scores, notes=(note,))
        search.score_word_holders(parts)
        scores = self._ranked(scorer, scores, sentences)
        if is_judged:
            scorer.session.needs_search = True
        else:
            list(search.carriers(parts, rankings(scores, parts)))
        return search.refine(scores)

    def _ranked(self, scorer: Scorer, scores: Scores, sentences: Sequence[range]) -> Scores:
        """The scores with one for each unit, by which they are ranked, if there is a way to one."""
        method: Method | None = None
        if len(scorer.units) <= self.few:
            method = LeaveOneOut() if scorer.masked_refusal else Masked()
        elif not scorer.sees_attention and self.proxy is not None:
            method = Proxy(self.proxy, Auto())
        if method is not None:
            ranked = method.run(scorer)
            of_proxy = isinstance(method, Proxy)
            return replace(
                scores,
                token_scores=ranked.token_scores,
                exact=ranked.exact,
                estimated=tuple(of_proxy and row is not None for row in ranked.token_scores),
                notes=ranked.notes,
            )
        estimates = scorer.patched(sentences, located=True)
        if estimates is None:
            return scores
        rows = spread_over(sentences, estimates.effects.tolist(), scorer)
        return replace(
            scores,
            token_scores=rows,
            screened=rows,
            estimated=(True,) * len(rows),
            attention=tuple(estimates.attention),
        )

    def cost(self, workload: Workload) -> Cost:
        """With one source that carries the response: patching, only it, and without it."""
        tail = workload.tail_tokens
        alone = workload.cost(2 * tail + workload.context_tokens / workload.num_sources)
        if workload.num_sources <= self.few:
            return Masked().cost(workload) + workload.cost(tail) + alone
        reliance = workload.cost(workload.baseline_tokens + tail)
        return Patching(1).cost(workload) + reliance + alone


def rankings(scores: Scores, parts: Sequence[Part]) -> list[list[int]] | None:
    """For each part the units by their scores and, in turn, by attention; None without scores."""
    rows = scores.screened or scores.token_scores
    if not any(row is not None for row in rows):
        return None
    attended = [] if scores.attention is None else [best(scores.attention)]
    return [in_turn([best(span_totals(rows, part.tokens)), *attended]) for part in parts]
