"""A cited document in a real browser: it opens at the mark, and loads nothing."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.attributions import handmade
from support.browser import assert_accessible, happening
from support.hostile import HTML
from support.pdf_files import pdf

from attribot_rag.display import render_document

pytestmark = pytest.mark.browser
SENTENCE = "The harbour crane was painted purple by Otto Brandt."
PURPLE = handmade("It is purple.", [SENTENCE], {SENTENCE: (9.0,)})
EARLIER = [f"Nothing happened in the year {year}." for year in range(1800, 1900)]


@pytest.mark.parametrize("name", ["harbour.md", "harbour.pdf"])
def test_it_opens_at_the_mark(new_page: Callable[..., Page], tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    if name.endswith(".pdf"):
        last = "The harbour crane was painted pur-\nple by Otto Brandt."
        pdf(file, ["Page one.", "Page two.", last])
    else:
        file.write_text("\n\n".join([*EARLIER, SENTENCE]), "utf-8")
    shown = tmp_path / "page.html"
    shown.write_text(render_document(PURPLE, 0, file), "utf-8")
    page = new_page(viewport={"width": 600, "height": 300})
    happened = happening(page)
    page.goto(f"{shown.as_uri()}#cited")
    expect(page.locator("#cited")).to_be_in_viewport(ratio=0.9)
    expect(page.locator("header")).to_be_in_viewport(ratio=1)
    expect(page.locator("mark, rect")).to_have_count(2 if name.endswith(".pdf") else 1)
    assert [text for text in happened if not text.startswith(("file:", "data:"))] == []


def test_a_bar_stays_and_leads_through_the_citations(
    new_page: Callable[..., Page], tmp_path: Path
) -> None:
    first, second = "The crane is old.", "It was painted purple."
    pdf(tmp_path / "harbour.pdf", [first, *EARLIER[:3], second])
    result = handmade("It is purple.", [f"{first} {second}"], {first: (9.0,), second: (8.0,)})
    page = new_page(viewport={"width": 600, "height": 300})
    page.set_content(render_document(result, 0, tmp_path / "harbour.pdf", sentence=0))
    bar = page.locator("header")
    expect(bar).to_contain_text("cited for “It is purple.”")
    expect(bar.get_by_role("status")).to_have_text("1 of 2")
    bar.get_by_role("button", name="Next").click()
    expect(bar.get_by_role("status")).to_have_text("2 of 2")
    expect(bar.locator(".page")).to_have_text("page 5")
    expect(page.locator(".current").first).to_be_in_viewport(ratio=0.9)
    expect(bar.get_by_role("heading", name="harbour.pdf")).to_be_in_viewport(ratio=1)
    bar.get_by_role("button", name="Next").click()
    expect(bar.get_by_role("status")).to_have_text("1 of 2")


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


@pytest.mark.parametrize(("name", "scheme"), [("harbour.md", "dark"), ("harbour.pdf", "light")])
def test_it_is_accessible(
    new_page: Callable[..., Page], tmp_path: Path, name: str, scheme: str
) -> None:
    file = tmp_path / name
    if name.endswith(".pdf"):
        pdf(file, [SENTENCE])
    else:
        file.write_text(SENTENCE, "utf-8")
    page = new_page(color_scheme=scheme, bypass_csp=True)
    page.set_content(render_document(PURPLE, 0, file, sentence=0))
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 740})
        assert_accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        expect(page.locator(".for")).to_be_in_viewport(ratio=1)
