"""Verdicts and markers, which the table, Markdown and the cited text show alike."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from support.attributions import NOTHING_SCORED, NOTHING_STANDS_OUT, handmade, verdicts_of
from support.strategies import attributions

from attribot_rag import Attribution
from attribot_rag.attribution import Marker
from attribot_rag.display import answer_data, render_markdown, render_table

RESPONSE = "The ferry is red [2]. It is old [7]. So it is both."
FIRST, SECOND, THIRD = "Ferries are red.", "The ferry is red.", "It is old."


def table(attribution: Attribution) -> str:
    return render_table(attribution, width=120)


def markdown(attribution: Attribution) -> str:
    return render_markdown(attribution).replace("\\", "").replace("*(", "(").replace(")*", ")")


def cited_text(attribution: Attribution) -> str:
    return f"{attribution.to_cited_text()}\n"


both = pytest.mark.parametrize("shown", [table, markdown])
each = pytest.mark.parametrize("shown", [table, markdown, cited_text])


def judged(*verdicts: dict[str, Any], **fields: Any) -> Attribution:
    """One verdict for each sentence, in order."""
    return handmade(
        RESPONSE,
        [FIRST, SECOND, THIRD],
        {FIRST: (4.0, 0.0, 0.0), SECOND: (4.5, 0.0, 0.0), THIRD: (0.0, 5.0, 0.0)},
        verdicts=verdicts_of(RESPONSE, *verdicts),
        **fields,
    )


GROUNDED = {"kind": "grounded", "source_ids": (2,)}
OPEN = {"kind": "open"}


@pytest.mark.parametrize(
    ("verdict", "remark"),
    [
        ({"kind": "unsupported", "reliance": -0.5}, "not caused"),
        ({"kind": "unsupported", "reliance": 2.4}, "hardly caused"),
        ({"kind": "unsupported", "reliance": 25.0}, "not wholly caused"),
        ({"kind": "conversation", "origin": "turn"}, "conversation"),
        ({"kind": "conversation", "origin": "instructions"}, "instructions"),
        ({"kind": "open"}, "not decided"),
        ({"kind": "open", "reason": "not_located"}, "not found"),
        ({"kind": "open", "reason": "budget"}, "budget"),
        ({"kind": "follows", "follows": 1}, "sentence 2"),
        ({"kind": "trivial"}, ""),
        ({"kind": "grounded", "source_ids": (2,), "in_part": True}, "in part"),
    ],
)
def test_remarks(verdict: dict[str, Any], remark: str) -> None:
    text = cited_text(judged(GROUNDED, GROUNDED, verdict))
    assert text.startswith("The ferry is red [2]. [1] It is old [7]. [1] So it is both.")
    assert remark in text.partition("both.")[2]
    assert ("(" in text) == bool(remark)


@each
def test_either_is_one_marker(shown: Callable[[Attribution], str]) -> None:
    either = {"kind": "redundant", "relation": "either", "source_ids": (1, 0)}
    text = shown(judged(either, GROUNDED, {"kind": "follows", "follows": 0}))
    assert "The ferry is red [2]. [1 or 2] It is old [7]. [3] So it is both. (follows" in text


@each
@pytest.mark.parametrize("relation", ["each", "together"])
def test_all_others_have_markers_of_their_own(
    shown: Callable[[Attribution], str], relation: str
) -> None:
    several = {"kind": "redundant", "relation": relation, "source_ids": (1, 0)}
    text = shown(judged(several, GROUNDED, OPEN))
    remark = " (only together)" if relation == "together" else ""
    assert f"The ferry is red [2]. [1] [2]{remark} It is old [7]. [3] So it is both. (not" in text


@both
def test_markers_that_the_model_made_up_are_reported(shown: Callable[[Attribution], str]) -> None:
    markers = (
        Marker(start=17, end=20, number=2, document=1, supported=False),
        Marker(start=32, end=35, number=7, document=None, supported=None),
    )
    text = shown(judged(GROUNDED, GROUNDED, OPEN, markers=markers))
    assert "cites [2], but" in text and "no effect" in text
    assert "cites [7], but" in text and "missing" in text


@both
def test_no_source_stands_out(shown: Callable[[Attribution], str]) -> None:
    text = shown(NOTHING_STANDS_OUT)
    assert "No source stands out" in text
    assert "[1]" not in text
    assert "0.40" in text


@both
def test_sources_that_were_not_scored_are_no_zeros(shown: Callable[[Attribution], str]) -> None:
    text = shown(NOTHING_SCORED)
    assert "No source was scored" in text
    assert "2 sources were not scored." in text
    assert "Top" not in text
    assert "0.00" not in text


@given(attributions())
def test_any_attribution_can_be_shown(attribution: Attribution) -> None:
    assert render_table(attribution, width=80).endswith("\n")
    assert render_markdown(attribution).endswith("*\n")
    assert json.loads(json.dumps(answer_data(attribution)))["answer"] == attribution.response
