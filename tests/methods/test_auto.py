"""The default method: what it measures, what it estimates, and how it ranks without attention."""

from typing import Any

import numpy as np
import pytest
from methods.test_thorough import LONG, checked
from support.scorers import (
    ANSWER,
    ATOL,
    TREATY,
    built,
    many_documents,
    metaspace_scorer,
    other_chat,
    scorer,
)

from attribot_rag.errors import InvalidInput
from attribot_rag.methods import Auto, Scores
from attribot_rag.methods.base import Part, answer_sentences
from attribot_rag.methods.ranking import Ranking
from attribot_rag.methods.thresholds import Thresholds

MANY = many_documents()
RESPONSE = "The hall was built in 1621."
EAGER = Thresholds(
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
    estimates = target.patched(answer_sentences(target), located=True)
    assert estimates is not None
    np.testing.assert_allclose(scores.attention or (), estimates.attention, rtol=1e-4)
    totals = estimates.effects.sum(0)
    for index, row in enumerate(scores.token_scores):
        if scores.estimated[index]:
            assert sum(row or ()) == pytest.approx(float(totals[index]), abs=ATOL)
    assert response != LONG or not all(scores.estimated)


def test_nothing_is_scored_where_the_context_hardly_matters() -> None:
    target = scorer(MANY)
    scores = checked(Auto(thresholds=Thresholds(min_sought=9.0)).run(target), target)
    assert sum(scores.context_reliance or ()) < 9
    assert not any(scores.token_scores)
    assert any("hardly matters" in note for note in scores.notes)
    assert target.usage.backward_tokens == 0


def test_little_reliance_is_estimated_too() -> None:
    target = scorer(MANY, RESPONSE)
    thresholds = Thresholds(min_sought=0.1, min_word_effect=99.0)
    scores = checked(Auto(thresholds).run(target), target)
    assert 0.1 < sum(scores.context_reliance or ()) < thresholds.min_reliance
    assert any(scores.estimated) and None not in scores.token_scores


@pytest.mark.parametrize("name", ["lfm2", "mamba2", "t5"])
def test_needed_sources_are_exact_where_masking_is_refused(name: str) -> None:
    target = scorer(many_documents(3), "The hall.", language_model=built(name))
    assert target.masked_refusal
    scores = checked(Auto(EAGER).run(target), target)
    measured = [index for index, row in enumerate(scores.token_scores) if row is not None]
    assert all(scores.exact[index] for index in measured)
    assert not any(scores.estimated)


def test_without_attention_documents_come_first() -> None:
    target = scorer(MANY, implementation="cropped")
    assert target.attention() is None
    scores = checked(Auto(EAGER).run(target), target)
    assert not any(scores.estimated)


def test_a_proxy_ranks_for_a_model_whose_attention_is_not_seen() -> None:
    target = scorer(MANY, implementation="cropped")
    ranking = Auto(EAGER, proxy=other_chat()).ranking(target)
    ranking.estimate()
    assert len(target.session.usages) == 2
    assert any(ranking.scores.estimated)
    packed = scorer(MANY)
    Auto(EAGER, proxy=other_chat()).run(packed)
    assert len(packed.session.usages) == 1


def test_a_tokenizer_with_a_dummy_space_and_no_template() -> None:
    target = metaspace_scorer()
    checked(Auto(EAGER).run(target), target)


def test_rankings_take_scores_and_attention_in_turn() -> None:
    rows = ((0.0, 3.0), (2.0, 0.0), None, (1.0, 1.0))
    scores = Scores((0.0, 0.0), rows, (False,) * 4, attention=(0.1, 0.2, 0.9, 0.3))
    assert Ranking(scores).of(Part((0,))) == [1, 2, 3, 0]
    assert Ranking(scores).of(Part((1,))) == [0, 2, 3, 1]
    assert not Ranking(Scores(None, (None,) * 4, (False,) * 4)).of(Part((0,)))
    few: Any
    for few in (-1, 1.5, True):
        with pytest.raises(InvalidInput, match="few="):
            Auto(few=few)
