"""What becomes of the markers that the model wrote, where citations are shown."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.attributions import handmade

from attribot_rag import Attribution
from attribot_rag.attribution import Marker, Verdict, cite
from attribot_rag.display import answer_data
from attribot_rag.errors import InvalidInput
from attribot_rag.result.remarks import CAUSE_REMARKS, THE_DOCUMENTS, words_for

TEXTS = ("It has 14 arches.", "Bus 7 stops there.", "It was opened in 1866.")
UNSUPPORTED = words_for("unsupported", THE_DOCUMENTS)
NO_EFFECT = "(the model cites [{}], which has no effect on it)"


def attribution(
    response: str, marked: Sequence[tuple[str, int | None, bool | None]], *cited: Any, **fields: Any
) -> Attribution:
    """A response whose markers, in order, are of these texts, documents and audits.

    `cited` are the ids of each sentence's sources, or the fields of its verdict.
    """
    markers: list[Marker] = []
    end = 0
    for text, document, holds in marked:
        start = response.index(text, end)
        end = start + len(text)
        for label in re.sub("<[^<>]*>", "", text).strip("[]*").split(", "):
            number = int(label) if label.isdecimal() else None
            of = document if number is None or document is None else number - 1
            supported = holds and of == document
            markers.append(
                Marker(
                    start=start,
                    end=end,
                    label=label,
                    number=number,
                    document=of,
                    supported=supported,
                )
            )
    result = handmade(
        response,
        TEXTS,
        dict.fromkeys(TEXTS, (0.0,)),
        markers=tuple(markers),
        prompt_numbers={0: 1, 1: 2, 2: 3},
        **fields,
    )
    judged: list[dict[str, Any]] = [
        ids if isinstance(ids, dict) else {"kind": "grounded", "source_ids": ids} for ids in cited
    ]
    sentences = tuple(cite(result))
    judged += [{"kind": "trivial"}] * (len(sentences) - len(judged))
    verdicts = [
        Verdict(start=sentence.start, end=sentence.end, **verdict)
        for sentence, verdict in zip(sentences, judged, strict=True)
    ]
    return replace(result, verdicts=tuple(verdicts))


def cited_text(result: Attribution) -> str:
    return " ".join(result.to_cited_text().split())


@pytest.mark.parametrize(
    ("response", "marked", "cited", "expected"),
    [
        ("It has 14 arches [1].", [("[1]", 0, True)], (0,), "It has 14 arches [1]."),
        (
            "It has 14 arches [3].",
            [("[3]", 2, False)],
            (0,),
            f"It has 14 arches. [1] {NO_EFFECT.format(3)}",
        ),
        (
            "It has 14 arches [7].",
            [("[7]", None, None)],
            (0,),
            "It has 14 arches. [1] (the model cites [7], which is missing)",
        ),
        (
            "It has 14 arches [1, 3].",
            [("[1, 3]", 0, True)],
            (1,),
            f"It has 14 arches. [2] [1] {NO_EFFECT.format(3)}",
        ),
        (
            "It has 14 arches [2].",
            [("[2]", 1, False)],
            {"kind": "unsupported"},
            f"It has 14 arches. ({UNSUPPORTED}) {NO_EFFECT.format(2)}",
        ),
        (
            "It has 14 arches [1][2].",
            [("[1]", 0, True), ("[2]", 1, True)],
            {"kind": "redundant", "relation": "together", "source_ids": (0, 1)},
            f"It has 14 arches [1][2]. ({CAUSE_REMARKS['both']})",
        ),
    ],
)
def test_a_right_marker_is_the_citation_and_a_wrong_one_gives_way(
    response: str,
    marked: list[tuple[str, int | None, bool | None]],
    cited: Any,
    expected: str,
) -> None:
    assert cited_text(attribution(response, marked, cited)) == expected


@pytest.mark.parametrize(
    "answer",
    [
        "<answer><claim>It has 14 arches.</claim><source>3</source></answer>",
        "<answer>\n<claim>It has 14 arches.</claim>\n<source>3</source>\n</answer>",
        "<claim>It has 14 arches. <source>3</source></claim>",
        "As XML:\n\n<claim>It has 14 arches.</claim>\n<source>3</source>",
    ],
)
def test_xml_stays_as_it_is_and_a_wrong_element_is_told(answer: str) -> None:
    element = "<source>3</source>"
    text = attribution(answer, [(element, 2, False)], (0,)).to_cited_text()
    assert element in text and NO_EFFECT.format(3)[1:-1] in text


@pytest.mark.parametrize("answer", ["It has 14 arches.<sup>3</sup>", "<p>It rose.<sup>3</sup></p>"])
def test_a_wrong_element_of_text_is_cut(answer: str) -> None:
    text = attribution(answer, [("<sup>3</sup>", 2, False)], (0,)).to_cited_text()
    assert "<sup>" not in text and NO_EFFECT.format(3)[1:-1] in text


@pytest.mark.parametrize(
    ("response", "markers"),
    [
        ("According to [3], it has 14 arches.", ["[3]"]),
        ("Laut [3] hat sie 14 arches.", ["[3]"]),
        ("Based on [3] and [2], it has 14 arches.", ["[3]", "[2]"]),
        ("It has 14 arches, as stated in [3].", ["[3]"]),
        ("[3] says that it has 14 arches.", ["[3]"]),
    ],
)
def test_a_marker_that_its_sentence_needs_stays(response: str, markers: list[str]) -> None:
    marked = [(marker, int(marker[1]) - 1, False) for marker in markers]
    result = attribution(response, marked, (0,))
    assert result.to_cited_text(remarks=False) == f"{response} [1]"
    assert result.to_cited_text(markers="removed") == f"{response} [1]"
    labels = ", ".join(markers)
    assert f"(the model cites {labels}, which ha" in result.to_cited_text()


def test_a_marker_after_a_word_of_the_documents_gives_way() -> None:
    response = "The arches [3] are 14, as the arches [2] and [3] are."
    marked = [("[3]", 2, False), ("[2]", 1, False), ("[3]", 2, False)]
    text = attribution(response, marked, (0,)).to_cited_text(remarks=False)
    assert text == "The arches are 14, as the arches are. [1]"


def test_markers_as_they_were_written_or_none() -> None:
    marked = [("[1]", 0, True), ("[3]", 2, False)]
    result = attribution("It has 14 arches [1]. It is old [3].", marked, (0,), (1,))
    written = "It has 14 arches [1]. [1] It is old [3]. [2]"
    assert result.to_cited_text(markers="written") == written
    removed = "It has 14 arches. [1] It is old. [2]"
    assert result.to_cited_text(markers="removed") == removed
    assert result.to_cited_text(remarks=False) == "It has 14 arches [1]. It is old. [2]"
    with pytest.raises(InvalidInput, match=r"kept.*audited"):
        result.to_cited_text(markers="kept")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "response",
    ['{"a": "It has 14 arches [3]."}', "It has <x:3>14 arches</x:3>.", "It has [14 arches](3.md)."],
)
def test_what_is_a_part_of_the_answer_stays(response: str) -> None:
    marker = next(x for x in ("[3]", "</x:3>", "](3.md)") if x in response)
    result = attribution(response, [(marker, None, None)])
    assert result.to_cited_text(remarks=False).startswith(response)
    assert result.to_cited_text(markers="removed").startswith(response)
    assert "is missing" in result.to_cited_text()


def test_a_list_of_sources_stays() -> None:
    listed = "Sources: [2], [3]"
    result = attribution(listed, [("[2]", 1, True), ("[3]", 2, False)], {"kind": "trivial"})
    assert result.to_cited_text(remarks=False) == listed


def test_documents_that_share_a_label_share_their_number() -> None:
    result = attribution("It has 14 arches [1]. It is old.", [("[1]", 0, True)], (0,), (1, 2))
    result = replace(result, prompt_numbers={0: 1, 1: 1, 2: 2})
    assert result.to_cited_text() == "It has 14 arches [1]. It is old. [1] [2]"
    either = {"kind": "redundant", "relation": "either", "source_ids": (0, 1)}
    result = attribution("It has 14 arches. It is [1] old.", [("[1]", 0, True)], either, (2,))
    result = replace(result, prompt_numbers={0: 1, 1: 1, 2: 2})
    assert result.to_cited_text() == "It has 14 arches. [1] It is [1] old. [2]"


def test_names_of_the_prompt_are_those_of_the_citations() -> None:
    marked = [("[span.pdf]", 0, True), ("[a.txt]", 2, False)]
    response = "It has 14 arches [span.pdf]. Bus 7 stops there [a.txt]."
    result = attribution(
        response, marked, (0,), (1,), prompt_names={0: "span.pdf", 1: "bus times", 2: "a.txt"}
    )
    expected = f"It has 14 arches [span.pdf]. Bus 7 stops there. [bus times] {NO_EFFECT}"
    assert cited_text(result).startswith(expected.format("a.txt"))
    legend = result.to_cited_text(sources=True).split("\n\n")[1].splitlines()
    assert [line.partition(":")[0] for line in legend] == [
        "[span.pdf] document 1",
        "[bus times] document 2",
    ]


def test_a_summary_has_the_markers_of_its_sentences() -> None:
    marked = [("[1]", 0, True), ("[7]", None, None)]
    result = attribution("It has 14 arches [1]. It is old [7].", marked, (0,), (1,))
    sentences = answer_data(result)["summary"]["sentences"]
    assert [sentence["markers"] for sentence in sentences] == [
        [{"start": 17, "end": 20, "label": "1", "document": 0, "supported": True}],
        [{"start": 32, "end": 35, "label": "7", "document": None, "supported": None}],
    ]
