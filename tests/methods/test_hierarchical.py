"""Hierarchical attribution and pruning: the groups that are kept, and their scores."""

from typing import Any

import numpy as np
import pytest
from support.scorers import (
    ATOL,
    TREATY,
    assert_same_rows,
    assert_scored_by_hand,
    best_by_hand,
    by_hand,
    ids_of,
    run,
    scorer,
)

from attribot_rag.context import Document
from attribot_rag.errors import InvalidInput
from attribot_rag.methods import (
    Auto,
    Hierarchical,
    LeaveOneOut,
    Masked,
    Method,
    Pruned,
    make_method,
)
from attribot_rag.methods.base import num_kept

SECTIONED = tuple(
    Document(text, metadata={"section": section})
    for text, section in zip(TREATY, ("war", "town", "war", "town"), strict=True)
)
GROUPS = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]


def test_the_scores_of_the_groups_differ() -> None:
    target = scorer()
    assert [ids_of(target, document) for document in range(4)] == GROUPS
    totals = [float(row.sum()) for row in by_hand(target, GROUPS)]
    assert min(abs(a - b) for i, a in enumerate(totals) for b in totals[:i]) > 10 * ATOL


@pytest.mark.parametrize("shorten", [True, False])
@pytest.mark.parametrize("keep", [1.0, 4, 100])
def test_keeping_every_group_is_leave_one_out(keep: float, shorten: bool) -> None:
    scores = run(Hierarchical(keep=keep, shorten=shorten))
    expected = run(LeaveOneOut())
    assert_same_rows(scores, expected)
    assert scores.exact == expected.exact == (True,) * 11
    assert [group.units for group in scores.groups] == [tuple(group) for group in GROUPS]


@pytest.mark.parametrize("recompute", ["response", "question", "document"])
def test_keeping_every_group_masked_is_masked(recompute: Any) -> None:
    masked = Masked(recompute)
    scores = run(Hierarchical(keep=1.0, coarse=masked, fine=masked, shorten=False))
    assert_same_rows(scores, run(masked))
    assert not any(scores.exact)


@pytest.mark.parametrize("shorten", [True, False])
@pytest.mark.parametrize("then", [LeaveOneOut(), Masked(), Hierarchical(keep=2), Auto()])
def test_pruning_that_keeps_everything_is_its_second_method(then: Method, shorten: bool) -> None:
    scores = run(Pruned(Masked(), keep=1.0, then=then, shorten=shorten))
    expected = run(then)
    assert_same_rows(scores, expected)
    assert scores.exact == expected.exact


def test_keep_two_is_leave_one_out_in_the_prompt_without_the_rest() -> None:
    """In the full context, the scores are exact."""
    target = scorer()
    best = best_by_hand(by_hand(target, GROUPS), 2)
    kept = [unit for group in best for unit in GROUPS[group]]
    shorter = target.rebased(kept)
    assert shorter is not None
    text = shorter.context.prompt.text
    assert all((TREATY[group].split(". ")[0] in text) == (group in best) for group in range(4))
    scores = run(Hierarchical(keep=2))
    assert_scored_by_hand(scores, kept, by_hand(shorter, [[unit] for unit in kept]))
    assert not any(scores.exact)
    scores = run(Hierarchical(keep=2, shorten=False))
    assert_scored_by_hand(scores, kept, by_hand(target, [[unit] for unit in kept]))
    assert scores.exact == tuple(unit in kept for unit in range(11))


@pytest.mark.parametrize("shorten", [True, False])
def test_two_levels_keep_the_best_documents_of_the_best_sections(shorten: bool) -> None:
    """Section by section, document by document in the best one, sentence by sentence."""
    target = scorer(SECTIONED)
    sections = [[*GROUPS[0], *GROUPS[2]], [*GROUPS[1], *GROUPS[3]]]
    of_sections = by_hand(target, sections)
    section = best_by_hand(of_sections, 1)[0]
    current = target.rebased(sections[section]) if shorten else target
    assert current is not None
    documents = [GROUPS[section], GROUPS[section + 2]]
    of_documents = by_hand(current, documents)
    kept = documents[best_by_hand(of_documents, 1)[0]]
    current = current.rebased(kept) if shorten else target
    assert current is not None
    method = Hierarchical(keep=1, levels=("metadata.section", "document"), shorten=shorten)
    scores = run(method, documents=SECTIONED)
    assert_scored_by_hand(scores, kept, by_hand(current, [[unit] for unit in kept]))
    groups = [sorted(group.units) for group in scores.groups]
    assert groups == [sorted(group) for group in (*sections, *documents)]
    expected = [*of_sections, *of_documents]
    for group, row in zip(scores.groups, expected, strict=True):
        np.testing.assert_allclose(group.token_scores, row, atol=ATOL)
    assert [group.exact for group in scores.groups] == [True, True, not shorten, not shorten]


