"""What methods say that they cost, by the formulas and by hand."""

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
    cost,
)
from attribot_rag.methods.baselines import AttentionWeights, ContextCite
from attribot_rag.methods.cost import Workload

WORK = Workload(
    context_tokens=1200,
    query_tokens=60,
    response_tokens=20,
    num_sources=40,
    num_groups=10,
    target_parameters=1000,
    proxy_parameters=100,
)


def test_a_composition_costs_what_the_formula_of_the_whole_says() -> None:
    """Where both take the same passes; masked stages have a full row each."""
    assert LeaveOneOut().cost(WORK) == cost.leave_one_out_cached(WORK)
    assert Hierarchical(keep=3).cost(WORK) == cost.hierarchical_cached(WORK, keep=3)
    assert Masked().cost(WORK) == cost.masked_leave_one_out(WORK)
    masked = Hierarchical(keep=3, coarse=Masked(), fine=Masked(), shorten=False)
    expected = cost.masked_hierarchical(WORK, keep=3).target_tokens
    assert masked.cost(WORK).target_tokens == expected + 60 + 20


def test_what_is_encoded_again_after_a_masked_source_is_what_follows_on_average() -> None:
    taken_over = replace(WORK, taken_over=True)
    in_document, in_context = (1200 / 10 - 1200 / 40) / 2, (1200 - 1200 / 40) / 2
    tokens = {"response": 20, "question": 80, "document": 80 + in_document, "rest": 80 + in_context}
    for recompute, of_a_row in tokens.items():
        method = Masked(recompute)  # type: ignore[arg-type]
        assert method.cost(taken_over).target_tokens == 41 * of_a_row


def test_a_shortened_prompt_has_no_cache() -> None:
    taken_over = replace(WORK, taken_over=True)
    shortened = taken_over.shortened(0.3)
    assert (shortened.context_tokens, shortened.num_sources, shortened.num_groups) == (360, 12, 3)
    assert not shortened.taken_over


def test_the_default_is_the_reliance_the_candidates_and_what_is_scored_again() -> None:
    taken_over = replace(WORK, taken_over=True)
    reliance = 20 + (60 + 20)
    candidates = 80 + (16 + 1) * 80
    again = 20 + 6 * (600 + 80)
    assert Auto().cost(taken_over).target_tokens == reliance + candidates + again
    assert Auto(rescore=0).cost(taken_over).target_tokens == reliance + candidates


def test_the_default_scores_few_sources_exactly() -> None:
    few = replace(WORK, num_sources=6, num_groups=3)
    reliance = 20 + (60 + 20)
    exact = cost.leave_one_out_cached(few).target_tokens
    assert Auto().cost(few).target_tokens == reliance + exact


@pytest.mark.parametrize(
    "method",
    [
        LeaveOneOut(),
        Masked(),
        Masked("rest"),
        AttentionWeights(),
        ContextCite(32),
        Auto(),
        Auto(candidates=100),
        Hierarchical(keep=3, shorten=False),
        Hierarchical(keep=3, coarse=Masked(), fine=Masked(), shorten=False),
        Pruned(Masked(), keep=5),
        Pruned(Masked(), keep=5, shorten=False),
    ],
    ids=lambda method: method.name,
)
def test_without_a_cache_the_prompt_is_read_once(method: Method) -> None:
    taken_over = replace(WORK, taken_over=True)
    more = method.cost(WORK).target_tokens - method.cost(taken_over).target_tokens
    assert more == 1200 + 60


def test_the_target_has_not_read_what_its_proxy_has() -> None:
    method = Pruned(Proxy(sibling()), keep=5, shorten=False)
    kept = replace(WORK, num_sources=5, num_groups=1)
    assert method.cost(WORK).target_tokens == cost.leave_one_out_cached(kept).target_tokens
