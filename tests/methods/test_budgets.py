"""Under any budget: the tokens spent, the order of scoring, and the parts that the result lacks."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from methods.test_auto import EAGER
from scoring.test_scorer import ProgressRecord
from support.scorers import ATOL, many_documents, other_chat, scorer, sibling

from attribot_rag.methods import (
    Auto,
    Hierarchical,
    LeaveOneOut,
    Masked,
    Method,
    Proxy,
    Pruned,
    Scores,
    make_method,
)
from attribot_rag.methods.auto import METHODS
from attribot_rag.methods.base import answer_sentences
from attribot_rag.model.generation import Generation
from attribot_rag.scoring import Scorer, Session
from attribot_rag.scoring.local_prefix import CachedPrefix

MANY = many_documents()
RESPONSE = "The hall was built in 1621. Many ships came."
# Question and response in bytes: what one masked pass takes of the most talkative tokenizer.
LONGEST_PASS = 100
COMPOSITIONS: dict[str, Callable[[], Method]] = {
    **METHODS,
    "proxy": lambda: Proxy(other_chat()),
    "proxy pruning": lambda: Pruned(Proxy(other_chat()), keep=4),
    "proxy groups": lambda: Hierarchical(coarse=Proxy(sibling()), shorten=False),
    "two levels": lambda: Hierarchical(keep=2, levels=("passage", "paragraph")),
    "pruned, then auto": lambda: Pruned(Masked(), keep=6, then=Auto()),
    "hierarchical, then auto": lambda: Hierarchical(fine=Auto()),
    "auto on proxy": lambda: Proxy(sibling(), Auto()),
}


ESTIMATING = ("patching", *(name for name in COMPOSITIONS if "auto" in name))


def limited(budget: int | None) -> Scorer:
    return scorer(MANY, RESPONSE, budget=budget)


@cache
def composition(name: str) -> Method:
    return COMPOSITIONS[name]()


@cache
def unlimited(name: str) -> tuple[Scores, int]:
    target = limited(None)
    scores = composition(name).run(target)
    assert not target.session.meter.exhausted
    return scores, target.session.meter.tokens


@cache
def truth(exact: bool) -> Scores:
    return (LeaveOneOut() if exact else Masked()).run(limited(None))


def spent_in_any_case(target: Scorer) -> int:
    """Every model's prefill of the whole prompt, and one pass each."""
    total = 0
    for model, _ in target.session.usages:
        prompt = model.encode_prompt(target.prompt_input.prompt if target.prompt_input else "")
        response = model.encode(RESPONSE)
        total += len(prompt) + len(response)
    return total


@pytest.mark.parametrize("name", COMPOSITIONS)
@given(budget=st.integers(1, 9000))
@example(budget=1)
@settings(max_examples=10)
def test_any_budget(name: str, budget: int) -> None:
    target = limited(budget)
    scores = composition(name).run(target)
    full, needed = unlimited(name)
    tokens, partial = target.session.meter.tokens, target.session.meter.exhausted
    assert tokens <= max(budget, spent_in_any_case(target)) + LONGEST_PASS
    assert tokens == sum(usage.tokens for _, usage in target.session.usages)
    if budget >= needed:
        assert not partial
    if not partial:
        assert tokens == needed
        assert_same(scores, full)
    else:
        assert tokens < needed
        # Rows of only a few sources are no scores.
        assert lacks(scores, full) or "auto" in name
    assert_part(scores, full, name)
    for row in (*scores.token_scores, scores.token_log_likelihoods, scores.context_reliance):
        assert row is None or np.isfinite(row).all()


def assert_same(scores: Scores, full: Scores) -> None:
    assert scores.exact == full.exact
    assert [row is None for row in scores.token_scores] == [
        row is None for row in full.token_scores
    ]
    assert [group.units for group in scores.groups] == [group.units for group in full.groups]
    assert (scores.context_reliance is None) == (full.context_reliance is None)


def lacks(scores: Scores, full: Scores) -> bool:
    """Whether something that a full budget gives is missing, not exact, or not scored again."""
    rows = zip(scores.token_scores, full.token_scores, strict=True)
    exact = zip(scores.exact, full.exact, strict=True)
    return (
        any(expected and not (row and is_same(row, expected)) for row, expected in rows)
        or any(expected and not is_exact for is_exact, expected in exact)
        or len(scores.groups) < len(full.groups)
        or (scores.context_reliance is None and full.context_reliance is not None)
    )


