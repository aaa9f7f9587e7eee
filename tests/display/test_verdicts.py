"""Verdicts and markers, which the table, Markdown and the cited text show alike."""

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from support.attributions import NOTHING_SCORED, NOTHING_STANDS_OUT, handmade, verdicts_of
from support.strategies import attributions

from attribot_rag import Attribution
from attribot_rag.attribution import Marker
from attribot_rag.display import answer_data, print_table, render_markdown, render_table
from attribot_rag.result.remarks import CAUSE_REMARKS, THE_DOCUMENTS, YOUR_FILES, words_for

RESPONSE = "The ferry is red [2]. It is old [7]. So it is both."
FIRST, SECOND, THIRD = "Ferries are red.", "The ferry is red.", "It is old."


def table(attribution: Attribution) -> str:
    """Without the titles of the documents."""
    text = render_table(attribution, width=1000)
    return re.sub(r"(?<=[\[ ]\d) (?:Ferries are red|The ferry is red|It is old)\.", "", text)


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
        ({"kind": "unsupported", "reliance": -0.5}, "unsupported"),
        ({"kind": "unsupported", "reliance": 2.4}, "unsupported"),
        ({"kind": "unsupported", "reliance": 25.0}, "unsupported"),
        ({"kind": "conversation", "origin": "turn"}, "conversation"),
        ({"kind": "conversation", "origin": "instructions"}, "instructions"),
        ({"kind": "open"}, "open"),
        ({"kind": "open", "reason": "scattered"}, "open"),
        ({"kind": "open", "reason": "not_located"}, "not_located"),
        ({"kind": "open", "reason": "budget"}, "budget"),
        ({"kind": "open", "reason": "cut"}, "cut"),
        ({"kind": "follows", "follows": 1}, "sentence"),
        ({"kind": "trivial"}, ""),
    ],
)
@pytest.mark.parametrize("texts", [THE_DOCUMENTS, YOUR_FILES])
def test_remarks(verdict: dict[str, Any], remark: str, texts: str) -> None:
    result = judged(GROUNDED, GROUNDED, verdict)
    said = f" ({words_for(remark, texts, number='2')})" if remark else ""
    if texts == THE_DOCUMENTS:
        start = "The ferry is red [2]. [1] It is old [7]. [1] So it is both."
        assert cited_text(result) == f"{start}{said}\n"
    file = io.StringIO()
    print_table(result, top=0, texts=texts, file=file)
    assert file.getvalue().partition("both.")[2].split("\n")[0] == said


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
    remark = f" ({CAUSE_REMARKS['both']})" if relation == "together" else ""
    end = f"So it is both. ({CAUSE_REMARKS['open']})"
    assert f"The ferry is red [2]. [1] [2]{remark} It is old [7]. [3] {end}" in text


@each
def test_sources_that_explain_a_sentence_in_part_are_just_cited(
    shown: Callable[[Attribution], str],
) -> None:
    text = shown(judged(GROUNDED, GROUNDED, {**GROUNDED, "in_part": True, "kept": 0.4}))
    assert text == shown(judged(GROUNDED, GROUNDED, GROUNDED))


def test_one_document_with_all_that_is_needed_is_just_cited() -> None:
    several = {"kind": "redundant", "relation": "together", "source_ids": (0, 1)}
    result = handmade("It is.", ["One. Two."], {"One.": (4.0,), "Two.": (4.0,)})
    result = replace(result, verdicts=verdicts_of("It is.", several))
    assert result.to_cited_text() == "It is. [1]"


@both
def test_markers_that_the_model_made_up_are_reported(shown: Callable[[Attribution], str]) -> None:
    markers = (
        Marker(start=17, end=20, number=2, document=1, supported=False),
        Marker(start=32, end=35, number=7, document=None, supported=None),
    )
    text = shown(judged(GROUNDED, GROUNDED, OPEN, markers=markers))
    assert text.count("cites [2], which has no effect") == 1
    assert text.count("cites [7], which is missing") == 1


@both
def test_no_source_stands_out(shown: Callable[[Attribution], str]) -> None:
    text = shown(NOTHING_STANDS_OUT)
    assert CAUSE_REMARKS["nothing"] in text
    assert "[1]" not in text
    assert "0.40" in text


@both
def test_sources_that_were_not_scored_are_no_zeros(shown: Callable[[Attribution], str]) -> None:
    text = shown(NOTHING_SCORED)
    assert CAUSE_REMARKS["nothing"] in text
    assert "2 sources were not scored." in text
    assert "Top" not in text
    assert "0.00" not in text


@given(attributions())
def test_any_attribution_can_be_shown(attribution: Attribution) -> None:
    assert render_table(attribution, width=80).endswith("\n")
    assert render_markdown(attribution).endswith("*\n")
    assert json.loads(json.dumps(answer_data(attribution)))["answer"] == attribution.response
