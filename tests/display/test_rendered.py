"""Markdown as a tree whose leaves are places in the text."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile import HOSTILE, HTML

from attribot_rag.display.markdown_tree import (
    LONGEST,
    first_line,
    html_of,
    reads_as_markdown,
    tree_of,
)

SIGNS = st.sampled_from(["**", "*", "`", "| a | b |\n|---|---|\n", "[", "](x)", "\n\n", "- ", "> "])
WORDS = st.sampled_from(["word", "end. ", "One", "&amp;", "\\*", "<b>", "1. ", "\n", "\r\n", "# "])


def leaves_of(node: list[Any]) -> list[list[Any]]:
    if isinstance(node[0], int):
        return [node]
    return [
        leaf
        for child in node[1:]
        if isinstance(child, list) and node[0] != "cite"
        for leaf in leaves_of(child)
    ]


def cited_in(node: list[Any]) -> list[int]:
    if node[0] == "cite":
        return [node[1]]
    children = [child for child in node[1:] if isinstance(child, list)]
    return [sentence for child in children for sentence in cited_in(child)]


def written(text: str, *ends: str, **options: Any) -> str:
    """The HTML of a text whose sentences end with these words."""
    stops = [text.index(end) + len(end) for end in ends]
    spans = list(pairwise([0, *stops]))
    shown = html_of(tree_of(text, spans, **options), text, cited=lambda index: f"[{index}]")
    return str(shown).replace("\n", "")


@pytest.mark.parametrize(
    ("text", "ends", "shown"),
    [
        ("**One** end. Two.", ("end.", "Two."), "<p><strong>One</strong> end.[0] Two.[1]</p>"),
        # Outside of links and emphasis, after the last word.
        (
            "A **bold end.** Two.",
            ("end.**", "Two."),
            "<p>A <strong>bold end.</strong>[0] Two.[1]</p>",
        ),
        (
            "*One. Two.* Three.",
            ("One.", "Two.*", "Three."),
            "<p><em>One.[0] Two.</em>[1] Three.[2]</p>",
        ),
        (
            "See [it. Then](https://a.b/c) go.",
            ("it.", "go."),
            '<p>See <a href="https://a.b/c" rel="noopener noreferrer nofollow">it. Then</a>[0]'
            " go.[1]</p>",
        ),
        ("- One\n- Two", ("One\n", "Two"), "<ul><li>One[0]</li><li>Two[1]</li></ul>"),
        (
            "| a | b |\n|---|---|\n| c | d |",
            ("---|\n", "d |"),
            "<table><thead><tr><th>a</th><th>b[0]</th></tr></thead>"
            "<tbody><tr><td>c</td><td>d[1]</td></tr></tbody></table>",
        ),
        ("| b | b |\n|---|---|\n| b | a\\|b |", (), None),
        ("```\na = 1\n```\n\nOk.", ("```\n\n", "Ok."), "<pre>a = 1[0]</pre><p>Ok.[1]</p>"),
        ('{"a": "One.",\n "b": 2}', ("One.", "2}"), None),
        ("# One\n\nTwo", ("One", "Two"), '<p class="heading">One[0]</p><p>Two[1]</p>'),
        ("> One\n> two.", ("two.",), "<blockquote><p>Onetwo.[0]</p></blockquote>"),
        ("![a cat](https://a.b/c.png) x", (), "<p>a cat x</p>"),
        ("[x](javascript:alert(1)) <b>", (), "<p>[x](javascript:alert(1)) &lt;b&gt;</p>"),
        ("[x](/etc/passwd)", (), "<p><span>x</span></p>"),
        ("a &amp; \\*b\\* <https://a.b>", (), None),
    ],
)
def test_a_citation_stands_at_the_end_of_its_sentence(
    text: str, ends: tuple[str, ...], shown: str | None
) -> None:
    if shown is not None:
        assert written(text, *ends) == shown
    blocks = tree_of(text, [(0, len(text))])
    assert sorted(s for block in blocks for s in cited_in(block)) == [0]


def test_a_table_with_equal_cells_and_escaped_pipes_keeps_its_places() -> None:
    text = "| b | b |\n|---|---|\n| b | a\\|b |"
    leaves = [leaf for block in tree_of(text) for leaf in leaves_of(block)]
    assert [leaf[0] for leaf in leaves] == [2, 6, 22, 26]
    assert leaves[-1][3] == "a|b"


def test_what_is_removed_is_not_shown() -> None:
    text = "It is blue. [1] It is red."
    assert written(text, "[1]", "red.", removed=[(11, 15)]) == "<p>It is blue.[0] It is red.[1]</p>"


def test_json_and_long_texts_are_shown_as_they_are() -> None:
    json = '{"a": "*One*",\n  "b": 2}'
    assert written(json, "One*", "2}").startswith("<pre>{")
    assert "*One*" in written(json, "One*", "2}")
    long = "**word** " * (LONGEST // 8)
    (block,) = tree_of(long)
    assert block[0] == "plain" and leaves_of(block) == [[0, len(long), -1]]


@pytest.mark.parametrize("text", [*HTML, *HOSTILE])
def test_nothing_takes_effect(text: str) -> None:
    shown = str(html_of(tree_of(text, [(0, len(text))]), text))
    for word in ("<script", "<img", "<svg", "<iframe", "<style", 'href="javascript', "<b>"):
        assert word not in shown.lower()


@given(st.lists(SIGNS | WORDS, max_size=25).map("".join), st.data())
def test_leaves_ascend_and_each_sentence_is_cited_once(text: str, data: st.DataObject) -> None:
    borders = data.draw(st.lists(st.integers(0, len(text)), max_size=4).map(sorted))
    spans = [(a, b) for a, b in pairwise(borders) if a < b]
    blocks = tree_of(text, spans)
    leaves = [leaf for block in blocks for leaf in leaves_of(block)]
    assert all(a <= b for a, b, *_ in leaves)
    assert all(first[1] <= second[0] for first, second in pairwise(leaves))
    cited = [sentence for block in blocks for sentence in cited_in(block)]
    assert len(cited) == len(set(cited))
    for start, end, sentence, *shown in leaves:
        assert shown or text[start:end]
        if sentence >= 0:
            assert spans[sentence][0] <= start and sentence in cited


def test_a_document_is_markdown_by_its_name_or_its_signs() -> None:
    assert reads_as_markdown("plain", "/a/notes.md#2")
    assert reads_as_markdown("# A\n\nb")
    assert not reads_as_markdown("a * b", "notes.txt")
    text = "# Title\n\nThe *first* line.\n\nMore."
    assert first_line(tree_of(text), text) == "The first line. More."
    assert first_line(tree_of(text), text, 8) == "The fir…"
