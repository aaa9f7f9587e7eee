"""The judged parts of an answer: its sentences, without markers, thinking and pleasantries."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.attributions import handmade

from attribot_rag.attribution import ResponseText
from attribot_rag.verdicts.marker_syntax import KnownLabels
from attribot_rag.verdicts.markers import read_markers
from attribot_rag.verdicts.sentences import AnswerSentence, is_trivial, sentences_of, thinking_in


def split(response: str) -> list[AnswerSentence]:
    attribution = handmade(response, ["A fact."], {"A fact.": (1.0,)})
    known = KnownLabels({str(number): (number - 1,) for number in range(1, 5)})
    marked = read_markers(response, known, attribution.documents * 4)
    text = ResponseText(attribution.response, attribution.token_spans)
    return sentences_of(text, marked, thinking_in(response))


def texts(response: str) -> list[str]:
    return [sentence.text.strip() for sentence in split(response)]


def words(response: str) -> list[str]:
    """The text of each sentence's tokens: handmade tokens are words."""
    spans = handmade(response, ["A fact."], {"A fact.": (1.0,)}).token_spans
    return [
        "".join(response[slice(*spans[index])] for index in sentence.tokens).strip()
        for sentence in split(response)
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("**Sure!**", "Okay, sure!", "Hello there!", "Thank you for your question."),
        *("That's a great question!", "Here's the answer to your question:"),
        "Please feel free to ask if you need more help.",
        "If you have any questions, just let me know!",
        "Is there anything else I can help you with?",
        *("Would you like to know more?", "How can I help you today?"),
        "Please keep your receipts!",
    ],
)
def test_pleasantries_and_offers(text: str) -> None:
    assert is_trivial(text)


@pytest.mark.parametrize(
    "text",
    [
        *("sure" + " " * 50_000, "is there anything else you" + " " * 50_000),
        *("let me know if you need " * 500, "sure, great, hello " * 2_000, "please just " * 2_000),
    ],
    ids=lambda text: text[:20],
)
def test_long_texts_come_to_an_end(text: str) -> None:
    assert not is_trivial(text + "5")


@pytest.mark.parametrize(
    "text",
    [
        *("Yes.", "**No.**", "No, no.", "Yes, of course!"),
        *("84", "A.", "是", "Oui."),  # one letter or figure is a word
        *("Yes, the ferry carries 84 people.", "Sure, the bridge was built in 1904."),
        *("No ship carries salt.", "Great Britain.", "Hello Kitty.", "Goodbye Lenin.", "Greatest."),
        *("Certainly not.", "Good questions were asked by Mara Voss.", "Thanks to Mara Voss."),
        "Thank you for 84 years of service, Mara Voss.",
        *("Please keep your receipts.", "Please bring 2 towels!"),
        "Thank you for asking; the ferry carries 84 people.",
        *("I hope this ferry, built in 1904, sails.", "I hope this helps the 84 people of Odwin."),
        "Let me know if you need the ferry, which carries eighty people.",
        *("Feel free to visit the museum, which opens at nine.", "Feel free to bring a dog."),
        *("Do not hesitate to call 112.", "If you have any luggage, it costs 18 crowns."),
        *("If there is anything in the box, it is salt.", "Is there anything in the box?"),
        *("Here is the answer: 84 people.", "Here is the response of the queen."),
        "Have a nice day on the island of Odwin, where the ferry lands.",
    ],
)
def test_a_sentence_that_only_begins_like_a_pleasantry_is_judged(text: str) -> None:
    assert not is_trivial(text)


@pytest.mark.parametrize(
    "text",
    [
        "## 2. The ferry\n",
        "### 2.3 What does it cost?",
        "The ferry\n=====\n",
        "# Fares [1]\n",
        "**Fares**\n\n",
        "__Fares__:\n\n",
    ],
)
def test_a_heading_is_not_judged(text: str) -> None:
    sentences = split(f"The ferry is old.\n\n{text}")
    assert [sentence.is_trivial for sentence in sentences] == [False, True]


@pytest.mark.parametrize(
    "text",
    [
        "## The ferry sailed in 1904",
        "# 84 seats",
        "# The ferry is old.",
        "#ferry",
        "# The\nferry sails",
        "**The ferry sank in 1790.**",
        "**The ferry** sank",
        "Year | 1790\n---|---",
    ],
)
def test_a_heading_that_states_a_fact_is_judged(text: str) -> None:
    assert not is_trivial(text)


