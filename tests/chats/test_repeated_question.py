"""In both chats, an answer that only repeats its question is none, and one that loops ends."""

import runpy
from pathlib import Path

import pytest

SHARED = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "chat_files.py"))


@pytest.mark.parametrize(
    ("question", "answer", "is_none"),
    [
        ("How high is the lighthouse?", "How high is the lighthouse?", True),
        ("Wie viele Gäste fasst die Fähre?", "Die Fähre fasst viele Gäste.", True),
        ("Who designed it?", " ", True),
        ("How high is the lighthouse?", "The lighthouse is 38 metres high.", False),
        ("Is the ferry red or green, or is it another colour?", "Green.", False),
        ("Does it carry 40 or 84 passengers?", "84", False),
    ],
)
def test_an_answer_needs_a_word_of_its_own(question: str, answer: str, is_none: bool) -> None:
    assert SHARED["repeats"](question, answer) == is_none


@pytest.mark.parametrize(
    ("ids", "is_loop"),
    [
        ([9, *[5, 6, 7, 8] * 3], True),
        ([9, *[5, 6, 7] * 6], True),  # a shorter part, more often
        ([9, *[5, 6, 7, 8] * 2], False),
        ([*range(99)], False),
        ([5], False),
    ],
)
def test_an_answer_that_loops_ends(ids: list[int], is_loop: bool) -> None:
    assert SHARED["loops"](ids) == is_loop
