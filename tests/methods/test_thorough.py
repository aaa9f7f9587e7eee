"""A ranking of all sources: exact and masked scores, and how it falls back."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scorers import ANSWER, ATOL, TREATY, built, many_documents, scorer

from attribot_rag import Attribution, Attributor, LanguageModel
from attribot_rag.attributor.answered import rag_prompt
from attribot_rag.context import Ablation, Document
from attribot_rag.errors import InvalidInput, UnsupportedModel
from attribot_rag.methods import Hierarchical, LeaveOneOut, Masked, Method, Scores, Thorough
from attribot_rag.methods.base import answer_sentences, best
from attribot_rag.methods.thorough import agreement_of
from attribot_rag.scoring import Scorer

MANY = many_documents()
LONG = "The museum was built in 1635. Many ships came to the river. The queen closed 4 of them."
ALWAYS = (0.0, 99.0)
"""In doubt whatever the score, unless it is against the sentence."""
REFUSING = ("lfm2", "falcon_h1", "mamba2", "mamba", "t5")


def checked(scores: Scores, target: Scorer) -> Scores:
    """Scores are leave-one-out's where exact, else masked ablation's, unless they are estimates."""
    exact = LeaveOneOut().run(target)
    masked = Masked().run(target) if target.masked_refusal is None else exact
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
    if scores.agreement is not None:
        assert 0.0 <= scores.agreement <= 1.0
    reliance = target.score([target.context.whole]).changes[0]
    np.testing.assert_allclose(scores.context_reliance or (), reliance or (), atol=ATOL)
    return scores


@pytest.mark.parametrize("response", [ANSWER, LONG, "The hall."])
@pytest.mark.parametrize("documents", [TREATY, MANY, many_documents(4)])
def test_exact_scores_are_leave_one_out_others_masked(documents: Any, response: str) -> None:
    target = scorer(documents, response)
    checked(Thorough().run(target), target)
    scores = checked(Thorough(doubt=ALWAYS, min_agreement=0.0).run(target), target)
    assert any(scores.exact)
    assert scores.num_approximate > 0


def test_masked_and_exact_differ() -> None:
    """Otherwise the tests here could not tell masked scores from exact scores."""
    target = scorer(MANY)
    exact, masked = LeaveOneOut().run(target).totals, Masked().run(target).totals
    differences = [abs((a or 0) - (b or 0)) for a, b in zip(exact, masked, strict=True)]
    assert min(differences) > 2 * ATOL


def test_candidates_are_estimated_highest_and_attended_to_most() -> None:
    target = scorer(MANY, LONG)
    scores = Thorough(candidates=5, gates=2, doubt=ALWAYS, min_agreement=0.0).run(target)
    sentences = answer_sentences(target)
    estimates = target.patched(sentences, 2, located=True)
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
    assert target.attention() is None
    scores = checked(Thorough(min_agreement=0.0).run(target), target)
    assert [group.units for group in scores.groups] == [
        (3 * index, 3 * index + 1, 3 * index + 2) for index in range(8)
    ]
    best = sorted(scores.groups, key=lambda group: -sum(group.token_scores))[:3]
    scored = {index for index, row in enumerate(scores.token_scores) if row is not None}
    assert {unit for group in best for unit in group.units} <= scored < set(range(24))
    assert not Thorough().run(scorer(TREATY, implementation="cropped")).groups


@pytest.mark.parametrize("rescore", [0, 1, 2, 6])
def test_the_best_of_a_sentence_is_exact_where_in_doubt(rescore: int) -> None:
    target = scorer(MANY, LONG)
    sentences = answer_sentences(target)
    assert [len(tokens) > 3 for tokens in sentences] == [True] * 3
    screened = Thorough(rescore=0).run(target).screened
    assert screened is not None

    def total(index: int, tokens: range) -> float:
        row = screened[index] if screened else None
        return sum(row[i] for i in tokens) if row is not None else float("-inf")

    winners = [max(range(24), key=lambda index: total(index, tokens)) for tokens in sentences]
    values = [total(winner, tokens) for winner, tokens in zip(winners, sentences, strict=True)]
    least, middle, most = sorted(values)
    assert least < middle < most
    for doubt in ((least, most), (least, most + 1), (most + 1, most + 2)):
        scores = Thorough(rescore=rescore, doubt=doubt, min_agreement=0.0).run(target)
        expected = {
            winner
            for winner, value in zip(winners, values, strict=True)
            if doubt[0] <= value < doubt[1]
        }
        exact = {index for index, exact in enumerate(scores.exact) if exact}
        assert exact <= expected
        assert len(exact) == min(rescore, len(expected))


def test_a_low_agreement_scores_the_best_candidates_exactly() -> None:
    target = scorer(many_documents(4), LONG)
    narrow = checked(Thorough(doubt=ALWAYS, min_agreement=0.0).run(target), target)
    assert 0 < sum(narrow.exact) <= 3
    assert max(total or 0.0 for total in narrow.totals) > 1.0
    assert not narrow.notes
    wide = checked(Thorough(doubt=ALWAYS, min_agreement=1.0).run(target), target)
    screened = [None if row is None else sum(row) for row in wide.screened or ()]
    least = max(0.5, 0.05 * max(total or 0.0 for total in screened))
    worthwhile = {index for index in best(screened, 6) if (screened[index] or 0.0) >= least}
    exact = {index for index, exact in enumerate(wide.exact) if exact}
    assert len(worthwhile) > 1
    assert exact == worthwhile | {index for index, exact in enumerate(narrow.exact) if exact}
    assert any("use leave-one-out" in note for note in wide.notes)


def test_a_low_agreement_on_next_to_nothing_is_no_matter() -> None:
    target = scorer(TREATY, "The hall.")
    assert max(total or 0.0 for total in LeaveOneOut().run(target).totals) < 1.0
    scores = Thorough(doubt=ALWAYS, min_agreement=1.0).run(target)
    assert scores.agreement is not None and scores.agreement < 1.0
    assert sum(scores.exact) < len(scores.exact)
    assert not scores.notes


FINITE = st.floats(-50, 50)
ROWS = st.lists(FINITE, min_size=3, max_size=3).map(tuple)
PAIRS = st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=6)


@given(pairs=PAIRS)
def test_agreement_is_a_share(pairs: Any) -> None:
    agreement = agreement_of(pairs)
    assert agreement is not None and -1e-9 <= agreement <= 1 + 1e-9
    assert agreement == pytest.approx(agreement_of([(second, first) for first, second in pairs]))
    assert agreement == pytest.approx(agreement_of(pairs[::-1]), abs=1e-6)
    assert agreement_of([]) is None


@given(rows=st.lists(ROWS, min_size=1, max_size=6))
def test_equal_scores_agree_wholly_opposite_ones_not_at_all(rows: Any) -> None:
    assert agreement_of([(row, row) for row in rows]) == 1.0
    opposite = agreement_of([(row, tuple(-score for score in row)) for row in rows])
    magnitude = sum(2 * abs(sum(row)) for row in rows)
    assert opposite == pytest.approx(1 - magnitude / max(magnitude, 1.0), abs=1e-9)


@pytest.mark.parametrize("name", REFUSING)
@pytest.mark.parametrize("count", [2, 6])
def test_where_masking_is_refused_everything_is_exact(name: str, count: int) -> None:
    target = scorer(many_documents(count), "The hall.", language_model=built(name))
    assert target.masked_refusal
    scores = checked(Thorough(keep=2).run(target), target)
    scored = [index for index, row in enumerate(scores.token_scores) if row is not None]
    assert len(scored) == 6
    assert all(scores.exact[index] for index in scored)
    assert all(group.exact for group in scores.groups)
    assert bool(scores.groups) == (count == 6)
    assert scores.agreement is None
    for method in (Masked(), Hierarchical(coarse=Masked())):
        with pytest.raises(UnsupportedModel, match="leave-one-out"):
            method.run(target)


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "bloom", "falcon", "phi3_longrope"])
def test_other_architectures_screen_by_masking_or_not(name: str) -> None:
    target = scorer(many_documents(3), "The hall.", language_model=built(name))
    scores = checked(Thorough(doubt=ALWAYS).run(target), target)
    assert (scores.agreement is None) == (target.masked_refusal is not None)


@pytest.mark.parametrize(
    "documents",
    [
        ("The river was open.",),
        ("The river was open.", "Many letters are lost."),
        (TREATY[0],),
        (TREATY[0], TREATY[0]),
        (TREATY[0], "Today the room is a museum. " + TREATY[0]),
        ("The river was closed for two winters.", "The River was closed for two winters!"),
    ],
)
def test_few_sources_and_duplicates(documents: tuple[str, ...]) -> None:
    target = scorer(documents)
    scores = checked(Thorough().run(target), target)
    assert all(row is not None for row in scores.token_scores)
    if documents == ("The river was open.",):  # a single sentence is the whole context
        (row,) = scores.token_scores
        np.testing.assert_allclose(row or (), scores.context_reliance or (), atol=ATOL)


@given(keep=st.integers(1, 9) | st.floats(0.1, 1.0), rescore=st.integers(0, 30))
@settings(max_examples=15)
def test_any_options_give_the_same_scores(keep: float, rescore: int) -> None:
    target = scorer(many_documents(6))
    checked(Thorough(keep=keep, rescore=rescore, doubt=ALWAYS).run(target), target)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("rescore", -1), ("rescore", True), ("min_agreement", 1.1), ("min_agreement", -0.1)),
        *(("candidates", 0), ("candidates", 1.5), ("gates", 0), ("doubt", (3.0, 2.0))),
        ("keep", 1.5),
    ],
)
def test_options_that_mean_nothing_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=re.escape(f"{name}={value!r}")):
        Thorough(**{name: value})


@pytest.mark.slow
def test_every_sentence_of_an_answer_has_its_cause_scored(smollm2: LanguageModel) -> None:
    """The causes stand in different documents, far apart; each is the best of its sentence."""
    ferry, lighthouse, bakery = statements = (
        "The Kittiwake ferry carries 84 passengers.",
        "The lighthouse of Brannoc was built in 1911.",
        "The bakery on Quay Street sells rye bread.",
    )
    documents = [
        f"The crew is small. {ferry} It sails every day.",
        "The island lies in the north of the bay. Its coast is steep and rocky. Seals rest there.",
        "The school has two rooms. Children walk there along the beach. It closes in July.",
        f"The keeper retired long ago. {lighthouse} Its light turns slowly.",
        "Rain falls on most days of autumn. Storms come from the west. Snow is rare.",
        "The post office opens at nine. Letters leave on Mondays. Stamps show the harbour.",
        f"Shops are few. {bakery} It opens early.",
        "Fishing boats leave before dawn. Most of them are blue. They return at noon.",
    ]
    question = "What is known of ferry, lighthouse and bakery?"
    prompt = rag_prompt(question, list(map(Document, documents)), chat=True)

    def attributed(method: Method) -> Attribution:
        attributor = Attributor(smollm2, method=method, verdicts=None, progress=False)
        return attributor.attribute(prompt, " ".join(statements), documents)

    plain, doubted = attributed(Thorough()), attributed(Thorough(doubt=ALWAYS))
    expected = attributed(LeaveOneOut())
    for statement in statements:
        for result in (plain, doubted):
            best = result.top(1, *result.find(statement))[0]
            assert best.source.text == statement
        assert doubted.exact[best.source.id]
    for index in np.flatnonzero(doubted.exact):
        np.testing.assert_allclose(
            doubted.token_scores[index] or (), expected.token_scores[index] or (), atol=0.02
        )
