import html
import re

import cmarkgfm
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support.hostile import HOSTILE

from attribot_rag.result.answer_text import escape_markdown, on_one_line, visible

GFM_LIKE = MarkdownIt("gfm-like")
PIECES = st.sampled_from([piece for text in HOSTILE for piece in re.findall(r"\W+|\w+", text)])
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("\x9b31m", "<U+009B>31m"),
        ("\u202eabc", "<U+202E>abc"),
        ("\x00\x7f", "␀␡"),
        ("\ud83d", "<U+D83D>"),
        ("\U000e0041", "<U+E0041>"),
        ("one\r\ntwo\rthree\u2028four", "one\ntwo\nthree\nfour"),
        ("soft\u00adhyphen\u200b", "softhyphen"),
        ("👩\u200d🚀 naïve 条約 می\u200cخواهم", "👩\u200d🚀 naïve 条約 می\u200cخواهم"),
    ],
)
def test_control_characters_are_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(TEXTS)
def test_nothing_that_acts_on_a_terminal_is_left(text: str) -> None:
    characters = set(visible(text)) - {"\n", "\t"}
    assert not [
        character
        for character in characters
        if re.match("[\x00-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", character)
    ]
    assert "\n" not in on_one_line(text)


@given(TEXTS)
def test_markdown_shows_the_text_and_follows_nothing_in_it(text: str) -> None:
    line = escape_markdown(on_one_line(text))
    for source, tags in (
        (escape_markdown(text), {"p", "br"}),
        (f"- {line}", {"ul", "li", "p"}),
        (f"> {line}", {"blockquote", "p"}),
        (f"| a |\n|---|\n| {line} |", {"table", "thead", "tbody", "tr", "th", "td"}),
    ):
        for rendered in (_by_github(source), GFM_LIKE.render(source)):
            assert set(re.findall(r"<\s*/?\s*(\w+)", rendered)) <= tags
    rendered = html.unescape(re.sub("<[^>]*>", "", _by_github(line))).replace("\u2060", "")
    assert rendered.strip() == on_one_line(text)


def test_ordinary_text_stays_readable() -> None:
    text = "From 8:00 to 12:30, for 4.50 crowns (half price): ferry-boat no. 7, isn't it? Yes!"
    assert escape_markdown(text) == text


def _by_github(source: str) -> str:
    unsafe = cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE
    rendered: str = cmarkgfm.github_flavored_markdown_to_html(source, options=unsafe)
    return rendered
