import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.attributions import attribution, handmade
from support.strategies import attributions

from attribot_rag.attribution import Attribution
from attribot_rag.errors import InvalidInput


def test_scores_are_sums_over_the_span_s_tokens() -> None:
    result = attribution("abcd", [[1, 2, 4, 8], [-1, 0, 0, 0], None])
    assert result.score(0) == 15
    assert result.score(0, 1, 3) == 6
    assert result.score(1, 0, 1) == -1
    assert result.score(0, 2, 2) == 0
    assert result.score(2) is None
    assert result.score(2, 0, 1) is None


def test_ranking() -> None:
    result = attribution("ab", [[1, 0], [3, 0], None, [1, 0], [-2, 9]], documents=5)
    assert [ranking.source.id for ranking in result.top(10)] == [4, 1, 0, 3]
    assert [ranking.score for ranking in result.top(2)] == [7, 3]
    assert [ranking.source.id for ranking in result.top(10, 0, 1)] == [1, 0, 3, 4]
    assert result.top(0) == ()


def test_documents_are_ranked_by_the_sums_of_their_sources() -> None:
    scores = {"One. ": [1.0, 4.0], "Shared. ": [2.0, 0.0], "Other. ": [0.5, -9.0], "New.": None}
    result = handmade("Yes. No.", ["One. Shared. ", "Shared. Other. ", "New."], scores)
    ranked = result.documents_by_effect()
    assert [(ranking.index, ranking.score) for ranking in ranked] == [(0, 7.0), (1, -6.5)]
    assert ranked[0].document == result.documents[0]
    spanned = result.documents_by_effect(*result.find("Yes."))
    assert [(ranking.index, ranking.score) for ranking in spanned] == [(0, 3.0), (1, 2.5)]


def test_a_piece_of_the_answer_is_found_by_its_text() -> None:
    result = attribution("ab ab", [[1, 2, 4, 8, 16]])
    assert result.find("ab") == (0, 2)
    assert result.find("b a") == (1, 4)
    assert result.top(1, *result.find("b"))[0].score == 2
    for text in ("abc", "AB", ""):
        with pytest.raises(InvalidInput, match=f"'{text}' is not in the response 'ab ab'"):
            result.find(text)


def test_the_matrix_masks_sources_without_scores() -> None:
    matrix = attribution("ab", [[1, 2], None]).matrix
    assert matrix.shape == (2, 2)
    assert matrix[0].tolist() == [1, 2]
    assert np.ma.getmaskarray(matrix).tolist() == [[False, False], [True, True]]
    assert matrix.sum() == 3
    assert attribution("ab", []).matrix.shape == (0, 2)


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (0, 5), (3, 2)])
def test_spans_and_sources_that_do_not_exist_are_refused(start: int, end: int) -> None:
    result = attribution("abcd", [[1, 2, 4, 8]])
    with pytest.raises(InvalidInput, match=f"{start} to {end} are not in the response of 4"):
        result.score(0, start, end)
    for source_id in (-1, 1):
        with pytest.raises(InvalidInput, match=f"source {source_id} is not one of the 1 sources"):
            result.score(source_id)
    with pytest.raises(InvalidInput, match="k=-1; ask for at least 0 sources"):
        result.top(-1)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("response", ""),
        ("token_spans", ((0, 1), (1, 3))),
        ("token_spans", ((0, 1), (2, 1))),
        ("token_spans", ((0, 1),)),
        ("token_log_likelihoods", (-1.0,)),
        ("token_scores", ()),
        ("token_scores", ((1.0, 2.0, 3.0),)),
        ("exact", ()),
        ("sources", ()),
        ("documents", ()),
        ("not_located", (3,)),
    ],
)
def test_parts_that_do_not_fit_together(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match="of the attribution do not fit"):
        dataclasses.replace(attribution("ab", [[1, 2]]), **{field: value})


@given(result=attributions(), data=st.data())
def test_disjoint_spans_sum_to_the_whole(result: Attribution, data: st.DataObject) -> None:
    length = len(result.response)
    cuts = data.draw(st.lists(st.integers(0, length), max_size=5))
    places = sorted({0, *cuts, length})
    spans = list(itertools.pairwise(places))
    tokens = [index for span in spans for index in result.tokens_in(*span)]
    assert tokens == list(range(len(result.token_spans)))
    for source in result.sources:
        row = result.token_scores[source.id]
        assert (result.score(source.id) is None) == (row is None)
        if row is not None:
            assert result.score(source.id) == pytest.approx(sum(x or 0.0 for x in row))


def test_tokens_that_were_not_measured_count_nothing() -> None:
    scores = {"Salt.": (2.0, 3.0), "Timber.": (1.0, 4.0)}
    whole = handmade("Salt came. Timber came.", ["Salt.", "Timber."], scores)
    result = dataclasses.replace(whole, token_scores=((2.0, 0.0, None, None), None))
    second = result.find("Timber came.")
    assert result.score(0) == 2.0
    assert result.score(0, *second) is None and result.top(5, *second) == ()
    assert [(ranked.source.id, ranked.score) for ranked in result.top()] == [(0, 2.0)]
    assert result.matrix.mask.tolist() == [[False, False, True, True], [True] * 4]
    assert Attribution.from_json(result.to_json()).token_scores == result.token_scores
