"""An answer that only repeats its question counts as none, in both chats."""

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
