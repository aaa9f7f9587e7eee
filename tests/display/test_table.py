import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from support.attributions import FERRY, ISLAND, handmade
from support.hostile import HALF_OF_A_PAIR, HOSTILE, MARKUP

from attribot_rag import Document
from attribot_rag.display import print_table, render_table

EXPECTED = """\
 The ferry carries 84 people. [1 or 2] A ticket costs 18 crowns. [1] It is a
 fine trip.

 [1]  ferry.txt#2
      “The ferry carries 84 passengers.”
      “A single ticket costs 18 crowns.”
 [2]  Lamp Night (festival.md#3)
      “The ferry carries 84 passengers.”

 Top 4 of 4 sources, in nats
 12.64  █████████████  The ferry carries 84 passengers.
                       [1 or 2] ferry.txt#2 or Lamp Night (festival.md#3)
  8.50  ████████▊      A single ticket costs 18 crowns.
                       [1] ferry.txt#2
  0.00  ▏              The museum is open on Saturdays only.
                       document 3
 -0.45  ░              Book early.
                       Lamp Night (festival.md#3)
 Negative: the answer is more likely without that source.

 leave-one-out in 3.21 s on smollm2 (packed, float32, cpu), 635 prompt tokens,
 11,794 tokens scored in 14 passes
"""
COLORS = re.compile(r"\x1b\[[0-9;]*m")


def test_answer_citations_sources_and_provenance() -> None:
    assert render_table(ISLAND, width=80) == EXPECTED


def test_colors_change_nothing_but_colors() -> None:
    colored = render_table(ISLAND, width=80, color=True)
    assert COLORS.search(colored)
    plain = "\n".join(line.rstrip() for line in COLORS.sub("", colored).split("\n"))
    assert plain == EXPECTED


def test_print_table_has_no_colors_in_a_file() -> None:
    file = io.StringIO()
    print_table(ISLAND, file=file)
    assert "[1 or 2]" in file.getvalue()
    assert "\x1b" not in file.getvalue()


def test_notes_and_scores_that_are_approximate_or_estimated() -> None:
    attribution = handmade(
        "Yes.",
        ["One. Two.", "Four."],
        {"One.": (2.0,), "Two.": None, "Four.": (1.0,)},
        exact=(False, True, False),
        estimated=(False, False, True),
        notes=("Prompt or response was tokenized again.",),
    )
    table = " ".join(render_table(attribution, width=200).split())
    assert "~2.00" in table and "≈1.00" in table
    assert "~ marks approximate scores. ≈ marks estimates" in table
    assert "! Prompt or response was tokenized again." in table
    assert "! 1 source was not scored." in table


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
