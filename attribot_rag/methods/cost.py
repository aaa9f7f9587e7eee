"""What each method costs in tokens and FLOPs, before it runs.

A token through a model of P parameters is counted as 2·P FLOPs; the part of attention that grows
with the square of the length is left out, so long contexts cost more than this says.

The formulas are derived from the definitions of the methods (AttriBoT, ICLR 2025); they are not its
Table 1. They are averages for sources of equal length in groups of equal size:

- an ablated row is counted as long as its whole context: the removed source, 1/|S| of the context,
  or the removed group, 1/|G|, is not taken off;
- a cached row encodes again what follows its removed source, on average half of its context;
- what stands before the context is read with every whole row (the formulas leave it out), but not
  again where there is a cache;
- where generation's cache is not there, the methods that build on it read the prompt first, once;
- every context that is scored needs one more row, with nothing removed, which fills the cache;
- a proxy has the target's tokenizer, so it sees as many tokens;
- caches are not carried from a context to a shortened one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from attribot_rag.errors import InvalidInput

Recomputed = Literal["response", "query_and_response", "document", "rest"]
"""What a masked row encodes again: the response, the query too, and what follows the removed source
in its group ('document') or in the whole context ('rest')."""


@dataclass(frozen=True)
class Workload:
    """One answer to attribute: lengths in tokens, numbers of sources and groups, model sizes.

    The context is all from the first document to the last, the query what follows it, and
    `preamble_tokens` are those before it. Without a proxy, `proxy_parameters` is None. `taken_over`
    says that generation's cache is there, so that the prompt need not be read first.
    Raises InvalidInput for numbers that no answer can have.
    """

    context_tokens: int
    query_tokens: int
    response_tokens: int
    num_sources: int
    num_groups: int
    target_parameters: int
    proxy_parameters: int | None = None
    taken_over: bool = False
    preamble_tokens: int = 0

    def __post_init__(self) -> None:
        for name in ("context_tokens", "query_tokens", "preamble_tokens"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"{name} is {getattr(self, name)}; it must be at least 0")
        for name in ("response_tokens", "num_sources", "target_parameters"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.proxy_parameters is not None and self.proxy_parameters < 1:
            raise InvalidInput(
                f"proxy_parameters is {self.proxy_parameters}; it must be at least 1"
            )
        if not 1 <= self.num_groups <= self.num_sources:
            raise InvalidInput(
                f"num_groups is {self.num_groups}; it must be from 1 to num_sources,"
                f" {self.num_sources}"
            )

    @property
    def prompt_tokens(self) -> int:
        return self.preamble_tokens + self.context_tokens + self.query_tokens

    def shortened(self, share: float) -> Workload:
        """What is left where a share of the context was kept and the rest taken out for good."""
        kept = self.narrowed(share)
        return replace(kept, context_tokens=round(self.context_tokens * share), taken_over=False)

    def narrowed(self, share: float) -> Workload:
        """A share of the sources and groups in the same context."""
        num_sources = max(1, round(self.num_sources * share))
        num_groups = max(1, min(num_sources, round(self.num_groups * share)))
        return replace(self, num_sources=num_sources, num_groups=num_groups)

    def after(self, earlier: Cost) -> Workload:
        """The same once the target has been used, so that its prompt need not be read again."""
        return replace(self, taken_over=self.taken_over or earlier.target_tokens > 0)


@dataclass(frozen=True)
class Cost:
    """Tokens that each model encodes, on average, and the FLOPs of both together."""

    target_tokens: float
    proxy_tokens: float
    flops: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.target_tokens + other.target_tokens,
            self.proxy_tokens + other.proxy_tokens,
            self.flops + other.flops,
        )


def leave_one_out(workload: Workload) -> Cost:
    """No cache: |S| + 1 rows of |C| + |Q| + |R| tokens."""
    return _on_target(workload, _leave_one_out_tokens(workload, cached=False))


def leave_one_out_cached(workload: Workload) -> Cost:
    """KV caching: one row of |C| + |Q| + |R| tokens, |S| rows of |C|/2 + |Q| + |R|.

    The first row has |R| tokens where generation's cache is taken over.
    """
    without_prompt = _leave_one_out_tokens(workload, cached=True) - workload.prompt_tokens
    return _on_target(workload, without_prompt + _read_first(workload))


def hierarchical(workload: Workload, *, keep: int) -> Cost:
    """No cache: |G| + 1 rows over the context, then one per source of the `keep` best groups.

    The second stage has k·|S|/|G| + 1 rows of k·|C|/|G| + |Q| + |R| tokens, for k groups kept.
    Raises InvalidInput unless `keep` is from 1 to |G|.
    """
    return _on_target(workload, _hierarchical_tokens(workload, keep, cached=False))


def hierarchical_cached(workload: Workload, *, keep: int) -> Cost:
    """KV caching + hierarchical: both stages with a cache of their own context."""
    return _on_target(workload, _hierarchical_tokens(workload, keep, cached=True))


def proxy(workload: Workload) -> Cost:
    """Leave-one-out without a cache on the proxy alone; raises InvalidInput without a proxy."""
    return _cost(workload, proxy_tokens=_leave_one_out_tokens(workload, cached=False))


def proxy_cached(workload: Workload) -> Cost:
    """KV caching + proxy."""
    return _cost(workload, proxy_tokens=_leave_one_out_tokens(workload, cached=True))


def proxy_hierarchical_cached(workload: Workload, *, keep: int) -> Cost:
    """KV caching + proxy + hierarchical: `hierarchical_cached` on the proxy alone."""
    return _cost(workload, proxy_tokens=_hierarchical_tokens(workload, keep, cached=True))


def proxy_pruning(workload: Workload, *, keep: int) -> Cost:
    """No cache: leave-one-out on the proxy, then the target scores the `keep` best sources.

    The target has k + 1 rows of k·|C|/|S| + |Q| + |R| tokens, for k sources kept. Raises
    InvalidInput without a proxy, or unless `keep` is from 1 to |S|.
    """
    return _proxy_pruning(workload, keep, cached=False)


def proxy_pruning_cached(workload: Workload, *, keep: int) -> Cost:
    """KV caching + proxy pruning: each model with a cache of the context that it scores."""
    return _proxy_pruning(workload, keep, cached=True)


def masked_leave_one_out(
    workload: Workload, *, recomputed: Recomputed = "query_and_response"
) -> Cost:
    """Ours: |S| + 1 rows of what is recomputed.

    That is |R| or |Q| + |R| tokens: the cache of the prompt stays as it is, and a source is hidden
    from the recomputed tokens. With 'document' a row has (|C|/|G| - |C|/|S|)/2 tokens more, with
    'rest' (|C| - |C|/|S|)/2.
    """
    return _masked(workload, workload.num_sources + 1, recomputed)


def attention(workload: Workload, *, recomputed: Recomputed = "query_and_response") -> Cost:
    """One row of |Q| + |R| or |R| tokens, whose attention weights are looked at."""
    return _masked(workload, 1, recomputed)


def gradient(workload: Workload) -> Cost:
    """One row of |C| + |Q| + |R| tokens forward and back, which takes twice as long as forward."""
    forward = _on_target(workload, workload.prompt_tokens + workload.response_tokens)
    return Cost(forward.target_tokens, 0.0, 3 * forward.flops)


def context_cite(workload: Workload, *, num_ablations: int, keep: float = 0.5) -> Cost:
    """The full row, and `num_ablations` rows of keep·|C| + |Q| + |R| tokens.

    Of a cached prompt hardly anything can be shared: the first removed source stands near its
    beginning.
    """
    tail = workload.query_tokens + workload.response_tokens
    full = _read_first(workload) + workload.response_tokens
    rows = num_ablations * (keep * workload.context_tokens + tail)
    return _on_target(workload, full + rows)


def masked_hierarchical(
    workload: Workload, *, keep: int, recomputed: Recomputed = "query_and_response"
) -> Cost:
    """Ours: masked leave-one-out of |G| groups, then of the sources in the `keep` best.

    |G| + k·|S|/|G| + 1 rows, for k groups kept: the context stays whole in both stages, so the row
    with nothing hidden serves both. Raises InvalidInput unless `keep` is from 1 to |G|.
    """
    _check_keep(keep, workload.num_groups, "groups")
    rows = workload.num_groups + keep * workload.num_sources / workload.num_groups + 1
    return _masked(workload, rows, recomputed)


def _read_first(workload: Workload) -> int:
    return 0 if workload.taken_over else workload.prompt_tokens


def _masked(workload: Workload, rows: float, recomputed: str) -> Cost:
    again = rows * _recomputed_tokens(workload, recomputed)
    return _on_target(workload, _read_first(workload) + again)


def _proxy_pruning(workload: Workload, keep: int, *, cached: bool) -> Cost:
    _check_keep(keep, workload.num_sources, "sources")
    context_kept = workload.context_tokens * keep / workload.num_sources
    return _cost(
        workload,
        target_tokens=_tokens(workload, context_kept, keep, cached=cached),
        proxy_tokens=_leave_one_out_tokens(workload, cached=cached),
    )


def _leave_one_out_tokens(workload: Workload, *, cached: bool) -> float:
    return _tokens(workload, workload.context_tokens, workload.num_sources, cached=cached)


def _hierarchical_tokens(workload: Workload, keep: int, *, cached: bool) -> float:
    _check_keep(keep, workload.num_groups, "groups")
    context_kept = workload.context_tokens * keep / workload.num_groups
    sources_kept = workload.num_sources * keep / workload.num_groups
    of_groups = _tokens(workload, workload.context_tokens, workload.num_groups, cached=cached)
    return of_groups + _tokens(workload, context_kept, sources_kept, cached=cached)


def _tokens(workload: Workload, context_tokens: float, ablations: float, *, cached: bool) -> float:
    """Tokens of one context's full row and of its ablated rows."""
    tail = workload.query_tokens + workload.response_tokens
    whole = workload.preamble_tokens + context_tokens
    again = context_tokens / 2 if cached else whole
    return whole + tail + ablations * (again + tail)


