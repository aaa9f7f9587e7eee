"""The Gradio chat in a real browser, on the embedded model."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from support.browser import (
    assert_accessible,
    fills_in,
    keep,
    look_up,
    new_context,
    opened_citation,
    watch,
)
from support.chat_apps import PATIENCE, gradio_chat
from support.hostile import HTML, MARKDOWN
from support.pdf_files import pdf
from support.service_process import CORPUS

pytestmark = pytest.mark.slow
HIGH, DESIGNED = "How high is the lighthouse?", "Who designed the lighthouse?"
LONG = "Tell me everything about the lighthouse, in many sentences."


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("documents")
    shutil.copytree(CORPUS, folder, dirs_exist_ok=True)
    (folder / "price-list.xyz").write_text("child;9 crowns", "utf-8")
    with gradio_chat(folder, tmp_path_factory.mktemp("temporary")) as url:
        yield url


@pytest.fixture
def page(new_page: Callable[..., Page], address: str) -> Page:
    return opened(new_page(timeout=PATIENCE, viewport={"width": 1280, "height": 800}), address)


@pytest.fixture(scope="module")
def answered(chromium: Browser, address: str) -> Iterator[Page]:
    """With one answer and its citations, for tests that only look at them."""
    context = new_context(chromium, timeout=PATIENCE, viewport={"width": 1280, "height": 800})
    page = opened(context.new_page(), address)
    ask(page, HIGH)
    expect(sentences(page).first).to_contain_text("38", timeout=PATIENCE)
    yield page
    context.close()


def opened(page: Page, address: str) -> Page:
    page.goto(address)
    expect(page.get_by_placeholder("Question")).to_be_visible(timeout=PATIENCE)
    return page


def ask(page: Page, question: str) -> None:
    page.get_by_placeholder("Question").fill(question)
    page.get_by_placeholder("Question").press("Enter")


def answers(page: Page) -> Locator:
    return page.get_by_test_id("bot")


def receipts(page: Page) -> Locator:
    return page.locator("attribot-answer")


def sentences(page: Page) -> Locator:
    return receipts(page).locator(".sentence")


def wait_for_scrolling(page: Page) -> None:
    """Gradio scrolls to the end of an answer some time after it has come."""
    before, scrolled = -1, page.locator(".panel-wrap")
    while (now := scrolled.evaluate("element => element.scrollTop")) != before:
        before = now
        page.wait_for_timeout(1000)


def test_all_files_are_searched_for_a_sentence(page: Page, address: str) -> None:
    """The page asks the route for what the element wants to know."""
    found = page.evaluate(
        """text => new Promise(respond => document.dispatchEvent(
            new CustomEvent("attribot-search", { detail: { text, respond } })))""",
        "The lighthouse is 38 metres high.",
    )
    assert found and {"lighthouse.md"} <= {each["name"] for each in found}
    hit = next(each for each in found if "38 metres" in each["text"])
    marked = [hit["text"][start:end] for start, end in hit["same"]]
    assert {"38", "metres", "high"} <= set(marked)
    page.goto(f"{address}{hit['href']}")
    expect(page.locator(".for")).to_have_text("Found for The lighthouse is 38 metres high.")
    expect(page.locator("mark").filter(has_text="38 metres")).to_be_in_viewport()
    assert page.request.get(f"{address}/passages/none").status == 404
    other = page.request.get(f"{address}/search", params={"text": "Quarks are confined."})
    assert other.json() == []
    whole = page.request.get(f"{address}/search", params={"text": "It is 38 metres high."})
    assert [each["name"] for each in whole.json() if each["all"]] == ["lighthouse.md"]


def test_a_file_that_is_skipped_is_named(page: Page) -> None:
    expect(page.get_by_text("Skipped: price-list.xyz")).to_be_visible(timeout=PATIENCE)


def test_an_answer_is_streamed_and_its_sources_follow(page: Page) -> None:
    growing: list[str] = []
    ask(page, HIGH)
    expect(receipts(page).locator(".trust")).to_have_text("Reading…", timeout=PATIENCE)
    while not sentences(page).count():
        shown = receipts(page).locator(".answer").all_text_contents()
        growing += [text for text in shown if text.strip() and text not in growing]
        page.wait_for_timeout(50)
    assert len(growing) > 4 and all(text.startswith("The") for text in growing)
    assert sorted(growing, key=len) == growing
    expect(sentences(page).first).to_contain_text("38", timeout=PATIENCE)
    expect(receipts(page).locator(".progress")).to_have_count(0, timeout=PATIENCE)
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        # Gradio scrolls to the end a moment after a new turn: by a timer, which is set already
        page.evaluate("new Promise(done => setTimeout(() => requestAnimationFrame(done), 500))")
        look_up(receipts(page), "38 metres high")
    keep(page, "gradio_chat.png")

    paragraphs = (CORPUS / "lighthouse.md").read_text("utf-8").strip().split("\n\n")
    entry = receipts(page).locator(".list li", has_text="lighthouse.md").first
    expect(entry.locator(".title small")).to_have_text("Building the tower")
    document = opened_citation(receipts(page), "lighthouse.md")
    expect(document.locator(".heading").first).to_have_text(paragraphs[0].removeprefix("# "))
    for paragraph in (paragraphs[1], paragraphs[-1]):
        expect(document.locator("main")).to_contain_text(paragraph)
    expect(document.locator("mark").filter(has_text="It is 38 metres high")).to_be_in_viewport()
    document.close()

    asking = receipts(page).get_by_role("button", name="What does the model answer without")
    asking.first.click()
    without = receipts(page).locator(".counterfactual").first
    expect(without).to_contain_text("Without lighthouse.md", timeout=PATIENCE)
    ask(page, DESIGNED)
    expect(receipts(page)).to_have_count(2, timeout=PATIENCE)
    expect(without).to_be_hidden()
    expect(receipts(page).last.locator(".answer")).to_be_in_viewport()


def test_a_question_asked_while_the_reader_is_further_up_comes_into_sight(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 480})
    for count in (1, 2):
        ask(page, HIGH)
        expect(receipts(page)).to_have_count(count, timeout=PATIENCE)
        expect(sentences(page).last).to_contain_text("38", timeout=PATIENCE)
        expect(receipts(page).locator(".progress")).to_have_count(0, timeout=PATIENCE)
    wait_for_scrolling(page)
    page.locator(".panel-wrap").evaluate("element => { element.scrollTop = 0 }")
    expect(page.get_by_test_id("user").last).not_to_be_in_viewport()
    ask(page, DESIGNED)
    expect(page.get_by_test_id("user")).to_have_count(3, timeout=PATIENCE)
    expect(page.get_by_test_id("user").last).to_be_in_viewport(timeout=PATIENCE)


@pytest.mark.long
def test_a_question_asked_while_a_long_answer_is_cited_is_cited_in_its_turn(page: Page) -> None:
    ask(page, LONG)
    expect(answers(page).first).to_contain_text("Maren", timeout=PATIENCE)
    while page.get_by_test_id("user").count() < 2:  # refused until the answer has ended
        ask(page, "How many passengers does the ferry Kittiwake carry?")
        page.wait_for_timeout(300)
    assert not sentences(page).count(), "the sources came before the question"
    expect(receipts(page)).to_have_count(2, timeout=PATIENCE)
    expect(receipts(page).nth(0).locator(".answer")).to_contain_text("Maren")
    expect(receipts(page).nth(1).locator(".answer")).to_contain_text("passengers")


@pytest.mark.long
def test_sentences_fill_in_one_after_the_other(page: Page) -> None:
    watch(page)
    ask(page, LONG)
    fills_in(receipts(page), PATIENCE)


@pytest.mark.long
def test_a_stopped_answer_gets_sources_for_its_shown_part(page: Page) -> None:
    ask(page, LONG)
    expect(answers(page).first).to_contain_text("Maren", timeout=PATIENCE)
    page.get_by_role("button", name="Stop").click()
    before = answers(page).first.inner_text()
    expect(sentences(page).first).to_contain_text("lighthouse", timeout=PATIENCE)
    shown = " ".join(sentences(page).all_inner_texts())
    assert shown.startswith(before)
    assert len(shown) < len(before) + 60
    expect(receipts(page).locator(".answer .chip").last).to_have_text("stopped")
    ask(page, DESIGNED)
    expect(answers(page).last).to_contain_text("Penhow", timeout=PATIENCE)


def test_a_question_that_is_too_long_is_refused_and_not_lost(page: Page) -> None:
    ask(page, HIGH * 100)
    expect(page.get_by_text("2700 characters")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_placeholder("Question")).to_have_value(HIGH * 100)
    expect(page.get_by_test_id("user")).to_have_count(0)


@pytest.mark.long
def test_two_users_at_once(new_page: Callable[..., Page], address: str) -> None:
    pages = [opened(new_page(timeout=PATIENCE), address) for _ in range(2)]
    for page, question in zip(pages, (HIGH, DESIGNED), strict=True):
        ask(page, question)
    for page, fact in zip(pages, ("38 metres", "Penhow"), strict=True):
        expect(sentences(page).first).to_contain_text(fact, timeout=PATIENCE)


@pytest.mark.long
def test_an_uploaded_pdf_is_cited_with_its_page(page: Page, tmp_path: Path) -> None:
    book = pdf(
        tmp_path / "harbour.PDF",
        [
            "The harbour master keeps a log of every ship.",
            "The harbour bell is green.\n"
            "The harbour hall was designed by the archi-\ntect Otto Brandt.",
        ],
    )
    page.set_input_files("input[type=file]", book)
    expect(page.get_by_text("harbour.PDF: 1 passage added")).to_be_visible(timeout=PATIENCE)
    ask(page, "Who designed the harbour hall?")
    expect(sentences(page).first).to_be_visible(timeout=PATIENCE)
    expect(receipts(page).locator(".progress")).to_have_count(0, timeout=PATIENCE)
    wait_for_scrolling(page)
    look_up(receipts(page), "The harbour")
    expect(receipts(page).locator(".card h2")).to_contain_text("page 1–2")
    document = opened_citation(receipts(page), "harbour.PDF")
    expect(document.locator("rect.mark").first).to_be_in_viewport()
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"no PDF")
    page.set_input_files("input[type=file]", broken)
    expect(page.get_by_text("broken.pdf cannot be read")).to_be_visible(timeout=PATIENCE)


@pytest.mark.long
def test_several_files_are_added_and_removed_in_a_session(page: Page, tmp_path: Path) -> None:
    pool, parking, broken = (tmp_path / name for name in ("pool.txt", "parking.md", "broken.pdf"))
    pool.write_text("The pool opens at seven.")
    parking.write_text("# Parking\n\nThe parking fee is 3 euros an hour.")
    broken.write_bytes(b"no PDF")
    page.set_input_files("input[type=file]", [pool, parking, broken])
    expect(page.get_by_text("broken.pdf cannot be read")).to_be_visible(timeout=PATIENCE)
    listed = page.locator("#files > button")
    removing = page.get_by_role("button", name="Remove")
    expect(listed).to_have_text(re.compile(r"^[1-9]\d* files"), timeout=PATIENCE)
    listed.click()
    expect(page.locator("#files")).to_contain_text("lighthouse.md")
    expect(removing).to_have_text(["Remove pool.txt", "Remove parking.md"], timeout=PATIENCE)
    removing.first.click()
    expect(removing).to_have_text(["Remove parking.md"], timeout=PATIENCE)
    placeholder = page.locator(".placeholder")
    expect(placeholder).to_contain_text("parking.md", timeout=PATIENCE)
    expect(placeholder).not_to_contain_text("pool.txt", timeout=PATIENCE)
    removing.click()
    expect(removing).to_have_count(0, timeout=PATIENCE)


@pytest.mark.long
def test_uploaded_files_outlive_a_kill_and_removed_files_are_forgotten(
    new_page: Callable[..., Page], tmp_path: Path
) -> None:
    folder, temporary = tmp_path / "documents", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    removed, added = folder / "left.txt", tmp_path / "added.txt"
    removed.write_text("The harbour bell was cast by Jonas Wick.")
    added.write_text("The harbour crane was painted purple by Otto Brandt.")
    with gradio_chat(folder, temporary) as address:
        page = opened(new_page(timeout=PATIENCE), address)
        page.set_input_files("input[type=file]", added)
        expect(page.get_by_text("added.txt: 1 passage added")).to_be_visible(timeout=PATIENCE)
    removed.unlink()
    with gradio_chat(folder, temporary) as address:
        page = opened(new_page(timeout=PATIENCE), address)
        ask(page, "Who painted the harbour crane?")
        expect(receipts(page).locator(".answer .chip").first).to_have_attribute(
            "aria-label", re.compile("added.txt"), timeout=PATIENCE
        )


@pytest.mark.long
def test_nothing_in_a_document_or_a_question_takes_effect(
    page: Page, address: str, tmp_path: Path
) -> None:
    happened: list[str] = []
    page.on("dialog", lambda dialog: happened.append(dialog.message))
    page.on(
        "request",
        lambda sent: happened.append(sent.url) if not sent.url.startswith(address) else None,
    )
    evil = tmp_path / "zanzibar.md"
    evil.write_text("\n\n".join(f"Zanzibar {text}" for text in (*HTML, *MARKDOWN)), "utf-8")
    page.set_input_files("input[type=file]", evil)
    expect(page.get_by_text("passages added")).to_be_visible(timeout=PATIENCE)
    question = f"What does Zanzibar say? {HTML[0]} {MARKDOWN[2]}"
    ask(page, question)
    expect(page.get_by_test_id("user")).to_have_text(question, timeout=PATIENCE)
    expect(sentences(page).first).to_contain_text("Zanzibar", timeout=PATIENCE)
    page.wait_for_timeout(500)
    assert [event for event in happened if not event.startswith(("about:", "data:"))] == []


@pytest.mark.long
def test_it_is_accessible_and_fits_a_phone(answered: Page) -> None:
    answered.set_viewport_size({"width": 360, "height": 740})
    for scheme in ("light", "dark"):
        answered.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        expect(answered.locator("body.dark")).to_have_count(int(scheme == "dark"))
        answered.evaluate("Promise.all(document.getAnimations().map(one => one.finished))")
        assert answered.evaluate("document.documentElement.scrollWidth") <= 360
        box = answered.get_by_placeholder("Question").bounding_box()
        assert box is not None and box["width"] > 360 / 2
        look_up(receipts(answered), "38 metres high")
        assert_accessible(answered)
        receipts(answered).get_by_role("button", name="Close").click()
        keep(answered, f"gradio_chat_{scheme}_360.png")