def test_groups_of_a_pruned_prompt_name_the_units_of_the_whole() -> None:
    """The second method sees two documents and numbers their units anew."""
    target = scorer()
    kept = sorted(np.argsort([-row.sum() for row in by_hand(target, [[i] for i in range(11)])])[:5])
    scores = run(Pruned(LeaveOneOut(), keep=5, then=Hierarchical(keep=1)))
    shorter = target.rebased(kept)
    assert shorter is not None
    assert sorted(unit for group in scores.groups for unit in group.units) == kept
    for group in scores.groups:
        (row,) = by_hand(shorter, [group.units])
        np.testing.assert_allclose(group.token_scores, row, atol=ATOL)
        assert not group.exact


@pytest.mark.parametrize("first", [LeaveOneOut(), Masked(), Hierarchical(keep=2)])
def test_pruning_scores_the_best_in_the_prompt_without_the_rest(first: Method) -> None:
    target = scorer()
    totals = first.run(target).totals
    scored = [unit for unit in range(11) if totals[unit] is not None]
    kept = sorted(scored, key=lambda unit: -(totals[unit] or 0.0))[:3]
    shorter = target.rebased(kept)
    assert shorter is not None
    scores = run(Pruned(first, keep=3))
    assert_scored_by_hand(scores, kept, by_hand(shorter, [[unit] for unit in kept]))
    assert not any(scores.exact)
    whole = run(Pruned(first, keep=3, shorten=False))
    assert_scored_by_hand(whole, kept, by_hand(target, [[unit] for unit in kept]))
    assert whole.exact == tuple(unit in kept for unit in range(11))


def test_the_best_group_of_every_sentence_goes_on() -> None:
    """Unless the group is worth less than half a nat to the sentence."""
    target = scorer()
    rows = by_hand(target, GROUPS)
    response = target.language_model.decode(target.generation.response_ids)
    first = len(target.language_model.encode(response[: response.index(". ") + 1]))
    parts = [range(first), range(first, len(target.generation.response_ids))]
    expected = {best_by_hand(rows, 1)[0]}
    for part in parts:
        totals = [float(row[list(part)].sum()) for row in rows]
        if max(totals) >= 0.5:
            expected.add(int(np.argmax(totals)))
    assert len(expected) > 1
    scores = run(Hierarchical(keep=1, shorten=False, each_sentence=True))
    scored = {unit for unit, row in enumerate(scores.token_scores) if row is not None}
    assert scored == {unit for group in expected for unit in GROUPS[group]}


@pytest.mark.parametrize(
    ("keep", "count", "kept"),
    [(1, 5, 1), (3, 5, 3), (9, 5, 5), (1.0, 5, 5), (0.5, 4, 2), (0.01, 5, 1), (0.6, 5, 3)],
)
def test_keep_is_a_count_or_a_fraction(keep: float, count: int, kept: int) -> None:
    assert num_kept(keep, count) == kept


@pytest.mark.parametrize("keep", [0, 1.5, True, 0.0, float("nan")])
@pytest.mark.parametrize("make", [Hierarchical, lambda keep: Pruned(Masked(), keep)])
def test_a_keep_that_keeps_nothing_is_refused(make: Any, keep: float) -> None:
    with pytest.raises(InvalidInput, match=f"keep={keep!r}"):
        make(keep=keep).run(scorer())


def test_an_unknown_name_lists_those_that_exist() -> None:
    levels = "document, paragraph, passage, metadata"
    with pytest.raises(InvalidInput, match=f"'chapter'.*{levels}"):
        run(Hierarchical(levels=("chapter",)))
    with pytest.raises(InvalidInput, match="levels"):
        run(Hierarchical(levels=()))
    names = "auto, thorough, leave_one_out, hierarchical, masked, patching, masked_hierarchical"
    with pytest.raises(InvalidInput, match=f"'loo'.*{names}"):
        make_method("loo")
    with pytest.raises(InvalidInput, match=r"keep=3.*proxy"):
        make_method("leave_one_out", keep=3)
    with pytest.raises(InvalidInput, match="recompute='answer'"):
        Masked("answer")  # type: ignore[arg-type]
