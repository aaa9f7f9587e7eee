"""Attributions as feedback for tools that collect it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from support.attributions import handmade

from attribot_rag import Document
from attribot_rag.attribution import Check, Verdict
from attribot_rag.errors import NotRecorded
from attribot_rag.runtime import Answer, AttributedRun, feedback_of

DOCUMENTS = (
    Document("The hall is old. It has a tower.", id="a"),
    Document("Ships came in spring."),
    Document("Nobody knows.", id="c"),
)
SCORES = {"The hall is old. ": [6.0, 0.5], "It has a tower.": [0.25, 0.0], "Nobody knows.": None}


def run_of(*kinds: str, **fields: Any) -> AttributedRun:
    spans = [(0, 12), (12, 27)]
    verdicts = tuple(
        Verdict(start=start, end=end, kind=kind, source_ids=(0,) if kind == "grounded" else ())  # type: ignore[arg-type]
        for (start, end), kind in zip(spans, kinds, strict=True)
    )
    attribution = handmade(
        "It is old. Nobody doubts it.", DOCUMENTS, SCORES, verdicts=verdicts, **fields
    )
    return AttributedRun("run", "root", Answer("", DOCUMENTS), attribution)


@pytest.mark.parametrize(
    ("kinds", "score", "label"),
    [
        (("grounded", "redundant"), 1.0, "supported"),
        (("grounded", "unsupported"), 0.5, "partly_supported"),
        (("grounded", "follows"), 1.0, "supported"),
        (("conversation", "open"), 0.0, "not_supported"),
        (("trivial", "reasoning"), None, "not_judged"),
    ],
)
def test_the_score_is_the_share_of_sentences_that_retrieved_text_caused(
    kinds: tuple[str, str], score: float | None, label: str
) -> None:
    feedback = feedback_of(run_of(*kinds))
    assert (feedback.score, feedback.label) == (score, label)


@pytest.mark.parametrize(
    ("absent", "other", "score"), [(True, None, 0.5), (False, "new", 0.5), (False, None, 1.0)]
)
def test_a_sentence_with_a_value_that_the_documents_lack_does_not_come_from_them(
    absent: bool, other: str | None, score: float
) -> None:
    run = run_of("grounded", "redundant")
    assert run.attribution is not None
    first, second = run.attribution.verdicts
    check = Check(
        start=6, end=9, kind="number", value="old", source_value=other, in_no_document=absent
    )
    verdicts = (replace(first, checks=(check,)), second)
    feedback = feedback_of(replace(run, attribution=replace(run.attribution, verdicts=verdicts)))
    assert feedback.score == score
    assert feedback.metadata["sentences_to_check"] == 1


def test_each_document_has_the_sum_of_its_sources_scores() -> None:
    feedback = feedback_of(run_of("grounded", "unsupported"))
    assert feedback.metadata["documents"] == [
        {"index": 0, "id": "a", "number": 1, "score": 6.75},
        {"index": 1, "id": None, "number": None, "score": None},  # holds no source
        {"index": 2, "id": "c", "number": None, "score": None},  # was not scored, which is not 0
    ]
    assert feedback.metadata["status"] == "complete"
    assert "1 of 2" in feedback.explanation and "(a): 6.8 nats" in feedback.explanation
    written = json.dumps([feedback.explanation, feedback.metadata])
    assert not [text for text in ("tower", "doubts", "spring") if text in written]


def test_a_run_without_attribution_names_its_error() -> None:
    failed = AttributedRun("run", "root", Answer("It is old."), error=NotRecorded("It is"))
    feedback = feedback_of(failed)
    assert (feedback.label, feedback.score) == ("not_attributed", None)
    assert (feedback.explanation, feedback.metadata["status"]) == ("NotRecorded", "error")
    pending = AttributedRun("run", "root", Answer(""), is_pending=True)
    assert feedback_of(pending).explanation == "pending"