def _recomputed_tokens(workload: Workload, recomputed: str) -> int:
    if recomputed not in get_args(Recomputed):
        valid = ", ".join(get_args(Recomputed))
        raise InvalidInput(f"unknown recomputed {recomputed!r}; choose one of {valid}")
    if recomputed == "response":
        return workload.response_tokens
    tail = workload.query_tokens + workload.response_tokens
    if recomputed == "query_and_response":
        return tail
    stretches = workload.num_groups if recomputed == "document" else 1
    stretch = workload.context_tokens / stretches
    return tail + round((stretch - workload.context_tokens / workload.num_sources) / 2)


def _on_target(workload: Workload, tokens: float) -> Cost:
    return Cost(tokens, 0.0, float(2 * workload.target_parameters * tokens))


def _cost(workload: Workload, *, proxy_tokens: float, target_tokens: float = 0.0) -> Cost:
    if workload.proxy_parameters is None:
        raise InvalidInput("the workload has no proxy; give proxy_parameters")
    flops = 2 * (
        workload.target_parameters * target_tokens + workload.proxy_parameters * proxy_tokens
    )
    return Cost(target_tokens, proxy_tokens, flops)


def _check_keep(keep: int, limit: int, kept: str) -> None:
    if not 1 <= keep <= limit:
        raise InvalidInput(f"keep is {keep}; it must be from 1 to the {limit} {kept}")
