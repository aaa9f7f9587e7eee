"""What is shown of an answer that another model read: the words of support, and who read it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from support.attributions import PROVENANCE, handmade, verdicts_of
from support.compositions import EARLIER_RUNS, OF_BOTH, run

from attribot_rag import Attribution
from attribot_rag.attribution import Marker
from attribot_rag.display import render_markdown, render_table
from attribot_rag.result.remarks import CAUSE_REMARKS, READER_REMARKS, words_for
from attribot_rag.runtime import Answer, AttributedRun, feedback_of

READ = replace(PROVENANCE, basis="reader", answered_by="gpt-4o")
RESPONSE = "Rye is baked here [2]. The oven is new. Nobody knows. So it is."
RYE, OVEN = "Rye is baked here.", "The oven dates from 1901."
CAUSAL = re.compile(r"caus|model's own|anyway|from the doc|made the model|comes? from", re.I)


def read(*verdicts: Mapping[str, Any], **fields: Any) -> Attribution:
    scores = {RYE: (6.0, 0.0, 0.0, 0.0), OVEN: (0.0, 0.1, 0.0, 0.0)}
    judged = verdicts_of(RESPONSE, *verdicts)
    return handmade(
        RESPONSE, [RYE, OVEN], scores, verdicts=judged, **{"provenance": READ, **fields}
    )


GROUNDED = {"kind": "grounded", "source_ids": (0,)}
READING = read(
    GROUNDED,
    {"kind": "unsupported"},
    {"kind": "conversation", "origin": "instructions"},
    {"kind": "open", "reason": "not_located"},
    markers=(Marker(start=18, end=21, label="2", number=2, document=1, supported=False),),
)
SHOWN: list[Callable[[Attribution], str]] = [
    lambda attribution: render_table(attribution, width=1000),
    lambda attribution: render_markdown(attribution).replace("\\", ""),
    Attribution.to_cited_text,
    lambda attribution: attribution.to_cited_text(sources=True),
]


@pytest.mark.parametrize("show", SHOWN)
def test_support_is_told_in_its_own_words_and_who_read(
    show: Callable[[Attribution], str],
) -> None:
    shown = " ".join(show(READING).split())
    for words in (
        "no support found in the documents",
        "supported by the instructions",
        "support unclear: part of the documents is not in the prompt",
        "the model cites [2], which does not support it",
    ):
        assert shown.count(words) == 1
    assert shown.count("smollm2 read the answer of gpt-4o") == 1
    assert not CAUSAL.search(shown)
    cause = " ".join(show(replace(READING, provenance=PROVENANCE)).split())
    assert "read the answer" not in cause and "not from the documents" in cause


def test_the_name_of_who_answered_is_data_and_may_be_unknown() -> None:
    hostile = replace(READ, answered_by="<b>x</b>\n\x1b[31m")
    for show in SHOWN:
        shown = show(replace(READING, provenance=hostile))
        assert "\x1b" not in shown and "of <b>x</b>\n" not in shown
    unknown = replace(READING, provenance=replace(READ, answered_by=None))
    assert "read the answer of another model" in unknown.to_cited_text()
    assert "read the answer" not in READING.to_cited_text(remarks=False)


def test_every_word_of_a_reader_has_one_of_a_cause_or_says_who_read() -> None:
    own = {key for key in READER_REMARKS if not key.startswith("read")}
    assert own <= CAUSE_REMARKS.keys()
    for key in {**CAUSE_REMARKS, **READER_REMARKS}:
        values = dict.fromkeys(("value", "mark", "number", "reader", "answered_by", "readers"), "5")
        assert not CAUSAL.search(words_for(key, "the documents", basis="reader", **values))


def test_an_answer_made_of_earlier_answers_names_its_reader_once() -> None:
    def read_run(run: AttributedRun) -> AttributedRun:
        assert run.attribution is not None
        return replace(run, attribution=replace(run.attribution, provenance=READ))

    earlier = tuple(map(read_run, EARLIER_RUNS))
    whole = replace(read_run(run("whole", OF_BOTH)), earlier=earlier)
    assert whole.to_cited_text(sources=True).count("read the answer of gpt-4o") == 1


def test_a_trace_says_on_what_basis() -> None:
    feedback = feedback_of(AttributedRun("run", "root", Answer(RESPONSE), READING))
    assert (feedback.metadata["basis"], feedback.metadata["answered_by"]) == ("reader", "gpt-4o")
    assert "smollm2 read the answer of gpt-4o" in feedback.explanation
    assert not CAUSAL.search(feedback.explanation)