@pytest.mark.parametrize(
    ("response", "trivial"),
    [
        ("The fares are:\n\n- A child pays 2.\n- A dog pays 1.", [True, False, False]),
        ("In 1904 the fares were:\n- Two.\n", [False, False]),
        ("The fare is: two crowns. It is low.", [False, False]),
        ("| Who | Fare |\n|---|---|\n| Child | 2 |\n", [True, False]),
    ],
)
def test_what_introduces_statements_is_not_judged(response: str, trivial: list[bool]) -> None:
    assert [sentence.is_trivial for sentence in split(response)] == trivial


@pytest.mark.parametrize(
    ("response", "trivial"),
    [
        ("How long is the notice? Three months.", [True, False]),
        ("Query: how long is the notice? Three months.", [True, False]),
        ("**Question:** How long is the notice?\n\nThree months.", [True, False]),
        ("How long is the lease? Three months.", [False, False]),
        ("The notice is long.", [False]),
    ],
)
def test_a_question_that_is_asked_again_is_not_judged(response: str, trivial: list[bool]) -> None:
    spans = tuple(match.span() for match in re.finditer(r"\S+\s*", response))
    text = ResponseText(response, spans)
    sentences = sentences_of(text, question="Question: How long is the notice?")
    assert [sentence.is_trivial for sentence in sentences] == trivial


def test_a_pleasantry_and_a_fact_are_two_sentences() -> None:
    sentences = split("Sure! The ferry is old. I hope this helps!")
    assert [sentence.is_trivial for sentence in sentences] == [True, False, True]


@pytest.mark.parametrize(
    "text",
    [
        *("Sure [1]!", "See [source 1].", "【1】 [2, 3]", "---", "👍", " \n"),
    ],
)
def test_text_without_words_is_trivial(text: str) -> None:
    (sentence,) = split(text)
    assert sentence.is_trivial
    assert (sentence.start, sentence.end) == (0, len(text))


@pytest.mark.parametrize("gap", ["", " ", "\n"])
@pytest.mark.parametrize("marker", ["[1]", "[1] [2]", "[source 2]", "[1]."])
def test_a_marker_after_the_full_stop_goes_with_what_it_marks(gap: str, marker: str) -> None:
    first, second = texts(f"The ferry is old.{gap}{marker} The tower is new.")
    assert first == f"The ferry is old.{gap}{marker}"
    assert second == "The tower is new."


def test_tokens_of_markers_are_no_columns() -> None:
    text = "The ferry [1] carries 【source 2】 84. [3] It is red [1, 2]."
    assert words(text) == ["The ferry carries 84.", "It is red"]
    assert words("[1]") == [""]
    assert words("It was built long ago [1904].") == ["It was built long ago [1904]."]


TAGS = ("think", "thinking", "THOUGHTS", "my:reasoning")
SPACES = ("", "\n\n")


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<think>Hmm. It says so. [1]</think> It is old. It is red.", "It is old. It is red."),
        ("Well. <think>Is it so?</think> It is.", "Well. It is."),
        ("<think>Hmm. There is no end. At all", ""),
        ("It began in the prompt.\n</think>\n\nThe ferry is old.", "The ferry is old."),
        *(
            (f"{space}<{tag}>Is it so?{space}</{tag}>{space}It is.{space}", "It is.")
            for tag in TAGS
            for space in SPACES
        ),
    ],
)
def test_thinking_is_no_part_of_the_answer(response: str, answer: str) -> None:
    sentences = split(response)
    assert (
        " ".join(sentence.text.strip() for sentence in sentences if not sentence.is_thinking)
        == answer
    )
    assert any(sentence.is_thinking for sentence in sentences)


@pytest.mark.parametrize(
    "pieces",
    [
        ["- The ferry is old.\n", "- It is red.\n", "- No stop\n", "- The end"],
        ["1. Old.\n", "2. Red.\n", "3. New.\n", "4. So."],
        ["Dr. Voss met Mr. Tolk at 5 p.m. in St. Brill, e.g. at 3.5 km. ", "It was cold."],
        ["The ferry is old.\n\n---\n\n", "It is red."],  # a line without words
        ["The ferry is old.\n\n[2]\n\n", "The tower is new."],
        ["[1] The ferry is old. ", "It is red."],
        ["The ferry is old. [1] ", "It is red. ", "The end."],
    ],
)
def test_an_answer_is_cut_into_sentences(pieces: list[str]) -> None:
    assert [sentence.text for sentence in split("".join(pieces))] == pieces


