"""Citations within the answer's text."""

import json
from typing import Any

import pytest
from support.attributions import handmade, verdicts_of

from attribot_rag import Document
from attribot_rag.attribution import Check, Verdict
from attribot_rag.context.splitting.blocks import json_in
from attribot_rag.context.splitting.splitter import sentences
from attribot_rag.display import render_cited
from attribot_rag.result.answer_text import AnswerMarks, segments
from attribot_rag.result.remarks import CAUSE_REMARKS, THE_DOCUMENTS, words_for
from attribot_rag.result.summary import summarize

UNSUPPORTED = words_for("unsupported", THE_DOCUMENTS)


def test_every_sentence_is_followed_by_the_numbers_that_it_cites() -> None:
    answer = "The tower is high. Nobody knows why.\nIt was built in 1844."
    result = handmade(
        answer,
        ["It is 38 metres high.", "It was built in 1844. It is grey."],
        {
            "It is 38 metres high.": (9.0, 0.0, 0.0),
            "It was built in 1844.": (0.0, 0.0, 7.0),
            "It is grey.": (0.1, 0.0, 0.0),
        },
    )
    expected = "The tower is high. [1] Nobody knows why.\nIt was built in 1844. [2]"
    assert render_cited(result) == expected
    assert result.to_cited_text() == expected


def test_remarks_can_be_left_out() -> None:
    document, answer = "It is 38 metres high.", "It is high. It is blue, I think."
    grounded = {"kind": "grounded", "source_ids": (0,)}
    verdicts = verdicts_of(answer, grounded, {"kind": "unsupported"})
    result = handmade(answer, [document], {document: (9.0, 0.0)}, verdicts=verdicts)
    assert result.to_cited_text() == f"It is high. [1] It is blue, I think. ({UNSUPPORTED})"
    assert result.to_cited_text(remarks=False) == "It is high. [1] It is blue, I think."


KITTIWAKE = "The ferry Kittiwake carries 84 passengers."


def judged(answer: str, *kinds: str) -> str:
    """The cited text of an answer whose sentences and values have these kinds of verdicts."""
    marks = AnswerMarks(json=list(json_in(answer, 0, len(answer))))
    spans = segments(answer, 0, len(answer), sentences, marks)
    others, verdicts = iter(kinds), list[Verdict]()
    for (start, end), is_sentence in spans:
        is_judged = is_sentence and any(map(str.isalnum, answer[start:end]))
        kind: Any = next(others) if is_judged else "trivial"
        fields: Any = {"source_ids": (0,)} if kind == "grounded" else {}
        first = next((i for i, verdict in enumerate(verdicts) if verdict.kind == "grounded"), None)
        follows = first if kind == "follows" else None
        verdicts.append(Verdict(start=start, end=end, kind=kind, follows=follows, **fields))
    scores = {KITTIWAKE: (9.0,)}
    return handmade(answer, [KITTIWAKE], scores, verdicts=tuple(verdicts)).to_cited_text()


@pytest.mark.parametrize(
    ("answer", "kinds", "lines"),
    [
        (
            '{"ship": "Kittiwake", "passengers": 84, "full": true}',
            ["grounded", "unsupported", "follows"],
            [
                '"ship": "Kittiwake" [1]',
                f'"passengers": 84 ({UNSUPPORTED})',
                '"full": true (follows from sentence 1)',
            ],
        ),
        (
            '{"a": [1, {"b": "It is old. It is red."}]}',
            ["grounded", "open", "follows"],
            [
                "1 [1]",
                f'"b": "It is old. ({CAUSE_REMARKS["open"]})',
                'It is red." (follows from sentence 1)',
            ],
        ),
    ],
)
def test_json_stays_what_it_is(answer: str, kinds: list[str], lines: list[str]) -> None:
    text = judged(answer, *kinds)
    value, end = json.JSONDecoder().raw_decode(text)
    assert value == json.loads(answer)
    assert text[end:].split("\n\n", 1)[1].rstrip().split("\n") == lines


def test_values_to_check_stand_after_the_citation_and_remark() -> None:
    answer, document = "A loaf costs 7.50 crowns.", "A loaf costs 7 crowns."
    checks = (
        Check(start=13, end=17, kind="number", value="7.50", source_value="7", source=0),
        Check(start=18, end=24, kind="name", value="crowns"),
        Check(start=2, end=6, kind="name", value="loaf", in_no_document=True),
    )
    verdict = Verdict(start=0, end=25, kind="grounded", source_ids=(0,), checks=checks)
    result = handmade(answer, [document], {document: (9.0,)}, verdicts=(verdict,))
    words = [
        words_for("contradicted", value="7", mark="[1]"),
        words_for("not_cited", THE_DOCUMENTS, value="crowns"),
        words_for("in_no_document", THE_DOCUMENTS, value="loaf"),
    ]
    remark = "; ".join(words)
    assert result.to_cited_text() == f"{answer} [1] ({remark})"
    assert result.to_cited_text(remarks=False) == f"{answer} [1]"
    assert f"({remark})" in " ".join(result.to_table(width=200).split())
    assert f"({remark})" in result.to_markdown().replace("\\", "")


def test_a_remark_in_words_stands_in_place_of_the_values() -> None:
    answer, document = "A loaf costs 8 crowns.", "A loaf costs 7 crowns."
    said = Check(
        start=0, end=22, kind="contradiction", value=answer, message="the price\n\x1b[1mdiffers"
    )
    verdict = Verdict(start=0, end=22, kind="grounded", source_ids=(0,), checks=(said,))
    result = handmade(answer, [document], {document: (9.0,)}, verdicts=(verdict,))
    assert result.to_cited_text() == f"{answer} [1] (the price ␛[1mdiffers)"
    assert "(the price ␛[1mdiffers)" in " ".join(result.to_table(width=200).split())
    assert "the price" in result.to_markdown()
    (sentence,) = summarize(result)["sentences"]
    assert [check["message"] for check in sentence["checks"]] == [said.message]


@pytest.mark.parametrize(
    ("answer", "documents"),
    [
        ("It is high. It is old.", ["It is high.", "It is old."]),
        ("It is blue.", []),
    ],
)
def test_the_sources_stand_after_the_answer(answer: str, documents: list[str]) -> None:
    retrieved = [
        Document(text, metadata={"title": f"file {index}.txt"})
        for index, text in enumerate(documents, 1)
    ]
    count = len(documents)
    scores = {
        text: tuple(9.0 * (row == index) for row in range(count))
        for index, text in enumerate(documents)
    }
    result = handmade(answer, retrieved, scores)
    plain, legend = result.to_cited_text(), result.to_cited_text(sources=True)
    lines = [
        f'[{index}] file {index}.txt: "{" ".join(text.split())}"'
        for index, text in enumerate(documents, 1)
    ]
    assert legend == ("\n".join([plain.removesuffix("\n"), "", *lines, ""]) if lines else plain)
