"""An answer that only repeats its question counts as none, in both chats."""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(params=["gradio_chat.py", "chainlit_chat.py"])
def repeats(request: pytest.FixtureRequest) -> Callable[[str, str], bool]:
    """The chat's own function, read without running the chat, which loads a model."""
    tree = ast.parse((EXAMPLES / request.param).read_text("utf-8"))
    (function,) = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "repeats"
    ]
    names: dict[str, Any] = {"re": re}
    exec(ast.unparse(function), names)
    return names["repeats"]  # type: ignore[no-any-return]


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
def test_an_answer_needs_a_word_of_its_own(
    repeats: Callable[[str, str], bool], question: str, answer: str, is_none: bool
) -> None:
    assert repeats(question, answer) == is_none
