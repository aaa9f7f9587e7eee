"""The default method, and all methods by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from attribot_rag.errors import InvalidInput
from attribot_rag.methods.base import (
    Cost,
    Method,
    Ranking,
    Scores,
    Workload,
    answer_parts,
    check_count,
    scores_of,
)
from attribot_rag.methods.evidence import Evidence, PartLosses
from attribot_rag.methods.hierarchical import Hierarchical, Pruned, Thorough
from attribot_rag.methods.leave_one_out import LeaveOneOut, Masked, Patching
from attribot_rag.methods.limits import Limits
from attribot_rag.methods.necessity import UnitOrder
from attribot_rag.methods.proxy import Proxy
from attribot_rag.methods.search import find_sources, requests_after_reliance
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.scoring import Request, Scorer

_PATCHING = Patching(1, single_backward_pass=True)


@dataclass(frozen=True)
class Auto(Method):
    """Finds the few sources that are enough for each sentence, and estimates the others.

    The method first measures how much the response relies on all documents. If a sentence relies on
    them, only 1, 2, 4, ... units stay in the prompt, until these units are enough for the sentence.
    Units that share words with the sentence are tried first. Masked ablation then finds out which
    of the units are needed. If this search finds no such units, patching with one gate estimates
    the effect of all units, and observes attention. Then the search tries the units in the order of
    these estimates and of attention. If there are no more than `few` units, masked ablation scores
    all of them instead.

    With verdicts, judging runs this search with its own limits, and the method only ranks units. If
    there are more than `few` units, they get estimates only if the search needs them. Otherwise,
    they have no score.

    A `proxy` ranks the units if this takes fewer FLOPs than patching, or if attention cannot be
    observed. A note says whether the proxy was used. Without a proxy and without attention, single
    documents stay in the prompt, and then single units of the best documents. These units are
    ranked by how much of the response they keep, and the other units get no score.
    """

    limits: Limits = field(default_factory=Limits)
    few: int = 4
    proxy: LanguageModel | None = None

    name = "auto"

    def __post_init__(self) -> None:
        check_count("few", self.few, 0)

    def run(self, scorer: Scorer) -> Scores:
        measured = self._measure_reliance(scorer)
        evidence = Evidence(scorer, measured.context_reliance or (), whole_rows=True)
        if not self._any_part_matters(evidence):
            return measured
        ranking = Ranking(measured, partial(self._estimate, scorer), eager=True)
        parts = answer_parts(scorer, evidence.reliance)
        find_sources(parts, evidence, UnitOrder(scorer, ranking, limits=self.limits), self.limits)
        return evidence.refine(ranking.scores)

    def ranking(self, scorer: Scorer) -> Ranking:
        """The reliance on the documents, with scores of few units, or estimates on demand."""
        measured = self._measure_reliance(scorer)
        evidence = Evidence(scorer, measured.context_reliance or ())
        are_scored = len(scorer.units) <= self.few and self._any_part_matters(evidence)
        return Ranking(measured, partial(self._estimate, scorer), eager=are_scored)

    def _any_part_matters(self, evidence: Evidence) -> bool:
        """Whether a sentence of the response relies on the documents."""
        return bool(evidence.reliance) and any(
            PartLosses(part, evidence.of_whole_answer, self.limits).matters
            for part in answer_parts(evidence.scorer, evidence.reliance)
        )

    def _measure_reliance(self, scorer: Scorer) -> Scores:
        """The response's reliance on all documents."""
        order = UnitOrder(scorer, limits=self.limits)
        prefetched = requests_after_reliance(Evidence(scorer, ()), order, self.few)
        bare = scorer.score_each([Request(scorer.context.without_documents)], prefetched)
        scores = Scores.empty(scorer, scores_of(bare).token_log_likelihoods)
        scores = replace(scores, context_reliance=bare.changes[0])
        if self.proxy is not None:
            why = self._proxy_refusal(scorer) or "no sentence needed a ranking of the sources"
            scores = _noted(scores, self.proxy, f"was not used: {why}.")
        return scores

    def _estimate(self, scorer: Scorer, scores: Scores) -> Scores:
        """The scores with an estimate for each unit, to rank them, if that is possible."""
        is_few = len(scorer.units) <= self.few
        proxy = None if self._proxy_refusal(scorer) else self.proxy
        method: Method
        if is_few:
            method = Masked() if scorer.can_mask else LeaveOneOut()
        elif proxy is not None:
            method = _on(proxy)
        elif scorer.sees_attention:
            method = _PATCHING
        else:
            return scores
        ranked = method.run(scorer)
        scores = replace(
            scores,
            token_scores=ranked.token_scores,
            exact=ranked.exact,
            estimated=tuple(not is_few and row is not None for row in ranked.token_scores),
            attention=ranked.attention,
        )
        if proxy is None:
            return scores
        if not any(scores.estimated):
            return _noted(scores, proxy, "gave no ranking.")
        scores = _noted(scores, proxy, "ranked the sources: estimated scores are its own.")
        return replace(scores, ranked_by=proxy.name)

    def _proxy_refusal(self, scorer: Scorer) -> str | None:
        """Why the proxy does not rank the units; None if it does, or without a proxy."""
        if len(scorer.units) <= self.few:
            return f"up to {self.few} sources are all scored by the model itself"
        if self.proxy is None or not scorer.sees_attention:
            return None
        workload = replace(Workload.of(scorer), is_cached=True)
        own, of_proxy = _PATCHING.cost(workload), _on(self.proxy).cost(workload)
        if not of_proxy.flops:
            return "its number of parameters is not known; ServedModel.connect takes it"
        if of_proxy.flops < own.flops:
            return None
        return (
            f"ranking the sources takes {of_proxy.flops:.1e} FLOPs on it, which has to read the "
            f"prompt, and {own.flops:.1e} on the model itself"
        )

    def cost(self, workload: Workload) -> Cost:
        """The cost if one source explains the answer: a ranking, a row with only this source, and a
        row without it.

        Verdicts often need no ranking. Attention is assumed to be observed.
        """
        tail = workload.tail_tokens
        alone = workload.cost(2 * tail + workload.context_tokens / workload.num_sources)
        if workload.num_sources <= self.few:
            return Masked().cost(workload) + workload.cost(tail) + alone
        reliance = workload.cost(workload.unread_tokens + workload.baseline_tokens + tail)
        ranking = _PATCHING.cost(replace(workload, is_cached=True))
        of_proxy = None if self.proxy is None else _on(self.proxy).cost(workload)
        if of_proxy is not None and 0 < of_proxy.flops < ranking.flops:
            ranking = of_proxy
        return reliance + ranking + alone


