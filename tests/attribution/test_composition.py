"""Answers made of earlier answers: their citations lead to the documents that were retrieved."""

import json

import pytest
from support.attributions import handmade, verdicts_of
from support.compositions import (
    ABOUT_FERRY,
    BOTH,
    CARRIES,
    EARLIER,
    EARLIER_RUNS,
    HIGH,
    OF_BOTH,
    TOWER,
    WHITE,
    composed,
    run,
)
from support.schemas import SUMMARIES

from attribot_rag.attribution import Composition
from attribot_rag.attribution.composition import summarize_composition
from attribot_rag.context import Document
from attribot_rag.result.remarks import THE_DOCUMENTS, words_for
from attribot_rag.result.summary import MAX_SUMMARY_BYTES
from attribot_rag.result.verdict import Support


def texts(composition: Composition) -> list[list[str]]:
    return [
        [origin.source.text for origin in sentence.origins] for sentence in composition.sentences
    ]


def test_a_citation_leads_to_the_sentence_that_the_cited_part_came_from() -> None:
    composition = Composition(OF_BOTH, EARLIER)
    assert texts(composition) == [[HIGH, CARRIES], [WHITE]]
    assert composition.numbers == {"tower": 1, "ferry": 2}
    assert list(composition.documents) == ["tower", "ferry"]
    assert composition.to_cited_text() == (
        "The tower is high, the ferry is large. [1] [2] Both are white. [1]"
    )


def test_a_sentence_caused_by_an_unsupported_earlier_sentence_is_unsupported() -> None:
    unsupported = {"kind": "unsupported"}
    verdicts = verdicts_of(BOTH, {"kind": "grounded", "source_ids": (0,)}, unsupported)
    answer, scores = f" {HIGH} {WHITE}", {HIGH: (0.0, 0.0), WHITE: (0.0, 8.0)}
    invented = verdicts_of(answer, unsupported, {"kind": "grounded", "source_ids": (1,)})
    earlier = handmade(answer, [TOWER], scores, verdicts=invented)
    attribution = composed((9.0, 0.0), (0.0, 0.0), (0.0, 0.0), verdicts=verdicts)
    composition = Composition(attribution, {"a": earlier, "b": ABOUT_FERRY})
    assert [sentence.kind for sentence in composition.sentences] == ["unsupported", "unsupported"]
    assert texts(composition) == [[], []]
    assert f"({words_for('unsupported', THE_DOCUMENTS)})" in composition.to_cited_text()


@pytest.mark.parametrize("num_earlier", [2, 40])
def test_a_summary_holds_the_answer_its_sources_and_its_calls(num_earlier: int) -> None:
    more = [run(f"more {number}", ABOUT_FERRY) for number in range(num_earlier - 2)]
    whole = run("whole", OF_BOTH, earlier=(*EARLIER_RUNS, *more))
    summary = whole.summary
    SUMMARIES.validate(summary)
    assert len(json.dumps(summary).encode()) <= MAX_SUMMARY_BYTES
    assert (summary["status"], summary["question"], summary["answer"]) == (
        "composite",
        "Why?",
        BOTH,
    )
    assert [document["id"] for document in summary["documents"]] == ["tower", "ferry"]
    assert [sentence["documents"] for sentence in summary["sentences"]] == [[0, 1], [0]]
    cited = summary["sentences"][0]["source_ids"]
    assert [summary["sources"][source]["text"] for source in cited] == [HIGH, CARRIES]
    assert [call["run_id"] for call in summary["calls"][:2]] == ["a", "b"]
    assert len(summary["calls"]) + summary["omitted"]["calls"] == num_earlier
    assert whole.to_cited_text() == Composition(OF_BOTH, EARLIER).to_cited_text()


def test_the_passages_found_are_those_of_all_answers() -> None:
    said_nowhere = {"kind": "unsupported", "support": Support(kind="none")}
    verdicts = verdicts_of(BOTH, said_nowhere, said_nowhere)
    scores = ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0))
    attribution = composed(*scores, verdicts=verdicts)
    third = Document("The quay is long.", id="quay")
    composition = Composition(attribution, EARLIER, retrieved=(third,))
    assert "(not in the 3 passages found)" in composition.to_cited_text()
    summary = summarize_composition(composition)
    assert summary["trust"]["passages"] == 3
    remarks = [remark for sentence in summary["sentences"] for remark in sentence["remarks"]]
    assert {remark["text"] for remark in remarks} == {"not in the 3 passages found"}


TOWER_LINE, FERRY_LINE = 'Tower (tower): "{}"', f'ferry: "{CARRIES}"'


def test_the_sources_stand_after_the_answer() -> None:
    whole = run("whole", OF_BOTH, earlier=EARLIER_RUNS)
    lines = (TOWER_LINE.format(f'{HIGH}" "{WHITE}'), FERRY_LINE)
    legend = "".join(f"[{number}] {line}\n" for number, line in enumerate(lines, 1))
    assert whole.to_cited_text(sources=True) == f"{whole.to_cited_text()}\n\n{legend}"
