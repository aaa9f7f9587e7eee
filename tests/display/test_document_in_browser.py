"""A cited document in a real browser: it opens at the mark, and loads nothing."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Error, Page, expect
from support.attributions import handmade
from support.browser import assert_accessible, happening
from support.hostile import HTML
from support.pdf_files import pdf

from attribot_rag import Document
from attribot_rag.display import render_document

pytestmark = pytest.mark.browser
SENTENCE = "The harbour crane was painted purple by Otto Brandt."
PURPLE = handmade("It is purple.", [SENTENCE], {SENTENCE: (9.0,)})
EARLIER = [f"Nothing happened in the year {year}." for year in range(1800, 1900)]


@pytest.mark.parametrize("name", ["harbour.md", "harbour.pdf"])
@pytest.mark.parametrize("fragment", ["#cited", ""])
def test_it_opens_at_the_mark(
    new_page: Callable[..., Page], tmp_path: Path, name: str, fragment: str
) -> None:
    file = tmp_path / name
    if name.endswith(".pdf"):
        last = "The harbour crane was painted pur-\nple by Otto Brandt."
        pdf(file, ["Page one.", "Page two.", last])
    else:
        file.write_text("\n\n".join([*EARLIER, f"{SENTENCE} Then.", *EARLIER]), "utf-8")
    shown = tmp_path / "page.html"
    shown.write_text(render_document(PURPLE, 0, file), "utf-8")
    page = new_page(viewport={"width": 600, "height": 300})
    happened = happening(page)
    page.goto(f"{shown.as_uri()}{fragment}")
    expect(page.locator("#cited")).to_be_in_viewport(ratio=0.9)
    expect(page.locator("header")).to_be_in_viewport(ratio=1)
    expect(page.locator("mark, rect")).to_have_count(2 if name.endswith(".pdf") else 1)
    expect(page.get_by_role("navigation")).to_be_hidden()  # there is nowhere to go
    assert [text for text in happened if not text.startswith(("file:", "data:"))] == []


def test_a_bar_stays_and_leads_through_the_citations_by_keyboard(
    new_page: Callable[..., Page], tmp_path: Path
) -> None:
    first, second = "The crane is old.", "It was painted purple."
    pdf(tmp_path / "harbour.pdf", [first, *EARLIER[:3], second])
    result = handmade("It is purple.", [f"{first} {second}"], {first: (9.0,), second: (8.0,)})
    page = new_page(viewport={"width": 600, "height": 300})
    page.set_content(render_document(result, 0, tmp_path / "harbour.pdf", sentence=0))
    expect(page.locator(".for q")).to_have_text("It is purple.")
    bar = page.locator("header")
    expect(bar.get_by_role("status")).to_have_text("1 of 2")
    reached = []
    for _ in range(3):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    assert reached == ["Back to the answer", "Previous citation", "Next citation"]
    page.keyboard.press("Enter")
    expect(bar.get_by_role("status")).to_have_text("2 of 2")
    expect(bar.locator(".page")).to_have_text("Page 5")
    expect(page.locator(".current").first).to_be_in_viewport(ratio=0.9)
    expect(bar.get_by_role("heading", name="harbour.pdf")).to_be_in_viewport(ratio=1)
    page.keyboard.press("Enter")
    expect(bar.get_by_role("status")).to_have_text("1 of 2")


def test_markdown_is_shown_as_the_element_quotes_it(
    new_page: Callable[..., Page], tmp_path: Path
) -> None:
    """Of a table all rows, the cited one marked."""
    row, tail = "| Jetty \U0001f6a2 | 12 | yes |", "The *jetty* is by **Ida Roe**, see [it](a.md)."
    table = f"| Place | Depth | Lit |\n|---|--:|---|\n| Bay | 40 | no |\n{row}"
    text = f"# Depths \U0001f6a2\n\n{table}\n\n{tail}\n"
    (tmp_path / "depths.md").write_text(text, "utf-8")
    document = Document(text, metadata={"title": "Depths of 1987", "source": "depths.md"})
    said = "The jetty is 12 deep, by Ida Roe."
    made = handmade(said, [document], {row: (9.0,), tail: (8.0,)})
    page = new_page()
    page.set_content(render_document(made, 0, tmp_path / "depths.md", sentence=0))
    expect(page.locator("h1")).to_have_text("Depths of 1987 depths.md")
    expect(page.locator(".heading")).to_have_text("Depths \U0001f6a2")
    expect(page.locator("tr")).to_have_count(3)
    expect(page.locator("th")).to_have_text(["Place", "Depth", "Lit"])
    expect(page.locator("td mark")).to_have_text(["Jetty \U0001f6a2", "12", "yes"])
    marked = "".join(page.locator(".file > p mark").all_inner_texts())
    assert marked == "The jetty is by Ida Roe, see it."
    expect(page.get_by_role("status")).to_have_text("1 of 2")


def test_a_plain_text_keeps_its_spaces_and_a_german_answer_has_german_words(
    new_page: Callable[..., Page], tmp_path: Path
) -> None:
    columns = "bell    green\n  crane **purple**"
    (tmp_path / "list.txt").write_text(columns, "utf-8")
    said = "Die Glocke am Hafen war grün, und der Kran wurde ganz in Lila gestrichen."
    page = new_page()
    page.set_content(
        render_document(handmade(said, [columns], {columns: (9.0,)}), 0, tmp_path / "list.txt")
    )
    assert page.locator(".file").inner_text() == columns
    expect(page.locator("html")).to_have_attribute("lang", "de")
    expect(page.get_by_role("button", name="Zurück zur Antwort")).to_be_visible()


def test_one_way_back(new_page: Callable[..., Page], tmp_path: Path) -> None:
    """It closes a tab of its own, and leads back in one that showed the answer."""
    (tmp_path / "a.txt").write_text(SENTENCE, "utf-8")
    (tmp_path / "page.html").write_text(render_document(PURPLE, 0, tmp_path / "a.txt"), "utf-8")
    (tmp_path / "answer.html").write_text(
        "<a href=page.html#cited target=_blank rel=noopener>new</a><a href=page.html>same</a>"
    )
    page = new_page()
    page.goto((tmp_path / "answer.html").as_uri())
    with page.context.expect_page() as opened:
        page.get_by_text("new").click()
    with opened.value.expect_event("close"), contextlib.suppress(Error):
        # The tab may be gone before Playwright has heard of the click.
        opened.value.get_by_role("button", name="Back to the answer").click()
    page.get_by_text("same").click()
    page.get_by_role("button", name="Back to the answer").click()
    expect(page.get_by_text("same")).to_be_visible()


def test_without_scripts_the_text_is_there_with_its_marks(
    new_page: Callable[..., Page], tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text(f"# Crane\n\n{SENTENCE}", "utf-8")
    page = new_page(java_script_enabled=False)
    page.set_content(render_document(PURPLE, 0, tmp_path / "a.md"))
    expect(page.locator("#cited")).to_have_text(SENTENCE)
    expect(page.get_by_role("button")).to_have_count(0)


def test_nothing_in_a_file_takes_effect(new_page: Callable[..., Page], tmp_path: Path) -> None:
    page = new_page(bypass_csp=True)  # not even without the page's policy
    happened = happening(page)
    for text in HTML:
        name = re.sub("[/\0]", "", text).encode()[:80].decode(errors="ignore")
        file = tmp_path / f"{name}.md"
        file.write_text(f"{SENTENCE} {text}", "utf-8")
        made = handmade(text, [f"{SENTENCE} {text}"], {SENTENCE: (9.0,)})
        page.set_content(render_document(made, 0, file, sentence=0))
        expect(page.locator("mark")).to_have_text(SENTENCE)
    assert [text for text in happened if not text.startswith("about:")] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["harbour.md", "harbour.pdf"])
def test_it_is_accessible(
    new_page: Callable[..., Page], tmp_path: Path, name: str, scheme: str
) -> None:
    file = tmp_path / name
    if name.endswith(".pdf"):
        pdf(file, [SENTENCE])
    else:
        file.write_text(f"# Crane\n\n{SENTENCE}\n\n| A | B |\n|---|---|\n| c | d |\n", "utf-8")
    page = new_page(color_scheme=scheme, bypass_csp=True)
    for shown in (file, file.with_name("gone.txt")):
        file.with_name("gone.txt").write_text("It is another.", "utf-8")
        page.set_content(render_document(PURPLE, 0, shown, sentence=0))
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 740})
            assert_accessible(page)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            expect(page.locator("mark, rect").first).to_be_in_viewport(ratio=0.9)
