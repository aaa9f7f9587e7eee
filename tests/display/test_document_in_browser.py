"""A cited document in a real browser: it opens at the mark, and loads nothing."""

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from support.attributions import handmade
from support.browser import new_context
from support.hostile import HTML
from support.pdf_files import pdf

from attribot_rag.display import render_document

pytestmark = pytest.mark.browser
SENTENCE = "The harbour crane was painted purple by Otto Brandt."
EARLIER = [f"Nothing happened in the year {year}." for year in range(1800, 1900)]


@pytest.mark.parametrize("name", ["harbour.md", "harbour.pdf"])
def test_it_opens_at_the_mark(chromium: Browser, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    if name.endswith(".pdf"):
        pdf(
            file,
            ["Page one.", "Page two.", "The harbour crane was painted pur-\nple by Otto Brandt."],
        )
    else:
        file.write_text("\n\n".join([*EARLIER, SENTENCE]), "utf-8")
    result = handmade("It is purple.", [SENTENCE], {SENTENCE: (9.0,)})
    shown = tmp_path / "page.html"
    shown.write_text(render_document(result, 0, file), "utf-8")
    context = new_context(chromium, viewport={"width": 600, "height": 300}, bypass_csp=False)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.on("console", lambda one: asked.append(one.text))
    page.goto(f"{shown.as_uri()}#cited")
    expect(page.locator("#cited")).to_be_in_viewport(ratio=0.9)
    expect(page.locator("header")).to_be_in_viewport(ratio=1)
    expect(page.locator("mark, rect")).to_have_count(2 if name.endswith(".pdf") else 1)
    assert [one for one in asked if not one.startswith(("file:", "data:"))] == []
    context.close()


def test_a_bar_stays_and_leads_through_the_citations(chromium: Browser, tmp_path: Path) -> None:
    pdf(tmp_path / "harbour.pdf", ["The crane is old.", *EARLIER[:3], "It was painted purple."])
    file = tmp_path / "harbour.md"
    file.write_text("\n\n".join(["The crane is old.", *EARLIER, "It was painted purple."]), "utf-8")
    scores = {"The crane is old.": (9.0,), "It was painted purple.": (8.0,)}
    document = "The crane is old. It was painted purple."
    for name, page_named in (("harbour.md", ""), ("harbour.pdf", "page 5")):
        context = new_context(chromium, viewport={"width": 600, "height": 300})
        page = context.new_page()
        result = handmade("It is purple.", [document], scores)
        page.set_content(render_document(result, 0, tmp_path / name, sentence=0))
        bar = page.locator("header")
        expect(bar).to_contain_text("cited for “It is purple.”")
        expect(bar.get_by_role("status")).to_have_text("1 of 2")
        bar.get_by_role("button", name="Next").click()
        expect(bar.get_by_role("status")).to_have_text("2 of 2")
        expect(bar.locator(".page")).to_have_text(page_named)
        expect(page.locator(".current").first).to_be_in_viewport(ratio=0.9)
        expect(bar.get_by_role("heading", name=name)).to_be_in_viewport(ratio=1)
        bar.get_by_role("button", name="Next").click()
        expect(bar.get_by_role("status")).to_have_text("1 of 2")
        context.close()


def test_nothing_in_a_file_takes_effect(chromium: Browser, tmp_path: Path) -> None:
    context = new_context(chromium, bypass_csp=True)  # not even without the page's policy
    page = context.new_page()
    happened: list[str] = []
    page.on("dialog", lambda dialog: happened.append(dialog.message))
    page.on("request", lambda request: happened.append(request.url))
    for text in HTML:
        name = re.sub("[/\0]", "", text).encode()[:80].decode(errors="ignore")
        file = tmp_path / f"{name}.md"
        file.write_text(f"{SENTENCE} {text}", "utf-8")
        made = handmade(text, [f"{SENTENCE} {text}"], {SENTENCE: (9.0,)})
        page.set_content(render_document(made, 0, file, sentence=0))
        expect(page.locator("mark")).to_have_text(SENTENCE)
    assert [url for url in happened if not url.startswith("about:")] == []
    context.close()


@pytest.mark.parametrize("name", ["harbour.md", "harbour.pdf"])
def test_it_is_accessible(chromium: Browser, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    if name.endswith(".pdf"):
        pdf(file, [SENTENCE])
    else:
        file.write_text(SENTENCE, "utf-8")
    found = handmade("It is purple.", [SENTENCE], {SENTENCE: (9.0,)})
    for scheme in ("light", "dark"):
        context = new_context(
            chromium, color_scheme="dark" if scheme == "dark" else "light", bypass_csp=True
        )
        page = context.new_page()
        page.set_content(render_document(found, 0, file, sentence=0))
        for width in (360, 1280):
            page.set_viewport_size({"width": width, "height": 740})
            result = Axe().run(page)
            assert result.violations_count == 0, result.generate_report()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            expect(page.locator(".for")).to_be_in_viewport(ratio=1)
        context.close()
