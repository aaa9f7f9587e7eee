"""What methods are expected to cost, counted by hand."""

from dataclasses import replace

import pytest
from support.scorers import sibling

from attribot_rag.methods import (
    Auto,
    Hierarchical,
    LeaveOneOut,
    Masked,
    Method,
    Proxy,
    Pruned,
    Thorough,
)
from attribot_rag.methods.baselines import AttentionWeights, ContextCite, GradientNorm
from attribot_rag.methods.cost import Cost, Workload

CACHED = Workload(
    context_tokens=1200,
    query_tokens=60,
    response_tokens=20,
    num_sources=40,
    num_groups=10,
    num_parameters=1000,
    is_cached=True,
)
NOT_CACHED = replace(CACHED, is_cached=False)
MASKED_HIERARCHICAL = Hierarchical(keep=3, coarse=Masked(), fine=Masked(), shorten=False)


@pytest.mark.parametrize(
    ("method", "tokens"),
    [
        (LeaveOneOut(), 20 + 40 * (600 + 80)),
        (Hierarchical(keep=3), 20 + 10 * (600 + 80) + (360 + 80) + 12 * (180 + 80)),
        (Pruned(LeaveOneOut(), keep=4), 20 + 40 * (600 + 80) + (120 + 80) + 4 * (60 + 80)),
        (Masked("response"), 41 * 20),
        (Masked(), 41 * 80),
        (Masked("document"), 41 * (80 + (120 - 30) / 2)),
        (Masked("rest"), 41 * (80 + (1200 - 30) / 2)),
        (MASKED_HIERARCHICAL, (10 + 1) * 80 + 12 * 80),
        (AttentionWeights(), 20),
        (ContextCite(3), 20 + 3 * (600 + 80)),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_counted_by_hand(method: Method, tokens: float) -> None:
    assert method.cost(CACHED) == Cost(tokens, 0, 2 * 1000 * tokens)


def test_a_gradient_and_a_proxy_read_the_prompt_first() -> None:
    """A gradient takes three times the operations; a reduced prompt has no cache."""
    tokens = 1200 + 60 + 20
    assert GradientNorm().cost(CACHED) == Cost(tokens, 0, 3 * 2 * 1000 * tokens)
    parameters = sibling().backend.num_parameters
    read = 1260 + LeaveOneOut().cost(CACHED).target_tokens
    assert Proxy(sibling()).cost(CACHED) == Cost(0, read, 2 * parameters * read)
    reduced = CACHED.narrowed(0.3, shorten=True)
    assert (reduced.context_tokens, reduced.num_sources, reduced.num_groups) == (360, 12, 3)
    assert not reduced.is_cached


FEW = replace(CACHED, num_sources=4, num_groups=3)
RELIANCE = 20 + (60 + 20)


def test_the_default_is_the_reliance_patching_and_one_source() -> None:
    patching, source = 80, 1200 / 40 + 2 * 80
    cost = Auto().cost(CACHED)
    assert cost.target_tokens == RELIANCE + patching + source
    assert cost.flops == 2 * 1000 * (cost.target_tokens + 2 * patching)
    masked = Masked().cost(FEW).target_tokens
    assert Auto().cost(FEW).target_tokens == masked + 80 + 2 * 80 + 1200 / 4


def test_a_thorough_ranking_is_the_reliance_patching_and_the_candidates() -> None:
    patching, candidates = 2 * 80, 14 * 80
    cost = Thorough().cost(CACHED)
    assert cost.target_tokens == RELIANCE + patching + candidates
    assert cost.flops == 2 * 1000 * (cost.target_tokens + 2 * patching)
    exact = LeaveOneOut().cost(FEW).target_tokens - 20  # the full row is scored
    assert Thorough().cost(FEW).target_tokens == RELIANCE + exact


@pytest.mark.parametrize(
    "method",
    [
        LeaveOneOut(),
        Masked(),
        Masked("rest"),
        AttentionWeights(),
        ContextCite(32),
        Auto(),
        Thorough(candidates=100),
        Hierarchical(keep=3, shorten=False),
        MASKED_HIERARCHICAL,
        Pruned(Masked(), keep=5),
        Pruned(Masked(), keep=5, shorten=False),
    ],
    ids=lambda method: method.name,
)
def test_without_a_cache_the_prompt_is_read_once(method: Method) -> None:
    more = method.cost(NOT_CACHED).target_tokens - method.cost(CACHED).target_tokens
    assert more == 1200 + 60


def test_the_target_has_not_read_what_its_proxy_has() -> None:
    method = Pruned(Proxy(sibling()), keep=5, shorten=False)
    kept = replace(NOT_CACHED, num_sources=5, num_groups=1)
    expected = LeaveOneOut().cost(kept).target_tokens
    assert method.cost(NOT_CACHED).target_tokens == expected
