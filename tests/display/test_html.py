import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.attributions import FERRY, ISLAND, NOTHING_SCORED, NOTHING_STANDS_OUT, handmade
from support.hostile import ADDRESSES, HALF_OF_A_PAIR, HOSTILE, HTML
from support.strategies import attributions

from attribot_rag import Attribution, Document
from attribot_rag.attribution import Verdict
from attribot_rag.display import render_html, render_table
from attribot_rag.display.escaping import on_one_line, visible

VOID = {"meta", "br", "rect"}


class Parsed(HTMLParser):
    """The tags of a page with their attributes, its text, and whether every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.data = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.data += data
        elif not self._open or self._open[-1] != "style":
            self.text += data

    def having(self, class_: str) -> list[dict[str, str | None]]:
        return [
            attributes
            for _, attributes in self.tags
            if class_ in (attributes.get("class") or "").split()
        ]


def words(html: str) -> str:
    return " ".join(Parsed(html).text.split())


def skeleton(html: str) -> list[tuple[str, dict[str, str | None]]]:
    """What a page is made of, whatever its documents and answers say."""
    told = ("id", "href", "title", "aria-label", "content")
    return [
        (tag, {key: value for key, value in attributes.items() if key not in told})
        for tag, attributes in Parsed(html).tags
    ]


def test_it_shows_what_the_table_shows_in_the_same_order() -> None:
    text = words(render_html(ISLAND))
    for one in ("The ferry carries 84 people.", "[ 1 or 2 ]", "in nats", "12.64", "-0.45"):
        assert one.replace("[ ", "[").replace(" ]", "]") in text.replace("[ ", "[")
    table = " ".join(render_table(ISLAND, width=400).split())
    for shown in (text, table, ISLAND.to_markdown().replace("\\", "")):
        scores = [shown.index(score) for score in ("12.64", "8.50", "0.00", "-0.45")]
        assert scores == sorted(scores)
    assert "All scores are exact." in text
    assert "Negative: the answer is more likely without that source." in text


def test_every_way_of_showing_has_the_same_numbers() -> None:
    answers = (
        words(render_html(ISLAND)).split("What caused")[0],
        ISLAND.to_cited_text(),
        ISLAND.to_markdown().split("\n\n")[0].replace("\\", ""),
        render_table(ISLAND, width=400).split("\n\n")[0],
    )
    marks = [re.findall(r"\[ ?(\d(?: or \d)*) ?\]", answer) for answer in answers]
    assert marks == [["1 or 2", "1"]] * 4


def test_documents_come_by_number_then_by_score() -> None:
    headings = ("[1] ferry.txt#2", "[2] Lamp Night (festival.md#3)", "document 3")
    text = words(render_html(ISLAND))
    places = [text.rindex(heading) for heading in headings]
    assert places == sorted(places)


def test_strengths_follow_scores() -> None:
    parsed = Parsed(render_html(ISLAND))
    strengths: dict[str, set[int]] = {}
    for piece in parsed.having("attribot-source"):
        classes = str(piece["class"]).split()
        strengths.setdefault(str(piece["data-source"]), set()).add(int(classes[-1][-1]))
    assert strengths == {"0": {5}, "1": {5}, "2": {0}, "3": {0}}
    assert len(parsed.having("attribot-source")) == 5  # the first one stands in two documents


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ({"kind": "grounded", "source_ids": (0,)}, "✓ from its sources"),
        ({"kind": "redundant", "source_ids": (0,), "relation": "either"}, "✓ from either source"),
        ({"kind": "unsupported"}, "✕ not caused by the context"),
        ({"kind": "conversation"}, "↺ from the conversation"),
        ({"kind": "open"}, "? not decided"),
        ({"kind": "follows", "follows": 0}, "↳ follows from sentence 1"),
    ],
)
def test_verdicts_are_said_in_words_and_explained(verdict: dict[str, Any], said: str) -> None:
    attribution = handmade(
        "It is red.",
        ["It is red."],
        {"It is red.": (4.0,)},
        verdicts=(Verdict(start=0, end=10, **verdict),),
    )
    html = render_html(attribution)
    assert said in words(html)
    assert len([tag for tag, _ in Parsed(html).tags if tag == "dt"]) == 1


def test_what_to_know_before_trusting_it() -> None:
    attribution = handmade(
        "One.", ["One.", "Two."], {"One.": (3.0,)}, exact=(False,), partial=True, not_located=(1,)
    )
    text = words(render_html(attribution))
    assert "0 of 1 scores are exact, the others approximate." in text
    assert "Partial: not everything was scored or decided; the notes say why." in text
    assert "Not found in the prompt, so not scored." in text
    assert "~3.00" in text
    assert "No source stands out" in words(render_html(NOTHING_STANDS_OUT))
    text = words(render_html(NOTHING_SCORED))
    assert "No source was scored" in text
    assert "0.00" not in text


def test_titles_lead_to_addresses_and_metadata_is_shown() -> None:
    metadata = {"title": "Guide", "url": "https://example.org/a?b=1&c=2", "page": 3, "raw": [1]}
    attribution = handmade("One.", [Document("One.", "a", metadata)], {"One.": (3.0,)})
    html = render_html(attribution)
    (link,) = [attributes for tag, attributes in Parsed(html).tags if attributes.get("target")]
    assert link["href"] == metadata["url"]
    assert set(str(link["rel"]).split()) >= {"noopener", "noreferrer"}
    assert "page: 3" in words(html)
    assert "raw" not in words(html)


def test_a_page_allows_its_own_script_and_style_only() -> None:
    parsed = Parsed(render_html(ISLAND))
    (policy,) = [
        str(attributes["content"]) for _, attributes in parsed.tags if "http-equiv" in attributes
    ]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert not any("style" in attributes or "src" in attributes for _, attributes in parsed.tags)
    assert not any(key.startswith("on") for _, attributes in parsed.tags for key in attributes)


def test_a_fragment_is_the_page_s_middle() -> None:
    page, fragment = render_html(ISLAND), render_html(ISLAND, page=False)
    assert fragment.strip() in page
    assert "<html" not in fragment
    assert ISLAND._repr_html_() == fragment


def test_no_link_leads_nowhere() -> None:
    for html in (render_html(ISLAND), render_html(ISLAND, top=0)):
        tags = Parsed(html).tags
        ids = {attributes["id"] for _, attributes in tags if "id" in attributes}
        assert len(ids) == len([attributes for _, attributes in tags if "id" in attributes])
        links = {str(attributes["href"]) for tag, attributes in tags if tag == "a"}
        assert {link.removeprefix("#") for link in links} <= ids


@pytest.mark.parametrize("text", [*HOSTILE, *HTML])
def test_nothing_in_a_document_or_an_answer_takes_effect(text: str) -> None:
    def made(said: str) -> Attribution:
        document = Document(f"{FERRY} {said}", said, {"title": said, "note": said})
        return handmade(f"{said} is it.", [document], {FERRY: (3.0,), said: (2.0,)})

    html, plain = render_html(made(text)), render_html(made("word" * 8))
    tags = {tag for tag, _ in skeleton(html)}
    assert tags - {"br"} <= {tag for tag, _ in skeleton(plain)}
    assert on_one_line(text)[:30] in words(html).replace("\n", " ")
    scripts = [tag for tag, _ in skeleton(html) if tag == "script"]
    assert len(scripts) == 2


@pytest.mark.parametrize("url", ADDRESSES)
def test_addresses_that_would_run_are_no_links(url: str) -> None:
    attribution = handmade("One.", [Document("One.", "a", {"url": url})], {"One.": (3.0,)})
    links = [
        attributes
        for tag, attributes in Parsed(render_html(attribution)).tags
        if attributes.get("target")
    ]
    assert [link["href"] for link in links] == ([url] if url.startswith("https://") else [])


def test_half_of_a_surrogate_pair_can_be_written() -> None:
    attribution = handmade(HALF_OF_A_PAIR, [HALF_OF_A_PAIR], {HALF_OF_A_PAIR: (3.0,)})
    assert "<U+D83D>" in words(render_html(attribution))
    render_html(attribution).encode("utf-8")


@given(attribution=attributions(), top=st.integers(0, 5))
@settings(deadline=None)
def test_any_attribution_has_a_page(attribution: Attribution, top: int) -> None:
    html = render_html(attribution, top=top)
    shown = visible("".join(attribution.response.split()))  # \x1f is white space, too
    found = "".join(Parsed(html).text.split())
    assert all(piece in found for piece in (shown[:1], shown[-1:]))


def test_show_opens_what_it_wrote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[str] = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("webbrowser.open", opened.append)
    path = ISLAND.show()
    assert path.read_text(encoding="utf-8") == ISLAND.to_html()
    assert opened == [path.as_uri()]
