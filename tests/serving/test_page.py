"""The service's page in a real browser, on the embedded model."""

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from support.browser import fills_in, keep, look_up, new_context, watch
from support.hostile import HTML
from support.patience import scaled
from support.service_process import CORPUS, TOKEN, service

from attribot_rag.model import DEFAULT_MODEL

PATIENCE = scaled(120_000)  # milliseconds


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with service(DEFAULT_MODEL) as (found, _):
        yield found


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Page]:
    """With the token filled in."""
    context = new_context(chromium)
    page = context.new_page()
    page.goto(address)
    page.locator("form summary").click()
    page.get_by_label("Token").fill(TOKEN)
    yield page
    context.close()


@pytest.mark.slow
def test_an_answer_comes_at_once_and_its_sources_follow(page: Page, address: str) -> None:
    beyond: list[str] = []
    errors: list[str] = []
    page.on("request", lambda one: beyond.append(one.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.get_by_label("Question").fill("How high is the lighthouse?")
    page.get_by_role("button", name="Ask").click()
    answer = page.locator("attribot-answer")
    expect(answer.locator(".answer")).to_contain_text("The", timeout=PATIENCE)
    expect(answer.locator(".counts")).to_have_text("Checking sources…")
    expect(answer.locator(".sentence").first).to_contain_text("38", timeout=PATIENCE)
    assert str(CORPUS) not in page.content() + answer.inner_text()
    page.locator("form summary").click()
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 720})
        look_up(answer, "38 metres high")
    keep(page, "service.png")
    assert not errors
    assert set(beyond) == {f"{address}/ask"}


@pytest.mark.slow
def test_sentences_fill_in_one_after_the_other(page: Page) -> None:
    watch(page)
    question = "Tell me everything about the lighthouse, in many sentences."
    page.get_by_label("Question").fill(question)
    page.get_by_role("button", name="Ask").click()
    fills_in(page.locator("attribot-answer"), PATIENCE)


@pytest.mark.slow
def test_hostile_texts_run_nothing_and_an_answer_is_accessible(
    chromium: Browser, address: str
) -> None:
    context = new_context(chromium, bypass_csp=True)  # for axe-core; nothing but the page protects
    page = context.new_page()
    happened: list[str] = []
    page.on("dialog", lambda dialog: happened.append(dialog.message))
    page.goto(address)
    page.locator("summary").click()
    page.get_by_label("Token").fill(TOKEN)
    page.on("request", lambda request: happened.append(request.url))
    documents = "\n\n".join(f"The gate is green. {text}" for text in HTML[:6])
    page.get_by_label("Documents, parted").fill(documents)
    page.get_by_label("Question").fill(f"What colour is the gate? {HTML[0]}")
    page.get_by_role("button", name="Ask").click()
    answer = page.locator("attribot-answer")
    expect(answer.locator(".panel")).to_be_visible(timeout=PATIENCE)
    expect(answer.locator(".counts")).not_to_contain_text("Checking", timeout=PATIENCE)
    for entry in answer.locator(".panel button.entry").all()[:2]:
        entry.click()
        page.keyboard.press("Escape")
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 740})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            violations = Axe().run(page).response["violations"]
            assert not violations, violations
    assert set(happened) == {f"{address}/ask"}
    context.close()


def test_what_goes_wrong_is_said(page: Page) -> None:
    page.get_by_label("Question").fill("xylophone zeppelin?")
    page.get_by_label("Token").fill("wrong")
    page.locator("summary").click()
    expect(page.get_by_label("Token")).to_be_hidden()
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("status")).to_have_text("a valid bearer token is needed")
    expect(page.get_by_label("Token")).to_be_visible()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("status")).to_contain_text(re.compile("has a word of the question"))


def test_it_can_be_stopped(page: Page) -> None:
    page.get_by_label("Question").fill("Who designed the lighthouse?")
    page.get_by_role("button", name="Ask").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("status")).to_contain_text("Stopped.")
    expect(page.get_by_role("button", name="Ask")).to_be_enabled()


def test_it_is_accessible(chromium: Browser, address: str) -> None:
    context = new_context(chromium, bypass_csp=True)  # axe-core is put into the page
    page = context.new_page()
    page.goto(address)
    page.locator("summary").click()
    outcome = Axe().run(page)
    assert outcome.violations_count == 0, outcome.generate_report()
    context.close()
