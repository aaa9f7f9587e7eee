"""Whole attributions of answers that repeat the labels of their prompts."""

from collections.abc import Sequence
from typing import Any

import pytest

from attribot_rag import Attribution, Attributor, LocalModel

BRIDGE = (
    "The Sorrel bridge is 310 metres long.",
    "The Sorrel bridge was painted green.",
    "Tram 4 ends at the abbey.",
)


def attributed(
    model: LocalModel, question: str, answer: str, documents: Sequence[str], shown: str
) -> Attribution:
    attributor = Attributor(model, progress=False)
    prompt = [{"role": "user", "content": f"{shown}\n\n{question}"}]
    return attributor.attribute(prompt, answer, documents)


def audit(attribution: Attribution) -> list[tuple[str, bool | None]]:
    text = attribution.response
    return [(text[marker.start : marker.end], marker.supported) for marker in attribution.markers]


@pytest.mark.parametrize(
    ("labels", "answer", "expected"),
    [
        ((1, 1, 2), "The Sorrel bridge is 310 metres long [1].", [("[1]", True)]),
        (
            ("a.md", "a.md", "b.md"),
            "The Sorrel bridge is 310 metres long [b.md].",
            [("[b.md]", False)],
        ),
    ],
)
def test_chunks_of_a_file_with_one_label(
    smollm2: LocalModel, labels: Sequence[object], answer: str, expected: list[Any]
) -> None:
    shown = "\n".join(f"[{label}] {text}" for label, text in zip(labels, BRIDGE, strict=True))
    result = attributed(smollm2, "How long is the Sorrel bridge?", answer, BRIDGE, shown)
    assert audit(result) == expected
    cited = result.to_cited_text(remarks=False)
    assert cited == (answer if expected[0][1] else f"{answer.split(' [')[0]}. [{labels[0]}]")
