"""The cost model: examples counted by hand, and how the formulas relate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribot_rag.errors import InvalidInput
from attribot_rag.methods import cost
from attribot_rag.methods.cost import Cost, Workload

# 100 tokens of context in 10 sources and 5 groups, then 6 of query and 4 of response.
SMALL = Workload(
    context_tokens=100,
    query_tokens=6,
    response_tokens=4,
    num_sources=10,
    num_groups=5,
    target_parameters=1000,
    proxy_parameters=10,
)
READ = replace(SMALL, taken_over=True)

Estimate = Callable[[Workload], Cost]
ON_TARGET: dict[str, Estimate] = {
    "leave_one_out": cost.leave_one_out,
    "leave_one_out_cached": cost.leave_one_out_cached,
    "hierarchical": lambda workload: cost.hierarchical(workload, keep=1),
    "hierarchical_cached": lambda workload: cost.hierarchical_cached(workload, keep=1),
    "masked_leave_one_out": cost.masked_leave_one_out,
    "masked_hierarchical": lambda workload: cost.masked_hierarchical(workload, keep=1),
}
WITH_PROXY: dict[str, Estimate] = {
    "proxy": cost.proxy,
    "proxy_cached": cost.proxy_cached,
    "proxy_hierarchical_cached": lambda workload: cost.proxy_hierarchical_cached(workload, keep=1),
    "proxy_pruning": lambda workload: cost.proxy_pruning(workload, keep=1),
    "proxy_pruning_cached": lambda workload: cost.proxy_pruning_cached(workload, keep=1),
}
ESTIMATES = ON_TARGET | WITH_PROXY


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    num_sources = draw(st.integers(1, 200))
    return Workload(
        context_tokens=draw(st.integers(0, 10_000)),
        query_tokens=draw(st.integers(0, 200)),
        response_tokens=draw(st.integers(1, 500)),
        num_sources=num_sources,
        num_groups=draw(st.integers(1, num_sources)),
        target_parameters=draw(st.integers(1, 10**11)),
        proxy_parameters=draw(st.integers(1, 10**11)),
    )


@pytest.mark.parametrize(
    ("found", "target_tokens", "proxy_tokens"),
    [
        (cost.leave_one_out(SMALL), 11 * 110, 0),
        (cost.leave_one_out_cached(SMALL), 110 + 10 * 60, 0),
        (cost.hierarchical(SMALL, keep=2), 6 * 110 + 5 * 50, 0),
        (cost.hierarchical_cached(SMALL, keep=2), (110 + 5 * 60) + (50 + 4 * 30), 0),
        (cost.proxy(SMALL), 0, 11 * 110),
        (cost.proxy_cached(SMALL), 0, 110 + 10 * 60),
        (cost.proxy_hierarchical_cached(SMALL, keep=2), 0, (110 + 5 * 60) + (50 + 4 * 30)),
        (cost.proxy_pruning(SMALL, keep=3), 4 * 40, 11 * 110),
        (cost.proxy_pruning_cached(SMALL, keep=3), 40 + 3 * 25, 110 + 10 * 60),
        (cost.leave_one_out_cached(READ), 4 + 10 * 60, 0),
        (cost.masked_leave_one_out(READ), 11 * 10, 0),
        (cost.masked_leave_one_out(SMALL), 106 + 11 * 10, 0),
        (cost.masked_leave_one_out(READ, recomputed="response"), 11 * 4, 0),
        (cost.masked_hierarchical(READ, keep=2), (5 + 4 + 1) * 10, 0),
        (cost.masked_hierarchical(SMALL, keep=2), 106 + (5 + 4 + 1) * 10, 0),
        (cost.masked_hierarchical(READ, keep=2, recomputed="response"), (5 + 4 + 1) * 4, 0),
        (cost.attention(READ), 10, 0),
        (cost.attention(SMALL, recomputed="response"), 106 + 4, 0),
        (cost.context_cite(READ, num_ablations=3), 4 + 3 * 60, 0),
        (cost.context_cite(SMALL, num_ablations=3), 110 + 3 * 60, 0),
    ],
)
def test_counted_by_hand(found: Cost, target_tokens: int, proxy_tokens: int) -> None:
    flops = 2 * 1000 * target_tokens + 2 * 10 * proxy_tokens
    assert found == Cost(target_tokens, proxy_tokens, flops)


@given(workloads())
def test_proxy_of_the_targets_size_costs_what_the_method_costs(workload: Workload) -> None:
    same = replace(workload, proxy_parameters=workload.target_parameters)
    keep = workload.num_groups
    pairs = [
        (cost.proxy(same), cost.leave_one_out(same)),
        (cost.proxy_cached(same), cost.leave_one_out_cached(same)),
        (
            cost.proxy_hierarchical_cached(same, keep=keep),
            cost.hierarchical_cached(same, keep=keep),
        ),
    ]
    for on_proxy, on_target in pairs:
        assert on_proxy.flops == on_target.flops
        assert on_proxy.proxy_tokens == on_target.target_tokens


@given(workloads())
def test_pruning_that_keeps_everything_is_leave_one_out_on_both(workload: Workload) -> None:
    found = cost.proxy_pruning_cached(workload, keep=workload.num_sources)
    assert found.target_tokens == cost.leave_one_out_cached(workload).target_tokens
    assert found.proxy_tokens == cost.proxy_cached(workload).proxy_tokens


@given(workloads())
def test_caching_never_costs_more(workload: Workload) -> None:
    assert cost.leave_one_out_cached(workload).flops <= cost.leave_one_out(workload).flops
    assert cost.proxy_cached(workload).flops <= cost.proxy(workload).flops
    for keep in {1, workload.num_groups}:
        cached = cost.hierarchical_cached(workload, keep=keep)
        assert cached.flops <= cost.hierarchical(workload, keep=keep).flops
        pruned = cost.proxy_pruning_cached(workload, keep=keep)
        assert pruned.flops <= cost.proxy_pruning(workload, keep=keep).flops


@given(workloads(), st.booleans())
def test_masked_costs_no_more_than_cached_but_for_the_question_once_again(
    workload: Workload, taken_over: bool
) -> None:
    workload = replace(workload, taken_over=taken_over)
    response_only = cost.masked_leave_one_out(workload, recomputed="response")
    masked = cost.masked_leave_one_out(workload)
    cached = cost.leave_one_out_cached(workload)
    assert response_only.flops <= min(masked.flops, cached.flops)
    assert masked.target_tokens <= cached.target_tokens + workload.query_tokens


@given(workloads())
def test_masked_does_not_depend_on_the_context_length(workload: Workload) -> None:
    read = replace(workload, taken_over=True)
    longer = replace(read, context_tokens=workload.context_tokens + 1000)
    assert cost.masked_leave_one_out(longer) == cost.masked_leave_one_out(read)


@pytest.mark.parametrize("name", ESTIMATES)
@given(workload=workloads(), more=st.integers(1, 1000))
def test_more_tokens_or_parameters_never_cost_less(
    name: str, workload: Workload, more: int
) -> None:
    estimate = ESTIMATES[name]
    flops = estimate(workload).flops
    for field in ("context_tokens", "query_tokens", "response_tokens", "target_parameters"):
        larger: dict[str, Any] = {field: getattr(workload, field) + more}
        assert estimate(replace(workload, **larger)).flops >= flops
    assert (
        estimate(replace(workload, response_tokens=workload.response_tokens + more)).flops > flops
    )


@pytest.mark.parametrize(
    "estimate",
    [
        cost.hierarchical,
        cost.hierarchical_cached,
        cost.proxy_hierarchical_cached,
        cost.proxy_pruning,
        cost.proxy_pruning_cached,
        cost.masked_hierarchical,
    ],
)
def test_keeping_more_costs_more(estimate: Callable[..., Cost]) -> None:
    flops = [estimate(SMALL, keep=keep).flops for keep in range(1, SMALL.num_groups + 1)]
    assert flops == sorted(set(flops))


@pytest.mark.parametrize("estimate", WITH_PROXY.values(), ids=WITH_PROXY)
def test_methods_with_a_proxy_need_its_size(estimate: Estimate) -> None:
    with pytest.raises(InvalidInput, match="give proxy_parameters"):
        estimate(replace(SMALL, proxy_parameters=None))


@pytest.mark.parametrize("estimate", ON_TARGET.values(), ids=ON_TARGET)
def test_methods_on_the_target_need_no_proxy(estimate: Estimate) -> None:
    assert estimate(replace(SMALL, proxy_parameters=None)) == estimate(SMALL)


@pytest.mark.parametrize("keep", [0, 6])
def test_groups_kept_out_of_range(keep: int) -> None:
    with pytest.raises(InvalidInput, match=f"keep is {keep}; it must be from 1 to the 5 groups"):
        cost.hierarchical(SMALL, keep=keep)
    with pytest.raises(InvalidInput, match="5 groups"):
        cost.masked_hierarchical(SMALL, keep=keep)


@pytest.mark.parametrize("keep", [0, 11])
def test_sources_kept_out_of_range(keep: int) -> None:
    with pytest.raises(InvalidInput, match=f"keep is {keep}; it must be from 1 to the 10 sources"):
        cost.proxy_pruning(SMALL, keep=keep)


def test_unknown_recomputed() -> None:
    with pytest.raises(InvalidInput, match="'all'; choose one of response, query_and_response"):
        cost.masked_leave_one_out(SMALL, recomputed="all")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("context_tokens", -1),
        ("query_tokens", -1),
        ("response_tokens", 0),
        ("num_sources", 0),
        ("num_groups", 0),
        ("num_groups", 11),
        ("target_parameters", 0),
        ("proxy_parameters", 0),
    ],
)
def test_impossible_workloads(field: str, value: int) -> None:
    impossible: dict[str, Any] = {field: value}
    with pytest.raises(InvalidInput, match=f"{field} is {value}"):
        replace(SMALL, **impossible)
