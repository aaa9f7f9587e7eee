"""The expected cost of a method in tokens and FLOPs.

A token through a model of P parameters counts as 2·P FLOPs; the part of attention that grows with
the square of the length is left out. Every method has a formula, which follows from its definition
(AttriBoT, ICLR 2025, section 3). The formulas are averages for sources of equal length in groups
of equal size: a row is as long as its whole context, and a cached row encodes half of it again.
Every context needs one more row, with nothing removed; a proxy reads as many tokens as the target.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attribot_rag.scoring import Scorer


@dataclass(frozen=True)
class Cost:
    """Tokens that each model encodes, and the FLOPs of both together."""

    target_tokens: float
    proxy_tokens: float
    flops: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.target_tokens + other.target_tokens,
            self.proxy_tokens + other.proxy_tokens,
            self.flops + other.flops,
        )


@dataclass(frozen=True)
class Workload:
    """Lengths in tokens, numbers of sources and groups, and the size of the model.

    The context is everything from the first document to the last; the preamble precedes it, the
    query follows it. `is_cached`: the model has read the prompt already; `has_baseline`: the
    row with nothing removed is scored already.
    """

    context_tokens: int
    query_tokens: int
    response_tokens: int
    num_sources: int
    num_groups: int
    num_parameters: int
    is_cached: bool = False
    has_baseline: bool = False
    preamble_tokens: int = 0

    @classmethod
    def of(cls, scorer: Scorer) -> Workload:
        """The workload of scoring the scorer's sources."""
        context, generation = scorer.context, scorer.generation
        regions = context.regions
        first = context.prompt.tokens_in(regions[0]).start if regions else context.end
        num_sources = len(context.sources)
        num_documents = len({i for source in context.sources for i in source.documents})
        return cls(
            context_tokens=context.end - first,
            query_tokens=len(generation.prompt_ids) - context.end,
            response_tokens=len(generation.response_ids),
            num_sources=num_sources,
            num_groups=max(1, min(num_documents, num_sources)),
            num_parameters=scorer.language_model.weights.num_parameters,
            is_cached=generation.cache is not None,
            preamble_tokens=first,
        )

    @property
    def prompt_tokens(self) -> int:
        return self.preamble_tokens + self.context_tokens + self.query_tokens

    @property
    def unread_tokens(self) -> int:
        """The prompt's, unless it is cached."""
        return 0 if self.is_cached else self.prompt_tokens

    @property
    def baseline_tokens(self) -> int:
        """The response's, unless the row with nothing removed is scored."""
        return 0 if self.has_baseline else self.response_tokens

    @property
    def tail_tokens(self) -> int:
        """The query's and the response's."""
        return self.query_tokens + self.response_tokens

    def cost(self, tokens: float) -> Cost:
        """The cost of so many tokens through the model."""
        return Cost(tokens, 0.0, float(2 * self.num_parameters * tokens))

    def cost_without_cache(self) -> Cost:
        """The cost of leave-one-out without a cache: |S| + 1 rows of |C| + |Q| + |R| tokens."""
        row = self.prompt_tokens + self.response_tokens
        return self.cost((self.num_sources + 1) * row)

    def narrowed(self, share: float, *, shorten: bool = False) -> Workload:
        """A share of the sources and groups in the same context.

        With `shorten`, they are in a prompt without the others, which is not read yet.
        """
        num_sources = max(1, round(self.num_sources * share))
        num_groups = max(1, min(num_sources, round(self.num_groups * share)))
        narrowed = replace(self, num_sources=num_sources, num_groups=num_groups)
        if not shorten:
            return narrowed
        length = round(self.context_tokens * share)
        return replace(narrowed, context_tokens=length, is_cached=False, has_baseline=False)

    def after(self, earlier: Cost) -> Workload:
        """The same workload after a stage of this cost, which may have scored the prompt."""
        scored = earlier.target_tokens > 0
        return replace(
            self, is_cached=self.is_cached or scored, has_baseline=self.has_baseline or scored
        )
