"""Places of cited sentences in the file that their passage was cut from: exact, or none."""

import pytest
from support.attributions import handmade

from attribot_rag import Attribution, Document
from attribot_rag.display.document_page import cited_spans, places_in

TWICE = "The crane is purple. It is old.\n\nThe bell is green.\n\nThe crane is purple. It broke."


def marked(text: str, document: Document, sentence: str) -> list[tuple[int, str]]:
    """The places at which the sentence is marked, and the marked text."""
    start = document.text.index(sentence)
    places = places_in(text, document, [(start, start + len(sentence))])
    return [(start, text[start:end]) for start, end in places]


def test_a_sentence_that_stands_twice_is_marked_in_its_own_passage() -> None:
    for passage in ("The crane is purple. It is old.", "The crane is purple. It broke."):
        marks = marked(TWICE, Document(passage), "The crane is purple.")
        assert marks == [(TWICE.index(passage), "The crane is purple.")]


@pytest.mark.parametrize("key", ["start", "start_index"])
def test_a_passage_that_stands_twice_is_marked_where_its_metadata_say(key: str) -> None:
    passage = "The crane is purple."
    second = TWICE.rindex(passage)
    assert marked(TWICE, Document(passage), passage) == []
    for start in (0, second, second - 2):
        marks = marked(TWICE, Document(passage, metadata={key: start}), passage)
        assert marks == [(0 if start == 0 else second, passage)]
    assert marked(TWICE, Document(passage, metadata={key: 7}), passage) == []


def test_white_space_may_differ() -> None:
    text = "A.\r\n\r\nThe crane\r\n  is purple.\tIt broke."
    marks = marked(text, Document("The crane is purple. It broke."), "The crane is purple.")
    assert marks == [(6, "The crane\r\n  is purple.")]


def test_a_changed_passage_s_sentence_is_marked_only_if_it_stands_once() -> None:
    document = Document("file: a.md\nThe bell is green. The crane is purple. It is 7.")
    assert marked(TWICE, document, "The bell is green.") == [(33, "The bell is green.")]
    assert marked(TWICE, document, "The crane is purple.") == []
    assert marked(TWICE, document, "It is 7.") == []
    assert marked("It is 75 m. It is 7.5 m", document, "It is 7") == [(12, "It is 7")]


def test_the_citations_of_one_sentence_and_of_the_whole_answer_differ() -> None:
    passage = "The crane is purple. It is old. The crane is tall."
    result: Attribution = handmade(
        "It is purple. It is old. Really.",
        [passage, "Nothing."],
        {
            "The crane is purple.": (9.0, 0.0, 0.0),
            "It is old.": (0.0, 7.0, 0.0),
            "Nothing.": (0.0, 0.0, 0.1),
        },
    )
    assert cited_spans(result, 0) == ((0, 20), (21, 31))
    assert cited_spans(result, 0, sentence=1) == ((21, 31),)
    assert cited_spans(result, 0, sentence=2) == cited_spans(result, 1) == ()
