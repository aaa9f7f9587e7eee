"""The Chainlit chat in a real browser, on the embedded model."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect
from support.browser import keep, look_up, opened_citation
from support.chat_apps import PATIENCE, chainlit_chat
from support.hostile import HTML, MARKDOWN
from support.service_process import CORPUS

pytestmark = [pytest.mark.slow, pytest.mark.long]
HIGH, DESIGNED = "How high is the lighthouse?", "Who designed the lighthouse?"
LONG = "Tell me everything about the lighthouse, in many sentences."

# Faults that axe-core finds in Chainlit 2.12's own frame, with any app in it.
CHAINLITS_OWN = {
    "aria-dialog-name",
    "aria-valid-attr-value",
    "button-name",
    "scrollable-region-focusable",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("documents")
    shutil.copytree(CORPUS, folder, dirs_exist_ok=True)
    (folder / "price-list.xyz").write_text("child;9 crowns", "utf-8")
    with chainlit_chat(folder, tmp_path_factory.mktemp("temporary")) as url:
        yield url


@pytest.fixture
def page(new_page: Callable[..., Page], address: str) -> Page:
    return opened(new_page(timeout=PATIENCE, viewport={"width": 1280, "height": 800}), address)


def opened(page: Page, address: str) -> Page:
    with page.expect_websocket() as socket:
        page.goto(address)
    socket.value.wait_for_event("framereceived")
    return page


def ask(page: Page, question: str) -> None:
    """Enter does nothing before the page is connected."""
    messages = page.locator("[data-step-type=user_message]")
    before = messages.count()
    page.locator("#chat-input").fill(question)
    while messages.count() == before:
        page.locator("#chat-input").press("Enter")
        page.wait_for_timeout(500)


def answers(page: Page) -> Locator:
    return page.locator("[data-step-type=assistant_message] .message-content")


def receipts(page: Page) -> Locator:
    return page.locator("attribot-answer")


def test_an_answer_is_streamed_and_its_sources_follow(page: Page) -> None:
    growing: list[str] = []
    expect(page.get_by_text("Skipped: price-list.xyz")).to_be_visible(timeout=PATIENCE)
    ask(page, HIGH)
    while not receipts(page).count():
        growing += [text for text in answers(page).all_inner_texts() if text not in growing]
        page.wait_for_timeout(50)
    assert len(growing) > 3 and all(text.startswith("The") for text in growing[:3])
    expect(receipts(page).locator(".sentence").first).to_contain_text("38", timeout=PATIENCE)
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        look_up(receipts(page), "It is 38 metres high")
    keep(page, "chainlit_chat.png")

    document = opened_citation(receipts(page), "lighthouse.md")
    paragraphs = (CORPUS / "lighthouse.md").read_text("utf-8").strip().split("\n\n")
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


def test_a_stopped_answer_gets_sources_for_its_shown_part(page: Page) -> None:
    ask(page, LONG)
    expect(answers(page).first).to_contain_text("Maren", timeout=PATIENCE)
    page.locator("#stop-button").click()
    before = answers(page).first.inner_text()
    sentences = receipts(page).locator(".sentence")
    expect(page.locator(".answer .chip").last).to_have_text("stopped", timeout=PATIENCE)
    shown = " ".join(sentences.all_inner_texts())
    assert shown.startswith(before)
    assert len(shown) < len(before) + 60
    ask(page, DESIGNED)
    expect(answers(page).last).to_contain_text("Penhow", timeout=PATIENCE)


def test_a_question_that_is_too_long_is_refused(page: Page) -> None:
    ask(page, HIGH * 100)
    expect(answers(page)).to_contain_text("2700 characters", timeout=PATIENCE)


def test_several_files_are_added_and_removed_and_all_are_searched(
    page: Page, address: str, tmp_path: Path
) -> None:
    pool, parking = tmp_path / "pool.txt", tmp_path / "parking.md"
    pool.write_text("The pool opens at seven.")
    parking.write_text("# Parking\n\nThe parking fee is 3 euros an hour.")
    page.set_input_files("#upload-button-input", [pool, parking])
    expect(page.get_by_text("parking.md").first).to_be_visible(timeout=PATIENCE)
    ask(page, "What is the parking fee?")
    expect(receipts(page).locator(".sentence").first).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_text("pool.txt: 1 passage added")).to_be_visible(timeout=PATIENCE)
    found = receipts(page).evaluate(
        """answer => new Promise(respond => answer.dispatchEvent(new CustomEvent(
            "attribot-search", { detail: { text: "The parking fee is 3 euros.", respond } })))"""
    )
    (hit,) = [each for each in found if each["name"] == "parking.md"]
    file = page.context.new_page()
    file.goto(f"{address}{hit['href']}")
    expect(file.locator("mark").filter(has_text="3 euros")).to_be_in_viewport(timeout=PATIENCE)
    page.get_by_role("button", name="Remove pool.txt").click()
    expect(page.get_by_text("pool.txt removed")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_role("button", name="Remove")).to_have_text(["Remove parking.md"])


def test_nothing_in_a_document_or_a_question_takes_effect(
    page: Page, address: str, tmp_path: Path
) -> None:
    happened: list[str] = []
    page.on("dialog", lambda dialog: happened.append(dialog.message))
    page.on("requestfinished", lambda request: happened.append(request.url))
    evil = tmp_path / "zanzibar.md"
    evil.write_text("\n\n".join(f"Zanzibar {text}" for text in (*HTML, *MARKDOWN)), "utf-8")
    page.set_input_files("#upload-button-input", evil)
    expect(page.get_by_text("zanzibar.md").first).to_be_visible(timeout=PATIENCE)
    ask(page, f"What does Zanzibar say? {HTML[0]} {MARKDOWN[2]}")
    expect(receipts(page).locator(".sentence").first).to_be_visible(timeout=PATIENCE)
    page.wait_for_timeout(500)
    assert [event for event in happened if not event.startswith((address, "data:", "blob:"))] == []


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {"Origin": "https://elsewhere.example"}),
        ("/project/settings", {"Host": "elsewhere.example"}),
        ("/ws/socket.io/?EIO=4&transport=polling", {"Origin": "https://elsewhere.example"}),
        (
            "/ws/socket.io/?EIO=4&transport=websocket",
            {
                "Origin": "https://elsewhere.example",
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            },
        ),
    ],
)
def test_pages_of_other_sites_are_refused(address: str, path: str, headers: dict[str, str]) -> None:
    assert httpx.get(f"{address}{path}", headers=headers, timeout=PATIENCE / 1000).status_code in (
        400,
        403,
    )
    own = {**headers, "Origin": address, "Host": urlsplit(address).netloc}
    with httpx.stream("GET", f"{address}{path}", headers=own) as answer:
        assert answer.status_code in (101, 200)


def test_a_question_can_not_be_edited_behind_the_model_s_back(address: str) -> None:
    settings = httpx.get(f"{address}/project/settings", timeout=PATIENCE / 1000).json()
    assert settings["features"]["edit_message"] is False


def test_it_is_accessible_but_for_its_frame_and_fits_a_phone(
    new_page: Callable[..., Page], address: str
) -> None:
    page = new_page(
        timeout=PATIENCE,
        viewport={"width": 360, "height": 740},
        color_scheme="dark",
        bypass_csp=True,  # axe-core is put into the page
    )
    opened(page, address)
    ask(page, HIGH)
    expect(receipts(page).locator(".sentence").first).to_be_visible(timeout=PATIENCE)
    look_up(receipts(page), "38 metres high")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    faults = Axe().run(page).response["violations"]
    serious = {fault["id"] for fault in faults if fault["impact"] in ("serious", "critical")}
    assert serious <= CHAINLITS_OWN, faults
    keep(page, "chainlit_chat_dark_360.png")
