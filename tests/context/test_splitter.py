"""Texts cut into sentences, paragraphs and blocks, which keep every character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.text_strategies import texts

from attribot_rag.context.splitting.splitter import (
    make_splitter,
    sentences,
    split_spans,
)
from attribot_rag.errors import InvalidInput


@pytest.mark.parametrize("unit", ["sentence", "paragraph", "document"])
@given(text=texts() | st.text(st.characters(exclude_categories=["Cs"])))
def test_built_in_units_lose_no_character(unit: str, text: str) -> None:
    spans = split_spans(text, make_splitter(unit, "en"))
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(text[start:end].strip() for start, end in spans) or not text.strip()
    assert len(spans) <= 1 or text.strip()


@given(pieces=st.lists(st.sampled_from(["", " ", "\n", "a", "b. ", " c"]), max_size=8))
def test_blank_pieces_join_a_neighbour(pieces: list[str]) -> None:
    text = "".join(pieces)
    joined = [text[start:end] for start, end in split_spans(text, lambda _: pieces)]
    assert "".join(joined) == text
    if text.strip():
        assert all(piece.strip() for piece in joined)
        assert len(joined) == sum(bool(piece.strip()) for piece in pieces)


def test_a_splitter_that_loses_text_or_gives_none_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"'One\. Two\.'; a splitter must keep every character"):
        split_spans("One. Two.", lambda text: text.split())
    with pytest.raises(InvalidInput, match="a splitter must keep every character"):
        split_spans("One. Two.", lambda text: [(0, len(text))])  # type: ignore[list-item]


@pytest.mark.parametrize("unit", ["sentences", "", None, ["sentence"]])
def test_an_unknown_unit_names_the_valid_ones(unit: str) -> None:
    with pytest.raises(InvalidInput, match="choose one of sentence, paragraph, document"):
        make_splitter(unit, "en")


STRUCTURED = """# Fees

Members pay
less. Others pay
more, since 1648
or so.

| Year | Fee |
|------|-----|
| 2020 | 5. Reduced. |
| 2021 | 6 |

To be paid:
- in cash. At the desk.
- by card,
  at any time
* by post
• or not at all

1. First do this.
2. Then that.
   And more.
2) Or this

**Note**
Signed
------
It is so. 1. One thing. 2. Another thing."""


def test_headings_items_and_rows_are_pieces_of_their_own() -> None:
    spans = split_spans(STRUCTURED, make_splitter("sentence", "en"))
    assert "".join(STRUCTURED[start:end] for start, end in spans) == STRUCTURED
    assert [STRUCTURED[start:end].strip() for start, end in spans] == [
        "# Fees",
        *("Members pay\nless.", "Others pay\nmore, since 1648\nor so."),
        "| Year | Fee |\n|------|-----|",
        "| 2020 | 5. Reduced. |",
        "| 2021 | 6 |",
        "To be paid:",
        *("- in cash.", "At the desk.", "- by card,\n  at any time", "* by post"),
        "• or not at all",
        *("1. First do this.", "2. Then that.", "And more.", "2) Or this"),
        *("**Note**", "Signed\n------", "It is so.", "1. One thing.", "2. Another thing."),
    ]


@pytest.mark.parametrize(
    "rows",
    [
        ["Name\tAge\tTown\n", "Bo\t3\tX. Y.\n", "Al\t\tZ"],
        ["a,b,c\r\n", "1,2,3\r\n", "4,5,6\r\n"],
        ["a;b;c\n", "1;2.5;3\n", "4;5;6\n"],
        ["| a | b |\n", "| 1 | 2 |\n"],
        ["a | b\n:--|--:\n", "1 | 2\n", "3 | 4"],
        ["a,b,c\n", '"X. Y","In 1931,\nand ""then"". So",9\n', '"Z","W, V",12'],
        ["a;b\n", '1;"X.\n\nY; Z"\n', "2;W"],
        [
            "+---+----+\n| a | b  |\n+===+====+\n",
            "| 1 | X. |\n|   | Y  |\n+---+----+\n",
            "| 3 | 4. |\n+---+----+",
        ],
        ["+---+----+\n| a | b  |\n+---+----+\n", "| 1 | X. |\n", "| 3 | 4  |\n+---+----+"],
    ],
)
def test_lines_with_the_same_number_of_cells_are_rows(rows: list[str]) -> None:
    assert sentences("".join(rows)) == rows
    assert sentences(f"So:\n{''.join(rows)}".rstrip() + "\nEnd.")[0] == "So:\n"


@pytest.mark.parametrize("number", ["1.", "12)", "(3)", "a)", "-", "*", "#"])
def test_a_number_is_no_piece_of_its_own(number: str) -> None:
    assert sentences(f"{number} The fee is due.") == [f"{number} The fee is due."]
    assert sentences(f"{number}\n\nThe fee is due.") == [f"{number}\n\nThe fee is due."]
    assert sentences(f"It is so.\n{number} The fee.")[-1].endswith("The fee.")


@pytest.mark.parametrize(
    ("language", "pieces"),
    [
        ("en", ["条約は署名された。", "船は川を上った！", "本当？", "はい。"]),
        ("en", ["条约已签署！", "费用是3.5元。", "真的吗？", "是的。"]),
        ("en", ["He came at 5 p.m. ", "Dr. Braun left."]),
        ("en", ["Dr. Braun came. ", "He left."]),
        ("en", ["One \ud83d. ", "Two."]),  # half of a surrogate pair is a character like others
        ("en", ["It is.\n\n---\n\n", "It was.\n***\n"]),  # a rule goes with what is before it
        ("en", ["**The fee is due.** ", "Pay it."]),
        ("en", ["_Come in._ ", "He left."]),
        ("de", ["Das gilt z. B. am 3. Mai. ", "Dr. Braun ging."]),
        ("en", ["M. Dupont est venu. ", "Il est parti."]),
        ("es", ["Viven, p. ej., en EE. UU. ahora. ", "El Sr. Ruiz no."]),
    ],
)
def test_sentences_by_language(language: str, pieces: list[str]) -> None:
    assert sentences("".join(pieces), language) == pieces
