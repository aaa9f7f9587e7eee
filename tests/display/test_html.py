"""The answer's element as HTML: its data, the page around it, and its text without scripts."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from support.attributions import FERRY, ISLAND, handmade, verdicts_of
from support.hostile import ADDRESSES, HOSTILE, HTML

from attribot_rag import Document
from attribot_rag.display import answer_data, element_script, render_html
from attribot_rag.errors import InvalidInput

VOID = {"meta", "br", "hr"}
RENDERED = {
    *("p", "div", "ul", "ol", "li", "blockquote", "pre", "code", "strong", "em", "s", "a", "span"),
    *("table", "thead", "tbody", "tr", "th", "td", "br", "hr", "q"),
}


class Parsed(HTMLParser):
    """The tags of a page with their attributes, its text, and whether every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
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

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("script", "style"):
            self.text += data

    @property
    def element(self) -> dict[str, str | None]:
        (attributes,) = [attributes for tag, attributes in self.tags if tag == "attribot-answer"]
        return attributes

    @property
    def data(self) -> Any:
        return json.loads(self.element["data"] or "")


def words(html: str) -> str:
    return " ".join(Parsed(html).text.split())


def test_its_data_is_a_summary_with_documents_quotes_and_evidence() -> None:
    data = Parsed(render_html(ISLAND)).data
    assert data == json.loads(json.dumps(answer_data(ISLAND)))
    assert data["answer"] == ISLAND.response
    assert data["documents"]["1"] == ISLAND.documents[1].text
    for document, start, end in data["quotes"]["0"]:
        assert ISLAND.documents[document].text[start:end] == FERRY
    second = data["summary"]["sentences"][1]
    (row,) = data["evidence"][1]
    assert (row["source"], row["score"], row["exact"]) == (1, 8.0, True)
    assert second["source_ids"] == [1]
    paragraph, *others = data["blocks"]
    leaves = [node for node in paragraph[1:] if node[0] != "cite"]
    assert not others and "".join(ISLAND.response[leaf[0] : leaf[1]] for leaf in leaves) == (
        ISLAND.response
    )
    assert [node[1] for node in paragraph[1:] if node[0] == "cite"] == [0, 1, 2]


HIGH = "It is 38 metres high."


def test_influence_is_worked_out_before_the_browser() -> None:
    def influence(score: float, **fields: float) -> dict[str, object]:
        answer = "It is 38 metres high."
        verdict = {"kind": "grounded", "source_ids": (0,), **fields}
        made = handmade(answer, [HIGH], {HIGH: (score,)}, verdicts=verdicts_of(answer, verdict))
        (told,) = answer_data(made)["influence"]
        return dict(told)

    assert influence(9.0) == {"level": "very strong", "times": None, "of_all": None}
    assert influence(9.0, effect=5.0, kept=0.9, reliance=5.0) == {
        "level": "strong",
        "times": 150.0,
        "of_all": 1,
    }
    assert influence(9.0, effect=9.0, kept=0.4, reliance=9.0)["level"] == "weak"
    assert influence(0.5)["level"] is None
    assert influence(9.0, effect=20.0)["times"] is None


def test_without_scripts_it_is_the_cited_text() -> None:
    text = words(render_html(ISLAND))
    assert ISLAND.to_cited_text() in text
    assert f"ferry.txt#2: {FERRY}" in text
    answers = (text, ISLAND.to_markdown().split("\n\n")[0])
    marks = [re.findall(r"\[(\d(?: or \d)*)\]", answer.replace("\\", ""))[:2] for answer in answers]
    assert marks == [["1 or 2", "1"]] * 2


@pytest.mark.parametrize("theme", ["auto", "dark"])
def test_a_page_has_its_question_and_theme(theme: str) -> None:
    parsed = Parsed(render_html(ISLAND, question="How many & why?", theme=theme, answer=False))
    assert parsed.text.count("How many & why?") == 2  # the title and the heading
    (scheme,) = [a["content"] for _, a in parsed.tags if a.get("name") == "color-scheme"]
    assert scheme == {"auto": "light dark"}.get(theme, theme)
    assert parsed.element.get("theme") == {"auto": None}.get(theme, theme)
    assert "no-answer" in parsed.element
    assert "no-answer" not in Parsed(render_html(ISLAND)).element
    with pytest.raises(InvalidInput, match=r"sepia.*auto, light"):
        render_html(ISLAND, theme="sepia")


def test_a_page_allows_its_own_script_and_style_only() -> None:
    parsed = Parsed(render_html(ISLAND))
    (policy,) = [
        str(attributes["content"]) for _, attributes in parsed.tags if "http-equiv" in attributes
    ]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert not any("style" in attributes or "src" in attributes for _, attributes in parsed.tags)
    assert not any(key.startswith("on") for _, attributes in parsed.tags for key in attributes)


def test_a_fragment_has_the_element_and_its_script() -> None:
    fragment = render_html(ISLAND, page=False)
    assert [tag for tag, _ in Parsed(fragment).tags if tag in ("attribot-answer", "script")] == [
        "attribot-answer",
        "script",
    ]
    assert element_script() in fragment
    assert ISLAND._repr_html_() == fragment
    assert Parsed(render_html(ISLAND, page=False, question="Why?")).data["question"] == "Why?"


@pytest.mark.parametrize("text", [*HOSTILE, *HTML, *ADDRESSES])
def test_nothing_in_a_document_or_an_answer_takes_effect(text: str) -> None:
    def parsed(word: str) -> Parsed:
        document = Document(f"{FERRY} {word}", word, {"title": word, "url": word, "note": word})
        made = handmade(f"{word} is it.", [document], {FERRY: (3.0,), word: (2.0,)})
        return Parsed(render_html(made, question=word))

    hostile, plain = parsed(text), parsed("word" * 8)
    others = [[tag for tag, _ in page.tags if tag not in RENDERED] for page in (hostile, plain)]
    assert others[0] == others[1]
    for tag, attributes in hostile.tags:
        if tag in RENDERED:
            assert attributes.keys() <= {"class", "href", "rel", "start", "value", "dir"}
            assert re.match("(https://|mailto:|$)", attributes.get("href") or "")
    assert hostile.element.keys() == plain.element.keys()
    assert hostile.data["answer"] == f"{text} is it."


def test_show_opens_the_written_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[str] = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("webbrowser.open", opened.append)
    path = ISLAND.show()
    assert path.read_text(encoding="utf-8") == ISLAND.to_html()
    assert opened == [path.as_uri()]
