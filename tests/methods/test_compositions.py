"""Results of methods in two stages are of the whole prompt, whatever the second stage read."""

from collections.abc import Callable

import numpy as np
import pytest
from methods.test_auto import EAGER
from support.scorers import ATOL, many_documents, other_chat, scorer, sibling

from attribot_rag import Options, VerdictOptions
from attribot_rag.attributor.assembly import run_attribution
from attribot_rag.methods import Auto, Hierarchical, LeaveOneOut, Masked, Method, Proxy, Pruned

MANY = many_documents()
RESPONSE = "The hall was built in 1621. Many ships came."
METHODS: dict[str, Callable[[], Method]] = {
    "pruned": lambda: Pruned(Masked(), keep=4),
    "pruned, then auto": lambda: Pruned(Masked(), keep=6, then=Auto(EAGER)),
    "pruned in full, then auto": lambda: Pruned(Masked(), keep=6, then=Auto(EAGER), shorten=False),
    "auto, then pruned": lambda: Pruned(Auto(EAGER), keep=5),
    "hierarchical": Hierarchical,
    "hierarchical, then auto": lambda: Hierarchical(fine=Auto(EAGER)),
    "pruned, then by another model": lambda: Pruned(
        Masked(), keep=6, then=Proxy(sibling(), Auto(EAGER)), shorten=False
    ),
    "auto on a proxy": lambda: Proxy(sibling(), Auto(EAGER)),
    "proxy pruning": lambda: Pruned(Proxy(other_chat()), keep=4),
}


@pytest.mark.parametrize("verdicts", [None, VerdictOptions()], ids=["scores", "verdicts"])
@pytest.mark.parametrize("name", METHODS)
def test_baseline_and_reliance_are_those_of_the_whole_prompt(
    name: str, verdicts: VerdictOptions | None
) -> None:
    whole = scorer(MANY, RESPONSE)
    row = whole.score([whole.context.without_documents])
    assert row.full is not None and row.changes[0] is not None
    attribution = run_attribution(
        scorer(MANY, RESPONSE), METHODS[name](), None, Options(verdicts=verdicts)
    )
    if verdicts is not None or "prox" not in name:
        np.testing.assert_allclose(attribution.token_log_likelihoods, row.full, atol=ATOL)
        if attribution.context_reliance is not None:
            np.testing.assert_allclose(attribution.context_reliance, row.changes[0], atol=ATOL)
    assert verdicts is None or attribution.context_reliance is not None
    if "auto" in name and "then pruned" not in name:
        assert any(attribution.estimated)


@pytest.mark.parametrize("budget", [200, 500, 900])
def test_without_a_second_stage_only_sources_with_scores_are_estimated(budget: int) -> None:
    limited = scorer(MANY, RESPONSE, budget=budget)
    scores = Pruned(Auto(EAGER), keep=5, then=LeaveOneOut()).run(limited)
    flags = scores.estimated or (False,) * len(scores.token_scores)
    for row, is_estimated in zip(scores.token_scores, flags, strict=True):
        assert row is not None or not is_estimated
