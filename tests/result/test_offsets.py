"""Characters of an answer in the text that an application made of it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribot_rag.result.citations import Offsets

ANSWER = "The **ferry** is red. It is old. So it is both."


def pieces_of(answer: str, shown: str) -> list[str] | None:
    """The pieces of the shown text in which the answer's three sentences stand."""
    offsets = Offsets.between(answer, shown)
    if offsets is None:
        return None
    first, second = answer.index("It is old"), answer.index("So it is")
    edges = ((0, first), (first, second), (second, len(answer)))
    intervals = [offsets.interval(*edge) for edge in edges]
    assert all(a[1] <= b[0] for a, b in pairwise(intervals))
    return [shown[start:end] for start, end in intervals]


PIECES = ["The **ferry** is red. ", "It is old. ", "So it is both."]


@pytest.mark.parametrize(
    ("answer", "shown", "expected"),
    [
        (ANSWER, ANSWER, PIECES),
        (f"\n {ANSWER} ", ANSWER, PIECES),
        (ANSWER, ANSWER.upper(), [piece.upper() for piece in PIECES]),
        (ANSWER, ANSWER.replace("*", ""), ["The ferry is red. ", *PIECES[1:]]),
        (f'{{"a": "{ANSWER}"}}', ANSWER, PIECES),
        (ANSWER, ANSWER[:32], [PIECES[0], "It is old.", ""]),
        (ANSWER, f"{ANSWER} [1]", PIECES),
        (f"{'prompt ' * 99}{ANSWER}", ANSWER, PIECES),
        (ANSWER, "42", None),
        (ANSWER, "The answer was refused by the guard.", None),
        (ANSWER, " ", None),
        (ANSWER, "", None),
    ],
)
def test_sentences_are_found_in_the_shown_text(
    answer: str, shown: str, expected: list[str] | None
) -> None:
    assert pieces_of(answer, shown) == expected


@given(st.text(min_size=1), st.text(min_size=1), st.data())
def test_intervals_stay_within_the_text_and_in_order(
    answer: str, shown: str, data: st.DataObject
) -> None:
    offsets = Offsets.between(answer, shown)
    if offsets is None:
        return
    edges = sorted(data.draw(st.lists(st.integers(0, len(answer)), min_size=2, max_size=6)))
    last = 0
    for start, end in pairwise(edges):
        first, after = offsets.interval(start, end)
        assert last <= first <= after <= len(shown)
        last = after
