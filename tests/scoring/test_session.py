"""A budget is kept, sources beyond it have no scores, and the order of the ablations stays."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scoring.test_scorer import DOCUMENTS, IMPLEMENTATIONS, every_source
from scoring.test_scorer import make_scorer as scorer_of_documents

from attribot_rag.context import Ablation, Context
from attribot_rag.errors import InvalidInput
from attribot_rag.methods import LeaveOneOut
from attribot_rag.scoring import Budget, Meter, Scorer


def make_scorer(budget: Budget | None = None, **options: Any) -> Scorer:
    return scorer_of_documents(DOCUMENTS[:2], "In the town hall.", budget=budget, **options)


TRUTH = every_source(make_scorer(implementation="reference"))


@pytest.mark.parametrize("value", [0, -1, float("nan"), -0.5])
@pytest.mark.parametrize("name", ["seconds", "tokens"])
def test_a_budget_of_nothing(name: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=f"budget of {value} {name}; use more than 0, or None"):
        Budget(**{name: value})  # type: ignore[arg-type]


def test_tokens_are_counted_against_the_budget() -> None:
    for free in (Meter(), Meter(Budget())):
        free.spend(10**9, 1e9)
        assert free.try_fit(10**9) and not free.exhausted
    for meter in (Meter(Budget(tokens=100)), Meter(Budget(seconds=3600.0, tokens=100))):
        assert meter.try_fit(100)
        assert not meter.try_fit(101)
        meter.spend(40, 0.1)
        assert meter.tokens == 40
        assert meter.try_fit(60)
        assert not meter.try_fit(61)


def test_seconds_are_foretold_by_the_pace_of_the_last_pass() -> None:
    meter = Meter(Budget(seconds=3600.0))
    assert meter.try_fit(256)
    assert not meter.try_fit(257)  # nothing is known of the pace yet
    meter.spend(100, 1000.0)
    assert meter.try_fit(350)
    assert not meter.try_fit(361)
    meter.spend(0, 5.0)
    assert not meter.try_fit(361)
    meter.spend(100, 1.0)
    assert meter.try_fit(100_000)


@given(tokens=st.integers(1, 4000), implementation=st.sampled_from(IMPLEMENTATIONS))
@settings(max_examples=40)
def test_a_token_budget_is_kept_after_what_is_spent_in_any_case(
    tokens: int, implementation: str
) -> None:
    """In any case: the prefill, and one pass over the full prompt, or it and one ablation."""
    scorer = make_scorer(Budget(tokens=tokens), implementation=implementation, token_budget=200)
    result = every_source(scorer)
    prefilled = scorer.usage.prefilled_tokens
    assert scorer.session.meter.tokens == prefilled + scorer.usage.scored_tokens
    num_prompt = len(scorer.generation.prompt_ids)
    num_response = len(scorer.generation.response_ids)
    first = num_response + (num_prompt if implementation == "reference" else 0)
    assert scorer.session.meter.tokens <= max(tokens, prefilled + first)
    assert scorer.session.meter.exhausted == (not all(result.is_scored))
    assert np.allclose(result.full, TRUTH.full, atol=1e-4)
    for scored, row, truth in zip(result.is_scored, result.ablated, TRUTH.ablated, strict=True):
        assert np.allclose(row, truth, atol=1e-4) if scored else np.isnan(row).all()
    assert list(result.is_scored) == sorted(result.is_scored, reverse=True)
    assert [row is None for row in result.changes] == [not scored for scored in result.is_scored]


@given(order=st.permutations(range(5)), tokens=st.integers(400, 1500))
@settings(max_examples=20)
def test_ablations_are_scored_in_the_order_of_the_request(order: list[int], tokens: int) -> None:
    scorer = make_scorer(Budget(tokens=tokens), token_budget=150)
    result = scorer.score([Ablation.of(index) for index in order])
    num_done = sum(result.is_scored)
    assert result.is_scored == (True,) * num_done + (False,) * (5 - num_done)
    assert np.allclose(result.ablated[:num_done], TRUTH.ablated[order[:num_done]], atol=1e-4)


def test_no_time_at_all_still_scores_the_full_prompt() -> None:
    scorer = make_scorer(Budget(seconds=1e-9))
    result = every_source(scorer)
    assert np.allclose(result.full, TRUTH.full, atol=1e-4)
    assert result.is_scored == (False,) * 5
    assert scorer.session.meter.exhausted
    again = scorer.score([Ablation.of(0)])
    assert np.array_equal(again.full, result.full)
    assert again.is_scored == (False,)
    assert scorer.usage.forward_passes == 1


class SlowClock:
    """A processor's clock that goes on by a second whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        self.now += 1.0
        return self.now


