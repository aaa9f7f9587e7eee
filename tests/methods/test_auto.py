"""The default method: what it measures, what it estimates, and how it ranks without attention."""

from typing import Any

import numpy as np
import pytest
from methods.test_thorough import LONG, checked
from support.limits import with_limits
from support.scorers import (
    ANSWER,
    ATOL,
    TREATY,
    built,
    chat,
    many_documents,
    other_chat,
    scorer,
    sibling,
)
from support.tiny_models import larger, metaspace

from attribot_rag import Attributor, VerdictOptions
from attribot_rag.errors import InvalidInput
from attribot_rag.methods import Auto, Patching, Proxy, Scores
from attribot_rag.methods.base import Part, Ranking, Workload, answer_sentences
from attribot_rag.methods.evidence import Evidence
from attribot_rag.methods.limits import Limits

MANY = many_documents()
RESPONSE = "The hall was built in 1621."
EAGER = Limits(
    min_sought=0.01,
    min_reliance=0.01,
    min_effect=0.01,
    min_word=99.0,
    min_word_effect=0.001,
    kept_share=0.3,
    max_set=4,
)
"""The tiny models' answers depend on their context for a nat or less."""


@pytest.mark.parametrize("response", [ANSWER, LONG, "The hall."])
@pytest.mark.parametrize("documents", [TREATY, MANY])
def test_needed_sources_are_measured_and_the_rest_estimated(documents: Any, response: str) -> None:
    target = scorer(documents, response)
    scores = checked(Auto(EAGER).run(target), target)
    assert None not in scores.token_scores
    estimates = target.estimate_effects(answer_sentences(target), single_backward_pass=True)
    assert estimates is not None
    np.testing.assert_allclose(scores.attention or (), estimates.attention, rtol=1e-4)
    totals = estimates.effects.sum(0)
    for index, row in enumerate(scores.token_scores):
        if scores.estimated[index]:
            assert sum(row or ()) == pytest.approx(float(totals[index]), abs=ATOL)
    assert response != LONG or not all(scores.estimated)


def test_nothing_is_scored_where_the_context_hardly_matters() -> None:
    target = scorer(MANY)
    scores = checked(Auto(limits=Limits(min_sought=9.0)).run(target), target)
    assert sum(scores.context_reliance or ()) < 9
    assert not any(scores.token_scores)
    assert scores.notes == ()
    assert target.usage.backward_tokens == 0


@pytest.mark.parametrize("name", ["lfm2", "mamba2"])
def test_needed_sources_are_exact_where_masking_is_refused(name: str) -> None:
    target = scorer(many_documents(3), "The hall.", language_model=built(name))
    assert target.why_no_masks
    scores = checked(Auto(EAGER).run(target), target)
    measured = [index for index, row in enumerate(scores.token_scores) if row is not None]
    assert all(scores.exact[index] for index in measured)
    assert not any(scores.estimated)


def test_a_proxy_ranks_for_a_model_whose_attention_is_not_seen() -> None:
    target = scorer(MANY, implementation="cropped")
    ranking = Auto(EAGER, proxy=other_chat()).ranking(target)
    assert any(ranking.estimate().estimated)
    assert len(target.session.usages) == 2
    packed = scorer(MANY)
    Auto(EAGER, proxy=other_chat()).run(packed)
    assert len(packed.session.usages) == 1


@pytest.mark.parametrize("make_proxy", [sibling, other_chat, metaspace])
def test_a_much_smaller_proxy_ranks_by_its_own_estimates(make_proxy: Any) -> None:
    target, proxy = scorer(MANY, LONG, language_model=larger()), make_proxy()
    ranking = Auto(proxy=proxy).ranking(target)
    assert ranking.scores.ranked_by is None
    scores = ranking.estimate()
    assert scores is ranking.scores
    assert target.usage.backward_tokens == 0
    expected = Proxy(proxy, Patching(1, single_backward_pass=True)).run(target)
    assert scores.token_scores == expected.token_scores and None not in scores.token_scores
    assert scores.attention == expected.attention and any(scores.attention or ())
    assert all(scores.estimated)
    assert scores.ranked_by == proxy.name
    assert "ranked the sources" in scores.notes[0] and len(scores.notes) == 1


@pytest.mark.parametrize("verdicts", [None, with_limits(EAGER)])
def test_a_result_says_which_proxy_ranked(verdicts: VerdictOptions | None) -> None:
    def attribution(**options: Any) -> Any:
        attributor = Attributor(larger(), progress=False, verdicts=verdicts, **options)
        return attributor.attribute(chat(MANY), RESPONSE, MANY)

    method = Auto(EAGER)
    ranked, alone = attribution(method=method, proxy=other_chat()), attribution(method=method)
    name = other_chat().name
    assert any(ranked.estimated)
    assert ranked.provenance.method == f"auto, ranked by {name}"
    assert ranked.provenance.proxy_tokens > ranked.provenance.prompt_tokens
    assert any(f"The proxy {name} ranked" in note for note in ranked.notes)
    assert alone.provenance.method == "auto"
    assert not any("proxy" in note for note in alone.notes)


def test_a_proxy_that_takes_more_flops_is_not_used_and_a_note_tells_both() -> None:
    attributor = Attributor(larger(), progress=False, proxy=larger())
    attribution = attributor.attribute(chat(MANY), ANSWER, MANY)
    assert attribution.provenance.proxy_tokens == 0
    assert attribution.provenance.method == "auto"
    workload = Workload.of(scorer(MANY, ANSWER, language_model=larger()))
    own = 3 * workload.cost(workload.tail_tokens).flops
    of_proxy = own + workload.cost(workload.prompt_tokens).flops
    (note,) = [note for note in attribution.notes if "proxy" in note]
    assert f"{of_proxy:.1e} FLOPs on it" in note and f"{own:.1e} on the model itself" in note


def test_a_few_sources_need_no_proxy() -> None:
    attributor = Attributor(larger(), progress=False, proxy=other_chat())
    attribution = attributor.attribute(chat(MANY[:1]), RESPONSE, MANY[:1])
    assert attribution.provenance.proxy_tokens == 0
    assert any("was not used: up to 4 sources" in note for note in attribution.notes)


def test_few_sources_are_ranked_without_a_search() -> None:
    """Verdicts search, by limits of their own."""
    target = scorer(MANY[:1], RESPONSE)
    units = range(len(target.units))
    ranking = Auto(EAGER).ranking(target)
    assert ranking.is_complete and None not in ranking.scores.token_scores
    assert not any(ranking.scores.estimated)
    evidence = Evidence(target, ranking.scores.context_reliance or ()).of_whole_answer
    assert all(evidence.loss_without([unit]) for unit in units)
    assert len(units) > 1 and not any(evidence.loss_with_only([unit]) for unit in units)
    Auto(EAGER).run(target)
    assert any(evidence.loss_with_only([unit]) for unit in units)


def test_rankings_take_scores_and_attention_in_turn() -> None:
    rows = ((0.0, 3.0), (2.0, 0.0), None, (1.0, 1.0))
    scores = Scores((0.0, 0.0), rows, (False,) * 4, attention=(0.1, 0.2, 0.9, 0.3))
    assert Ranking(scores).ranked(Part((0,))) == [1, 2, 3, 0]
    assert Ranking(scores).ranked(Part((1,))) == [0, 2, 3, 1]
    assert not Ranking(Scores(None, (None,) * 4, (False,) * 4)).ranked(Part((0,)))
    few: Any
    for few in (-1, 1.5, True):
        with pytest.raises(InvalidInput, match="few="):
            Auto(few=few)
