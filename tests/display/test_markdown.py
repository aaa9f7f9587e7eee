import re

import cmarkgfm
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support.attributions import ISLAND, handmade, supported, verdicts_of
from support.hostile import HALF_OF_A_PAIR, HOSTILE

from attribot_rag import Document
from attribot_rag.display import render_markdown

TEXT_TAGS = {"p", "br", "strong", "em", "blockquote", "ul", "li"}
TABLE_TAGS = {"table", "thead", "tbody", "tr", "th", "td"}


def test_answer_citations_sources_and_provenance() -> None:
    text = render_markdown(ISLAND).replace("\\", "")
    assert text.startswith("The ferry carries 84 people. [1 or 2] A ticket costs 18 crowns. [1]")
    assert "[1] **ferry.txt#2**\n> The ferry carries 84 passengers." in text
    assert len(re.findall(r"^\| -?\d+\.\d\d \|", text, re.M)) == len(ISLAND.sources)
    assert "smollm2" in text


def test_a_line_above_the_answer_counts_what_stands_in_the_documents() -> None:
    answer = "The ferry carries 48 passengers. A ticket costs 18 crowns. The moon is far."
    made = handmade(
        answer,
        ["The ferry carries 84 passengers. A ticket costs 18 crowns."],
        {
            "The ferry carries 84 passengers.": (9.0, 0.0, 0.0),
            "A ticket costs 18 crowns.": (0.0, 9.0, 0.0),
        },
        verdicts=verdicts_of(
            answer,
            {"kind": "grounded", "source_ids": (0,)},
            {"kind": "grounded", "source_ids": (1,)},
            {"kind": "unsupported", "reliance": 0.0},
        ),
    )
    judged = supported(made)
    line, _, shown = render_markdown(judged, top=0).replace("\\", "").partition("\n\n")
    assert line.strip("*") == judged.to_table(top=0, width=300).partition("\n")[0]
    assert "1 of 3 sentences are supported by the documents · 1 differs from the documents" in line
    assert shown.startswith("The ferry carries 48 passengers. [1] *(84 in [1])*")


def test_paragraphs_of_the_answer_stay() -> None:
    attribution = handmade("One.\n\n    Two.\nThree.", ["One."], {"One.": (3.0, 0.0, 0.0)})
    rendered = MarkdownIt("commonmark").render(render_markdown(attribution))
    assert rendered.startswith("<p>One. [1]</p>\n<p>Two.<br />\nThree.</p>")


@given(
    response=st.one_of(st.sampled_from(HOSTILE), st.text()),
    text=st.one_of(st.sampled_from((*HOSTILE, HALF_OF_A_PAIR)), st.text()),
    identifier=st.one_of(st.sampled_from((*HOSTILE, HALF_OF_A_PAIR)), st.text()),
)
def test_hostile_texts_take_no_effect(response: str, text: str, identifier: str) -> None:
    attribution = handmade(
        f"{response} Answer.",
        [Document(f"{text} Source.", identifier, {"title": text}), "Other."],
        {f"{text} Source.": (5.0,) * 9, "Other.": (1.0,)},
        notes=(text,),
    )
    markdown = render_markdown(attribution)
    unsafe = cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE
    for rendered in (
        cmarkgfm.github_flavored_markdown_to_html(markdown, options=unsafe),
        MarkdownIt("gfm-like").render(markdown),
    ):
        tags = re.findall(r"<\s*/?\s*(\w+)", rendered)
        assert set(tags) <= TEXT_TAGS | TABLE_TAGS
        assert rendered.count("<td") == 6
        assert rendered.count("<table") == rendered.count("<blockquote") == 1
        assert rendered.count("<em>") == 1