@pytest.mark.parametrize("implementation", ["packed", "cropped"])
def test_the_prompt_is_not_read_on_when_time_is_over(
    implementation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attribot_rag.model.generation._CPU_TOKENS", 20)
    pieces: list[float] = []
    whole = make_scorer(implementation=implementation)
    assert len(whole.generation.prompt_ids) > 60
    monkeypatch.setattr(whole.session, "before_batch", lambda: pieces.append(0))
    assert np.allclose(every_source(whole).ablated, TRUTH.ablated, atol=1e-4)
    assert len(pieces) > 3

    monkeypatch.setattr("attribot_rag.scoring.session.time", SlowClock())
    scorer = make_scorer(Budget(seconds=0.5), implementation=implementation)
    result = every_source(scorer)
    assert np.isnan(result.full).all()
    assert result.is_scored == (False,) * 5
    assert scorer.session.meter.exhausted
    assert scorer.usage.forward_passes == 0
    assert scorer.usage.prefilled_tokens == 20
    if implementation == "packed":
        assert scorer.estimate_effects([[0, 1]]) is None
    assert scorer.usage.prefilled_tokens == 20


def test_only_rows_that_are_scored_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    ablate = Context.ablate

    def counted(self: Context, *arguments: Any) -> Any:
        made.append(1)
        return ablate(self, *arguments)

    monkeypatch.setattr(Context, "ablate", counted)
    scorer = make_scorer(token_budget=1)
    tokens = every_source(scorer).ablated.shape[0] and scorer.session.meter.tokens
    assert len(made) == 5
    made.clear()
    every_source(make_scorer(Budget(tokens=tokens // 2), token_budget=1))
    assert 0 < len(made) < 5


def test_a_slow_pace_allows_no_more_passes() -> None:
    scorer = make_scorer(Budget(seconds=3600.0))
    scorer.score([])
    scorer.session.meter.spend(1, 1000.0)
    assert scorer.rebased([0]) is None
    assert every_source(scorer).is_scored == (False,) * 5
    assert scorer.usage.forward_passes == 1


def test_sources_beyond_the_budget_have_no_scores() -> None:
    full_pass = make_scorer()
    every_source(full_pass)
    tokens = full_pass.session.meter.tokens
    scorer = make_scorer(Budget(tokens=tokens - 1), token_budget=1)
    scores = LeaveOneOut().run(scorer)
    assert scores.token_scores[-1] is None
    assert scores.token_scores[0] is not None
    assert scores.exact == (True, True, True, True, False)
    assert scores.token_log_likelihoods is not None
    scorer.session.meter.spend(tokens, 1.0)
    again = LeaveOneOut().run(scorer)  # which gives what was scored before, and nothing else
    assert again.token_log_likelihoods == scores.token_log_likelihoods
    assert again.token_scores == scores.token_scores


def test_scorers_of_one_attribution_share_the_budget() -> None:
    scorer = make_scorer(Budget(tokens=10_000))
    other = scorer.rebased([0, 1])
    assert other is not None
    assert other.session is scorer.session and other.usage is scorer.usage
    poor = make_scorer(Budget(tokens=10))
    assert poor.rebased([0, 1]) is None
    assert poor.session.meter.exhausted
    assert poor.rebased(poor.context.present) is poor
