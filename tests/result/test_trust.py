"""What each sentence is worth to a reader, and the line for the whole answer."""

from dataclasses import replace
from typing import Any

import pytest
from support.attributions import handmade, supported, verdicts_of

from attribot_rag.result import summarize
from attribot_rag.result.remarks import trust_line

FERRY, RIVAL = "The ferry carries 84 people.", "The ferry carries 40 people."
GUARANTEE = "The guarantee lasts 24 months from the day of purchase."
LAMP = "The lamp is green."
SENTENCES: list[tuple[str, dict[str, Any]]] = [
    (FERRY, {"kind": "grounded", "source_ids": (0,)}),
    ("In Norland the guarantee lasts 24 months.", {"kind": "grounded", "source_ids": (1,)}),
    ("So Norland has time.", {"kind": "follows", "follows": 1}),
    ("Paris is the capital of France.", {"kind": "unsupported"}),
    ("The lamp is green.", {"kind": "unsupported"}),
    ("You asked me twice.", {"kind": "conversation"}),
    ("It may sail.", {"kind": "open", "reason": "scattered"}),
    ("Hello there.", {"kind": "trivial"}),
    ("The captain is", {"kind": "open", "reason": "cut"}),
]


def summary(documents: list[str], *chosen: int) -> dict[str, Any]:
    said = " ".join(SENTENCES[index][0] for index in chosen)
    sources = dict.fromkeys((FERRY, GUARANTEE, RIVAL, LAMP), (9.0,))
    made = handmade(said, documents, sources)
    kinds = (SENTENCES[index][1] for index in chosen)
    made = replace(made, verdicts=verdicts_of(said, *kinds))
    return summarize(supported(made))


def test_each_judged_sentence_has_a_standing() -> None:
    data = summary([f"{FERRY} {GUARANTEE}", LAMP], *range(len(SENTENCES)))
    standings = [sentence["standing"] for sentence in data["sentences"]]
    assert standings[:4] == ["full", "partial", "partial", "none"]
    assert standings[5:] == ["elsewhere", "none", None, None]


@pytest.mark.parametrize(
    ("documents", "chosen", "line"),
    [
        ([f"{FERRY} {GUARANTEE}"], (0,), "supported by the documents"),
        (
            [f"{FERRY} {GUARANTEE}", RIVAL],
            (0,),
            "supported by the documents · another file says otherwise",
        ),
        ([f"{FERRY} {GUARANTEE}"], (1,), "the source may not say this"),
        ([f"{FERRY} {GUARANTEE}"], (3,), "not in the passage found"),
        (
            [f"{FERRY} {GUARANTEE}", LAMP],
            (0, 1, 2, 3),
            "1 of 4 sentences are supported by the documents · 2 may not be supported by their "
            "sources · 1 is not in the 2 passages found",
        ),
        ([FERRY, GUARANTEE], (7,), ""),
    ],
)
def test_one_line_tells_how_far_an_answer_can_be_trusted(
    documents: list[str], chosen: tuple[int, ...], line: str
) -> None:
    assert trust_line(summary(documents, *chosen)["trust"]) == line


def test_a_value_that_the_source_has_otherwise_differs() -> None:
    said = "The ferry carries 48 people."
    made = handmade(said, [FERRY], {FERRY: (9.0,)})
    verdicts = verdicts_of(said, {"kind": "grounded", "source_ids": (0,)})
    data = summarize(supported(replace(made, verdicts=verdicts)))
    assert data["sentences"][0]["standing"] == "contradicted"
    assert trust_line(data["trust"]) == "the source says otherwise"
