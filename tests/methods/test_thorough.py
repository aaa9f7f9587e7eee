"""A ranking of all sources: which are candidates, and how it falls back."""

import re
from typing import Any

import numpy as np
import pytest
from support.scorers import ANSWER, ATOL, TREATY, built, many_documents, scorer

from attribot_rag.context import Ablation
from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.methods import Hierarchical, LeaveOneOut, Masked, Scores, Thorough
from attribot_rag.methods.base import answer_sentences, best
from attribot_rag.scoring import Scorer

MANY = many_documents()
LONG = "The museum was built in 1635. Many ships came to the river. The queen closed 4 of them."
REFUSING = ("lfm2", "falcon_h1", "mamba")


def checked(scores: Scores, target: Scorer) -> Scores:
    """Scores are leave-one-out's where exact, else masked ablation's, unless they are estimates."""
    exact = LeaveOneOut().run(target)
    masked = Masked().run(target) if target.why_no_masks is None else exact
    for index, row in enumerate(scores.token_scores):
        expected = (exact if scores.exact[index] else masked).token_scores[index]
        assert row is not None or not scores.exact[index]
        if row is not None and not (scores.estimated and scores.estimated[index]):
            np.testing.assert_allclose(row, expected or (), atol=ATOL)
    for group in scores.groups:
        ablation = [Ablation.of(*group.units)]
        recompute: Any = None if group.exact else "question"
        (change,) = target.score(ablation, recompute=recompute).changes
        np.testing.assert_allclose(group.token_scores, change or (), atol=ATOL)
    reliance = target.score([target.context.without_documents]).changes[0]
    np.testing.assert_allclose(scores.context_reliance or (), reliance or (), atol=ATOL)
    return scores


@pytest.mark.parametrize("response", [ANSWER, LONG, "The hall."])
@pytest.mark.parametrize("documents", [TREATY, MANY])
def test_scores_are_those_of_masked_ablation(documents: Any, response: str) -> None:
    target = scorer(documents, response)
    scores = checked(Thorough().run(target), target)
    assert not any(scores.exact)
    assert scores.num_approximate == (14 if len(target.units) > 22 else len(target.units))


def test_masked_and_exact_differ() -> None:
    """Otherwise the tests here could not tell masked scores from exact scores."""
    target = scorer(MANY)
    exact, masked = LeaveOneOut().run(target).totals, Masked().run(target).totals
    differences = [abs((a or 0) - (b or 0)) for a, b in zip(exact, masked, strict=True)]
    assert min(differences) > 2 * ATOL


def test_candidates_are_estimated_highest_and_attended_to_most() -> None:
    target = scorer(MANY, LONG)
    scores = Thorough(candidates=5, gates=2).run(target)
    sentences = answer_sentences(target)
    estimates = target.estimate_effects(sentences, 2, single_backward_pass=True)
    assert estimates is not None and len(sentences) == 3
    np.testing.assert_allclose(scores.attention or (), estimates.attention, rtol=1e-4)
    of_sentences = [int(source) for source in estimates.effects.argmax(1)]
    attended = best(estimates.attention, 3)
    expected = [source for pair in zip(of_sentences, attended, strict=True) for source in pair]
    scored = {index for index, row in enumerate(scores.token_scores) if row is not None}
    assert len(scored) == 5
    assert scored >= set(list(dict.fromkeys(expected))[:4])
    assert not scores.groups
    everything = Thorough(candidates=24).run(target)
    assert everything.attention is None
    assert None not in everything.token_scores


def test_groups_come_first_where_attention_is_not_seen() -> None:
    target = scorer(MANY, implementation="cropped")
    assert not target.sees_attention
    scores = checked(Thorough().run(target), target)
    assert [group.units for group in scores.groups] == [
        (3 * index, 3 * index + 1, 3 * index + 2) for index in range(8)
    ]
    best = sorted(scores.groups, key=lambda group: -sum(group.token_scores))[:3]
    scored = {index for index, row in enumerate(scores.token_scores) if row is not None}
    assert {unit for group in best for unit in group.units} <= scored < set(range(24))
    assert not Thorough().run(scorer(TREATY, implementation="cropped")).groups


@pytest.mark.parametrize("name", REFUSING)
def test_where_masking_is_refused_everything_is_exact(name: str) -> None:
    target = scorer(many_documents(6), "The hall.", language_model=built(name))
    assert target.why_no_masks
    scores = checked(Thorough().run(target), target)
    scored = [index for index, row in enumerate(scores.token_scores) if row is not None]
    assert len(scored) >= 6
    assert all(scores.exact[index] for index in scored)
    assert scores.groups
    assert all(group.exact for group in scores.groups)
    for method in (Masked(), Hierarchical(coarse=Masked())):
        with pytest.raises(UnsupportedModel, match="leave-one-out"):
            method.run(target)


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "bloom", "falcon", "phi3_longrope"])
def test_other_architectures_screen_by_masking_or_not(name: str) -> None:
    target = scorer(many_documents(3), "The hall.", language_model=built(name))
    scores = checked(Thorough().run(target), target)
    assert any(scores.exact) == (target.why_no_masks is not None)


@pytest.mark.parametrize(
    "documents",
    [
        ("The river was open.",),
        (TREATY[0], TREATY[0]),
        (TREATY[0], "Today the room is a museum. " + TREATY[0]),
        ("The river was closed for two winters.", "The River was closed for two winters!"),
    ],
)
def test_few_sources_and_duplicates(documents: tuple[str, ...]) -> None:
    target = scorer(documents)
    scores = checked(Thorough().run(target), target)
    assert all(row is not None for row in scores.token_scores)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("candidates", 0), ("candidates", True), ("candidates", 1.5), ("gates", 0)),
    ],
)
def test_options_that_mean_nothing_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=re.escape(f"{name}={value!r}")):
        Thorough(**{name: value})
