"""What a reader cites for an answer, and where people found that."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from attribot_rag.context import DocumentSpan
from benchmarks.readers.claims import Claim, hotpotqa_answers, in_turn, squad_answers
from benchmarks.readers.places import outcome
from benchmarks.readers.reading import Reading, SourcePlaces

TEXTS = ("The inn has nine rooms. ", "Nine of them are blue. ", "Breakfast is early.")
STARTS = (0, 24, 47, 66)


def reading(evidence: tuple[DocumentSpan, ...]) -> Reading:
    places = (DocumentSpan(0, *span) for span in pairwise(STARTS))
    claim = Claim("1", "SQuAD", "How many?", "The answer is nine.", TEXTS, bool(evidence), evidence)
    sources = (SourcePlaces(text, (place,)) for text, place in zip(TEXTS, places, strict=True))
    return Reading(claim, (), (), (), tuple(sources), (), ())


@pytest.mark.parametrize(
    ("cited", "with_evidence", "without"),
    [
        ([], "none", "none"),
        ([0], "right", "false"),
        ([0, 1], "right", "false"),
        ([1], "other", "false"),
        ([2], "false", "false"),
        ([0, 2], "false", "false"),
    ],
)
def test_what_is_cited_is_right_or_false(
    cited: list[int], with_evidence: str, without: str
) -> None:
    assert outcome(reading((DocumentSpan(0, 12, 16),)), cited) == with_evidence
    assert outcome(reading(()), cited) == without


def squad_file(path: Path) -> Path:
    def paragraph(number: int) -> dict[str, Any]:
        answer = {"text": f"n{number}", "answer_start": 6}
        question = {"id": str(number), "question": "?", "answers": [answer]}
        return {"context": f"It is n{number}.", "qas": [question]}

    articles = [{"title": "A", "paragraphs": [paragraph(number) for number in range(12)]}]
    path.write_text(json.dumps({"data": articles}), "utf-8")
    return path


def test_an_answer_of_a_later_paragraph_has_no_place(tmp_path: Path) -> None:
    file = squad_file(tmp_path / "squad.json")
    halves = [squad_answers(file, split) for split in ("calibration", "held_out")]
    claims = in_turn(*halves)
    assert len({claim.id for claim in claims}) == len(claims) == 12
    for claim in claims:
        assert claim.attributable == bool(claim.evidence) == (int(claim.id) < 8)
        for place in claim.evidence:
            held = claim.references[place.document][place.start : place.end]
            assert claim.claim == f"The answer is {held}."


def test_the_place_of_an_answer_is_the_supporting_facts(tmp_path: Path) -> None:
    question = {
        "_id": "1",
        "question": "?",
        "answer": "nine",
        "context": [["Mill", ["A mill. ", "It is old."]], ["Inn", ["An inn. ", "Rooms: nine."]]],
        "supporting_facts": [["Inn", 1], ["Mill", 0], ["Mill", 7]],
    }
    file = tmp_path / "hotpotqa.json"
    file.write_text(json.dumps([question, {**question, "answer": "yes"}]), "utf-8")
    (claim,) = hotpotqa_answers(file, "calibration")
    texts = [claim.references[at.document][at.start : at.end] for at in claim.evidence]
    assert texts == ["Rooms: nine.", "A mill. "]
