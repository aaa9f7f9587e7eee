"""The notebooks run offline, and show what their text says."""

import pytest
from support.notebooks import run_notebook


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("quickstart", ["The lighthouse is 38 metres high. [1]", "grounded"]),
        (
            "why-did-it-say-that",
            [
                "grounded ['The tower of the church in Dunholt is 52 metres high.']",
                "Leonardo da Vinci. (not caused by the context)\nunsupported []",
                "[1 or 2]",
                "without the first: The ferry Kittiwake carries up to 84 passengers.",
                "nats from: Fleet list of 1987.",
                "without it: The ferry Kittiwake carries up to 84 passengers.",
            ],
        ),
        (
            "langchain",
            ["38 metres high", "[1]", "grounded", "['answer', 'documents', 'attribution']"],
        ),
        ("llama_index", ["The lighthouse is 38 metres high. [1]", "grounded"]),
    ],
)
def test_a_notebook_runs(name: str, expected: list[str]) -> None:
    printed, shown = run_notebook(name)
    values = "\n".join(output.get("text/plain", "") for output in shown)
    for text in expected:
        assert text in printed + values
    assert any("text/html" in output for output in shown)
