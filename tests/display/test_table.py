import io
import os
import re
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from support.attributions import FERRY, ISLAND, handmade, supported, verdicts_of
from support.hostile import HALF_OF_A_PAIR, HOSTILE, MARKUP

from attribot_rag import Document
from attribot_rag.attribution import Counterfactual
from attribot_rag.display import print_counterfactual, print_table, render_table
from attribot_rag.display.report import name_of

COLORS = re.compile(r"\x1b\[[0-9;]*m")


def blocks(table: str) -> list[str]:
    return [" ".join(block.split()) for block in table.rstrip().split("\n\n")]


def test_the_answer_names_its_sources_then_come_their_quotes() -> None:
    answer, quotes = blocks(render_table(ISLAND, top=0, width=80))
    assert answer == (
        "The ferry carries 84 people. [1 ferry.txt#2 or 2 Lamp Night] A ticket costs 18 crowns. "
        "[1] It is a fine trip."
    )
    assert quotes == (
        "[1] ferry.txt#2 “The ferry carries 84 passengers.” “A single ticket costs 18 crowns.” "
        "[2] Lamp Night “The ferry carries 84 passengers.”"
    )


def test_figures_follow_where_they_are_asked_for() -> None:
    *calm, listed, legend, provenance = blocks(render_table(ISLAND, width=80))
    assert calm == blocks(render_table(ISLAND, top=0, width=80))
    assert re.findall(r"-?\d+\.\d\d", listed) == ["12.64", "8.50", "0.00", "-0.45"]
    assert "ferry.txt#2 or Lamp Night (festival.md#3)" in listed
    assert "more likely without" in legend and "smollm2" in provenance


@pytest.mark.parametrize(
    ("document", "title"),
    [
        (Document("It is red.", "d7", {"title": "Lamp Night"}), "Lamp Night"),
        (Document("It is red.", "d7"), "d7"),
        (Document("It is red.", metadata={"title": "A " * 90}), "A A A"),
    ],
)
def test_a_citation_has_the_title_of_its_document(document: Document, title: str) -> None:
    attribution = handmade("Red.", [document], {"It is red.": (5.0,)})
    (mark,) = re.findall(r"\[1 ([^]]*)\]", render_table(attribution, width=200))
    assert mark.startswith(title) and len(mark) <= 40


def test_a_document_without_a_title_is_known_by_its_quote() -> None:
    attribution = handmade("Red.", [Document("It is red. And old.")], {"It is red.": (5.0,)})
    shown = render_table(attribution, width=200)
    assert shown.startswith("Red. [1]\n\n[1]  “It is red.”\n")
    assert "And old" not in shown


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "It is red.\nAnd old. It carries eighteen people.",
            "“It is red. And old. It carries eighteen…”",
        ),
        ("紅" * 90 + "It is red.", f"“{'紅' * 39}…”"),
        ("<p>It is red.</p>", "“It is red.”"),
    ],
)
def test_elsewhere_it_has_its_first_words(text: str, name: str) -> None:
    assert name_of(Document(text)) == name


def test_colors_change_nothing_but_colors() -> None:
    colored = render_table(ISLAND, width=80, color=True)
    assert COLORS.search(colored)
    plain = "\n".join(line.rstrip() for line in COLORS.sub("", colored).split("\n"))
    assert plain == render_table(ISLAND, width=80)


def test_a_file_has_no_colors_and_whole_lines() -> None:
    file = io.StringIO()
    print_table(ISLAND, file=file)
    assert ISLAND.response.split(". ")[-1] in file.getvalue().split("\n")[0]
    assert "\x1b" not in file.getvalue()


WITHOUT = "The ship Velmara has 47 cabins and belongs to Odile Marn."


@pytest.mark.parametrize("second", ["Das Schiff gehört der Reederei Korlund.", WITHOUT])
def test_the_second_answer_is_shown_without_figures(second: str) -> None:
    attribution = handmade(WITHOUT, [WITHOUT], {WITHOUT: (9.0,)})
    other = Counterfactual(documents=(0,), response=second, score=9.0, exact=True)
    file = io.StringIO()
    with patch.dict(os.environ, {"FORCE_COLOR": "1", "COLUMNS": "200", "TERM": "xterm-256color"}):
        print_counterfactual(attribution, other, file=file)
    plain = COLORS.sub("", file.getvalue())
    assert second in plain and "9.00" not in plain
    assert ("same answer" in plain) == (second == WITHOUT)


def test_other_documents_with_the_same_sentence_are_named() -> None:
    second = Counterfactual(documents=(0,), response=ISLAND.response, score=0.1, exact=True)
    for left_out, named in (((0,), True), ((0, 1), False), ((2,), False)):
        file = io.StringIO()
        print_counterfactual(ISLAND, replace(second, documents=left_out), file=file)
        assert ("The same is in Lamp Night" in file.getvalue()) == named


def test_notes_and_scores_that_are_approximate_or_estimated() -> None:
    attribution = handmade(
        "Yes.",
        ["One. Two.", "Four."],
        {"One.": (2.0,), "Two.": None, "Four.": (1.0,)},
        exact=(False, True, False),
        estimated=(False, False, True),
        notes=("A warning.",),
    )
    table = " ".join(render_table(attribution, width=200).split())
    assert "~2.00" in table and "≈1.00" in table
    assert "~ marks approximate scores. ≈ marks estimates" in table
    assert "! A warning." in table and "1 source was not scored." in table
    calm = " ".join(render_table(attribution, top=0, width=200).split())
    assert "! A warning." in calm and "scored" not in calm


@pytest.mark.parametrize("text", MARKUP)
def test_markup_is_text(text: str) -> None:
    table = render_table(handmade(f"It is {text}", [text], {text: (5.0,)}), width=120)
    assert f"It is {text}" in table
    assert f"“{text}”" in table


@given(
    response=st.one_of(st.sampled_from(HOSTILE), st.text()),
    text=st.one_of(st.sampled_from((*HOSTILE, HALF_OF_A_PAIR)), st.text()),
    identifier=st.one_of(st.sampled_from((*HOSTILE, HALF_OF_A_PAIR)), st.text()),
    width=st.integers(40, 120),
)
def test_hostile_texts_neither_act_nor_overflow(
    response: str, text: str, identifier: str, width: int
) -> None:
    attribution = handmade(
        f"Answer {response}",
        [Document(f"Source {text}", identifier, {"title": text})],
        {f"Source {text}": (5.0,), FERRY: None},
        notes=(text,),
    )
    plain = render_table(attribution, width=width)
    assert not re.search(
        "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", plain
    )
    assert max(map(cell_len, plain.split("\n"))) <= width
    colored = COLORS.sub("", render_table(attribution, width=width, color=True))
    assert "\x1b" not in colored


def test_it_begins_with_how_far_the_answer_can_be_trusted_and_quotes_rows_as_cells() -> None:
    row = "| Breakfast | 20 euros |"
    said = "Breakfast may cost 20 euros."
    made = handmade(said, [f"| Meal | Limit |\n|---|---|\n{row}"], {row: (9.0,)})
    verdicts = verdicts_of(said, {"kind": "grounded", "source_ids": (0,)})
    first, *lines = supported(replace(made, verdicts=verdicts)).to_table(width=80).splitlines()
    assert first == "Supported by the documents"
    assert "“Breakfast · 20 euros”" in "\n".join(lines)