@dataclass(frozen=True)
class _Estimates(Method):
    """A proxy's ranking of units."""

    name = "estimates"

    def run(self, scorer: Scorer) -> Scores:
        method = _PATCHING if scorer.sees_attention else Auto()
        return method.run(scorer)

    def cost(self, workload: Workload) -> Cost:
        return _PATCHING.cost(workload)


def _on(proxy: LanguageModel) -> Proxy:
    return Proxy(proxy, _Estimates())


def _noted(scores: Scores, proxy: LanguageModel, what: str) -> Scores:
    """The scores with one note, about the proxy."""
    return replace(scores, notes=(f"The proxy {proxy.name} {what}",))


METHODS: dict[str, Callable[[], Method]] = {
    "auto": Auto,
    "thorough": Thorough,
    "leave_one_out": LeaveOneOut,
    "hierarchical": Hierarchical,
    "masked": Masked,
    "patching": Patching,
    "masked_hierarchical": lambda: Hierarchical(coarse=Masked(), fine=Masked(), shorten=False),
}


def make_method(
    method: str | Method, proxy: LanguageModel | None = None, keep: int | float | None = None
) -> Method:
    """The method with this name, or the given method itself.

    With a `proxy`, 'auto' ranks the sources on it if that takes fewer FLOPs, and any other method
    runs on it. With `keep` too, the proxy keeps so many sources (a number or a fraction), and the
    target scores them by the method: proxy pruning. Raises InvalidInput for an unknown name, or
    `keep` without a proxy.
    """
    if isinstance(method, str):
        if method not in METHODS:
            raise InvalidInput(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
        method = METHODS[method]()
    if isinstance(method, type) or not isinstance(method, Method):
        raise InvalidInput(
            f"method={method!r}; pass a name, or an object of a subclass of Method such as "
            "LeaveOneOut()"
        )
    if keep is not None and proxy is None:
        raise InvalidInput(f"keep={keep!r} is for a proxy; pass proxy=, or set it in the method")
    if proxy is None:
        return method
    if isinstance(method, Auto):
        return replace(method, proxy=proxy) if keep is None else Pruned(Proxy(proxy), keep=keep)
    return Proxy(proxy, method) if keep is None else Pruned(Proxy(proxy), keep=keep, then=method)
