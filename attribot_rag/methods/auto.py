"""The default method: the few sources that carry each sentence, and estimates of all others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from attribot_rag.context import Context
from attribot_rag.methods.base import (
    Method,
    Scores,
    answer_sentences,
    check_count,
    parts_of,
    scores_of,
    whole_response,
)
from attribot_rag.methods.cost import Cost, Workload
from attribot_rag.methods.leave_one_out import LeaveOneOut, Masked
from attribot_rag.methods.patching import Patching, spread_over
from attribot_rag.methods.proxy import Proxy
from attribot_rag.methods.ranking import Ranking
from attribot_rag.methods.sufficiency import Sufficiency
from attribot_rag.methods.thresholds import Thresholds
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.scoring import Scorer


@dataclass(frozen=True)
class Auto:
    """The whole context, exact rows of the few sources that suffice, estimates of others.

    Without the whole context, the response loses its reliance. Where that matters to a sentence,
    the first 1, 2, 4, ... units alone are scored exactly until they suffice for it, those first
    that hold its words; those that are needed for that are scored by masked ablation (see
    `Sufficiency`). Patching with one gate estimates all units, and observes attention: both rank
    them in turn where words do not settle it. If there are no more than `few` units, all are masked
    instead.

    Where verdicts follow on more units, judging searches itself, by the verdicts' thresholds, and
    asks for the estimates only where it needs them; else other units have no score.

    Where attention is not observed, a `proxy` ranks the units; else, where their words do not
    settle it, what each document, and each unit of the best documents, keeps alone. Without a
    proxy, the other units get no score.
    """

    thresholds: Thresholds = field(default_factory=Thresholds)
    few: int = 4
    proxy: LanguageModel | None = None

    name = "auto"

    def __post_init__(self) -> None:
        check_count("few", self.few, 0)

    def run(self, scorer: Scorer) -> Scores:
        ranking = self.ranking(scorer)
        reliance = ranking.scores.context_reliance
        if reliance is None:
            return ranking.scores
        response, asked, sentences = scorer.response, scorer.context.asked, answer_sentences(scorer)
        parts = parts_of(
            sentences, response.text, lambda *span: response.tokens_in(span), asked, reliance
        )
        search = Sufficiency(scorer, reliance, self.thresholds, ranking)
        if not any(map(search.matters, parts)):
            return replace(ranking.scores, notes=(hardly_matters(scorer.context),))
        ranking.estimate()
        list(search.carriers(parts))
        return search.refine(ranking.scores)

    def ranking(self, scorer: Scorer) -> Ranking:
        """The response's reliance on the whole context, and a ranking of all units if asked."""
        whole = scorer.score([scorer.context.whole])
        scores = whole_response(scorer, None, "nats", scores_of(whole).token_log_likelihoods)
        scores = replace(scores, context_reliance=whole.changes[0])
        return Ranking(scores, partial(self._estimated, scorer))

    def _estimated(self, scorer: Scorer, scores: Scores) -> Scores:
        """The scores with one for each unit, by which they are ranked, if there is a way to one."""
        sentences = answer_sentences(scorer)
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
            estimated=(True,) * len(rows),
            attention=tuple(estimates.attention),
        )

    def cost(self, workload: Workload) -> Cost:
        """With one source that carries the response: patching, only it, and without it.

        Verdicts often do without the patching.
        """
        tail = workload.tail_tokens
        alone = workload.cost(2 * tail + workload.context_tokens / workload.num_sources)
        if workload.num_sources <= self.few:
            return Masked().cost(workload) + workload.cost(tail) + alone
        reliance = workload.cost(workload.baseline_tokens + tail)
        return Patching(1).cost(workload) + reliance + alone


def hardly_matters(context: Context) -> str:
    """A note for the reader that nothing was scored."""
    is_whole = not (context.unseen or context.absent)
    located = "The context" if is_whole else "What was located of the context"
    return f"{located} hardly matters to any sentence: its sources were not scored."
