"""HTML as a source: divided where a reader sees it divided, quoted without tags."""

import pytest
from support.attributions import handmade

from attribot_rag import Document
from attribot_rag.context.splitting.blocks import without_tags
from attribot_rag.context.splitting.splitter import sentences
from attribot_rag.result.summary import summarize


@pytest.mark.parametrize(
    "text",
    [
        "<h1>Ferry</h1><p>It is <b>red</b>. It leaves at six.</p><ul><li>18</li><li>20</li></ul>",
        '<html>\n<body class="a">\n<h1>Ferry</h1>\n<p>It is <i>red</i>.\nIt leaves at six.</p>\n'
        "<table><tr><td>18</td></tr>\n<tr><td>20</td></tr></table></body></html>",
        "<div><h2>Ferry</h2></div><div><p>It is red.</p></div><p>It leaves at six.<br></p>\n"
        "<dl><dt>18</dt><dt>20</dt></dl>",
    ],
)
def test_blocks_of_html(text: str) -> None:
    pieces = sentences(text)
    assert "".join(pieces) == text
    read = [" ".join(without_tags(piece, text).split()) for piece in pieces]
    assert read == ["Ferry", "It is red.", "It leaves at six.", "18", "20"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("<p>The fer<b>ry</b> is red.</p>", "The ferry is red."),
        ('<td>Fare</td><td class="n">18</td>', "Fare  18"),
        ("<!-- <b> --><span>Old.</span>", "Old."),
        ("a < b and List<String> c > d", "a < b and List<String> c > d"),
        ("<br>", "<br>"),
    ],
)
def test_a_quotation_has_no_tags(text: str, read: str) -> None:
    assert without_tags(text) == read


@pytest.mark.parametrize(
    "document",
    [
        "let v: Vec<u> = Map<String, u>::new();\nfn a<b>(c: b) {}",
        "Copy with cp <data> <label>. It takes <time> and <code>.",
        "public class Box<P> extends Bag<A> {\n  List<S> all; // if a<b>c\n}",
        "Bold text stands between `<b>` and `</b>`. A list is `<li>`.",
        "# Tags\n\n```html\n<b>Bold</b><br>\n```\n\nUse Option<b> for bold.",
        "<s>[INST] What is <q>?",
    ],
)
def test_code_is_no_html(document: str) -> None:
    pieces = sentences(document)
    assert "".join(pieces) == document
    assert [without_tags(piece, document) for piece in pieces] == list(map(str.strip, pieces))
    assert len(pieces) == len(sentences(document.replace("<", "(").replace(">", ")")))


@pytest.mark.parametrize("tags", ["<p>{}</p>", "<li><em>{}</em></li>", "<tr><td>{}</td></tr>"])
def test_results_quote_without_tags(tags: str) -> None:
    source = tags.format("The ferry is red.")
    attribution = handmade("It is red.", [Document(source, "d1")], {source: (3.0,)})
    assert [source["text"] for source in summarize(attribution)["sources"]] == ["The ferry is red."]
    for shown in (attribution.to_markdown(), attribution.to_table(width=80)):
        assert shown.count("The ferry is red.") == 2
        assert not any(mark in shown for mark in ("<", "&lt;"))
    assert ', "The ferry is red."]]' in attribution.to_html()
