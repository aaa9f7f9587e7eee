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


def test_the_labels_of_an_earlier_turn_are_gone(smollm2: LocalModel) -> None:
    earlier = ("The night ferry is red.", "The night ferry has a band.")
    now = ("The day ferry is blue.", "The day ferry has 40 seats.")
    first, second = (
        "\n".join(f"{index}. {text}" for index, text in enumerate(texts, start=1))
        for texts in (earlier, now)
    )
    prompt = [
        {"role": "user", "content": f"{first}\n\nWhat does the night ferry have?"},
        {"role": "assistant", "content": "The night ferry has a band [2]."},
        {"role": "user", "content": f"{second}\n\nHow many seats has the day ferry?"},
    ]
    answer = "The day ferry has 40 seats [2]."
    result = Attributor(smollm2, progress=False).attribute(prompt, answer, (*earlier, *now))
    (marker,) = result.markers
    assert (marker.number, marker.document, marker.supported) == (2, 3, True)
    assert result.to_cited_text(remarks=False) == answer


@pytest.mark.parametrize("marker", ["[3, S. 12]", "<sup>[3]</sup>"])
def test_a_marker_is_neither_judged_nor_checked(smollm2: LocalModel, marker: str) -> None:
    shown = "\n".join(f"[{index}] {text}" for index, text in enumerate(BRIDGE, start=1))
    answer = f"Tram 4 ends at the abbey.{marker} The Sorrel bridge was painted green."
    result = attributed(smollm2, "Where does tram 4 end?", answer, BRIDGE, shown)
    assert audit(result) == [(marker, True)]
    assert not any(verdict.checks for verdict in result.verdicts)
    assert [verdict.start for verdict in result.verdicts] == [0, answer.index("The Sorrel")]