@pytest.mark.parametrize(
    ("response", "second"),
    [
        ("渡轮载84人。票价18克朗。", "票价18克朗。"),
        ("Паром старый. Билет стоит 18 крон.", "Билет стоит 18 крон."),
        ("كم عدد الركاب؟ أربعة وثمانون.", "أربعة وثمانون."),
        ("नौका 84 लोग ले जाती है। टिकट 18 का है।", "टिकट 18 का है।"),
    ],
)
def test_other_scripts(response: str, second: str) -> None:
    sentences = split(response)
    assert [sentence.text.strip() for sentence in sentences][1:] == [second]
    assert not any(sentence.is_trivial for sentence in sentences)


WORDS, MARKS = ("Yes.", "The ferry is old", "84", "।"), (". ", " ", "\n\n", "[1]", "【2】")
pieces = st.sampled_from([*WORDS, *MARKS, "<think>", "</think>"])


@given(st.lists(pieces, min_size=1).map("".join))
def test_sentences_cover_the_answer_and_share_no_token(response: str) -> None:
    sentences = split(response)
    assert "".join(sentence.text for sentence in sentences) == response
    assert [sentence.start for sentence in sentences] == [
        0,
        *(sentence.end for sentence in sentences[:-1]),
    ]
    tokens = [index for sentence in sentences for index in sentence.tokens]
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize(
    ("response", "judged"),
    [
        (
            '{"name": "Varn", "height": 38.5 , "open": true , "note": null, "old": "", "n": -1e3 }',
            ['"Varn"', "38.5", "true", "-1e3"],
        ),
        (
            'Here it is: {"text": "It is high. It is old.", "more": {"lit": [ 1844, 1902 ]}} Done.',
            ["Here it is:", '"It is high.', 'It is old."', "1844", "1902", "Done."],
        ),
        ('```json\n[ {"a\\"b": "It says \\"no\\"."}]\n```', ['"It says \\"no\\"."']),
        ('{"name": Varn}', ['{"name": Varn}']),
        (
            'First: {"a": "Old."}\nThen:\n```json\n{"b": 84}\n```\nSo.',
            ["First:", '"Old."', "Then:", "84", "So."],
        ),
        ('{"a": 1}\n{"a": 2}\n{"a": 3}', ["1", "2", "3"]),
        ("They are:\n[ 404, 500 ]\n", ["They are:", "404", "500"]),
        ('Bad: {"a": }\n  [ "Tolk" ]', ['Bad: {"a": }', '"Tolk"']),
        ("[It is old.]\n\n[Red]", ["[It is old.]", "[Red]"]),
    ],
)
def test_the_values_of_json_are_judged_one_by_one(response: str, judged: list[str]) -> None:
    sentences = split(response)
    assert "".join(sentence.text for sentence in sentences) == response
    assert [
        sentence.text.strip()
        for sentence in sentences
        if sentence.tokens and not sentence.is_trivial
    ] == judged
    assert all(sentence.figures for sentence in sentences if sentence.text.strip().isdigit())


@pytest.mark.parametrize("response", ['[{"a": "' * 50_000])
def test_json_without_an_end_is_text(response: str) -> None:
    assert "".join(sentence.text for sentence in split(response)) == response


@pytest.mark.parametrize(
    ("response", "judged"),
    [
        (
            "Do this:\n```py\n# Open it. Then read.\nx = read()\n```\nIt works. Good bye.",
            ["Do this:", "```py\n# Open it. Then read.\nx = read()\n```", "It works.", "Good bye."],
        ),
        (
            "~~~\nSELECT 1; -- One. Two.\n\nSELECT 2;\n~~~",
            ["~~~\nSELECT 1; -- One. Two.\n\nSELECT 2;\n~~~"],
        ),
        ("So:\n\n    a. b. C = 1\n    // It is. So.\n", ["So:", "a. b. C = 1\n    // It is. So."]),
        ("Call `it. Then that` first. Done.", ["Call `it. Then that` first.", "Done."]),
        ("```markdown\n# Old\n\nIt is red.\n```", ["```markdown", "# Old", "It is red.\n```"]),
    ],
)
def test_code_is_not_cut_in_its_comments(response: str, judged: list[str]) -> None:
    sentences = split(response)
    assert "".join(sentence.text for sentence in sentences) == response
    assert [sentence.text.strip() for sentence in sentences if sentence.text.strip()] == judged