def assert_part(scores: Scores, full: Scores, name: str) -> None:
    """Each score equals that of a full budget, by the same kind of ablation.

    Where a part of the groups decides, other units than with a full budget may be scored.
    """
    for index, (row, exact) in enumerate(zip(scores.token_scores, scores.exact, strict=True)):
        if row is None:
            assert not exact
            continue
        candidates = [full.token_scores[index]]
        if exact or name in METHODS:
            candidates = [truth(exact).token_scores[index], *([] if exact else candidates)]
        is_expected = any(
            is_same(row, candidate) for candidate in candidates if candidate
        ) or not any(candidates)
        assert is_expected or (not exact and name in ESTIMATING and is_estimate(row, name))
    for group in scores.groups:
        matches = [
            match
            for match in full.groups
            if (match.units, match.exact) == (group.units, group.exact)
        ]
        assert not matches or any(
            is_same(group.token_scores, match.token_scores) for match in matches
        )


def is_estimate(row: tuple[float, ...], name: str) -> bool:
    """Even over each sentence, unless it was carried over from the tokens of another model."""
    sentences = answer_sentences(limited(None))
    return all(np.ptp([row[i] for i in tokens]) < ATOL for tokens in sentences)


def is_same(row: tuple[float, ...], expected: tuple[float, ...]) -> bool:
    return len(row) == len(expected) and np.allclose(row, expected, atol=ATOL)


def test_groups_come_before_units_and_the_best_first() -> None:
    name = "hierarchical"
    full, needed = unlimited(name)
    order = sorted(full.groups, key=lambda group: -sum(group.token_scores))
    chosen = [unit for group in order for unit in group.units]
    counts = set()
    for budget in range(300, needed + 20, 40):
        target = limited(budget)
        scores = composition(name).run(target)
        scored = [index for index, row in enumerate(scores.token_scores) if row is not None]
        counts.add((len(scores.groups), len(scored)))
        if scored and len(scores.groups) == len(full.groups):
            assert scored == sorted(chosen[: len(scored)])
        if 0 < len(scores.groups) < len(full.groups):
            assert not scored  # the best of some groups is not the best
    groups_only = {count for count, units in counts if units == 0}
    assert {0, len(full.groups)} < groups_only
    # Some budgets score a part of the units of the best groups.
    total = sum(row is not None for row in full.token_scores)
    assert any(0 < units < total for _, units in counts)


def test_a_proxy_whose_prompt_is_beyond_the_budget_does_not_read_it() -> None:
    """It ranks for a model whose attention is not seen."""
    prefill = len(limited(1).generation.prompt_ids) - 1
    target = scorer(MANY, RESPONSE, budget=2 * prefill, implementation="cropped")
    scores = Auto(EAGER, proxy=other_chat()).run(target)
    assert target.session.meter.exhausted
    assert sum(usage.prefilled_tokens for _, usage in target.session.usages) == prefill
    assert scores.context_reliance is not None and not any(scores.estimated)


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_progress_meets_its_expectation_or_stays_below(name: str) -> None:
    for budget in (None, unlimited(name)[1] // 2):
        progress = ProgressRecord()
        composition(name).run(scorer(MANY, RESPONSE, progress=progress, budget=budget))
        expected, advanced = sum(progress.expected), sum(progress.advanced)
        assert expected > 0
        assert advanced == expected if budget is None else advanced < expected


def test_a_cache_costs_nothing() -> None:
    target = limited(None)
    prefix = target._engine.prefix
    assert isinstance(prefix, CachedPrefix)
    prefix.read()
    generation = Generation(
        target.generation.prompt_ids, target.generation.response_ids, prefix.prompt_cache
    )
    cached = replace(target, generation=generation, session=Session())
    assert cached.session.meter.tokens == 0
    scores = make_method("auto").run(cached)
    full, needed = unlimited("auto")
    assert_same(scores, full)
    assert cached.session.meter.tokens == needed - len(generation.prompt_ids) + 1
