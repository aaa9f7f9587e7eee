"""A real browser, and pages of it that must not ask for anything."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Dialog,
    Locator,
    Page,
    expect,
    sync_playwright,
)

from support.patience import scaled

_NUMBERS = "all => all.map((one) => one.dataset.sentence)"
_NUMBER = """chosen => {
    const sentences = [...chosen.closest(".answer").querySelectorAll(".sentence")];
    const numbers = [...new Set(sentences.map((one) => one.dataset.sentence))];
    return numbers.indexOf(chosen.dataset.sentence) + 1;
}"""
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Of a module, not of all: asyncio's tests can't run while playwright's loop does."""
    path = executable()
    if path is None:
        pytest.skip("no browser; `make chromium` brings one, or CHROMIUM=path/to/it names it")
    expect.set_options(timeout=scaled(5_000))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, timeout=scaled(30_000))
        yield browser
        browser.close()


def new_context(
    browser: Browser, *, timeout: float = scaled(30_000), **options: Any
) -> BrowserContext:
    """Tabs that share nothing with others, and wait for elements up to `timeout` milliseconds."""
    context = browser.new_context(**options)
    context.set_default_timeout(timeout)
    return context


@pytest.fixture
def new_page(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """A function that opens pages in tabs of their own, with the options of a context."""
    with ExitStack() as contexts:

        def opened(**options: Any) -> Page:
            context = new_context(chromium, **options)
            contexts.callback(context.close)
            return context.new_page()

        yield opened


def assert_accessible(page: Page) -> None:
    """Nothing that axe-core knows is wrong. It is put into the page: the context bypasses CSP."""
    violations = Axe().run(page).response["violations"]
    assert not violations, json.dumps(violations, indent=1)  # its own cannot name shadow roots


def happening(page: Page) -> list[str]:
    """Events of a page from now on: addresses it asks for or opens, texts of dialogs and errors."""
    happened: list[str] = []

    def dismissed(dialog: Dialog) -> None:
        happened.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismissed)
    page.on("pageerror", lambda error: happened.append(str(error)))
    page.on("console", lambda message: happened.append(message.text))
    page.on("request", lambda request: happened.append(request.url))
    page.on("popup", lambda popup: happened.append(f"popup: {popup.url}"))
    return happened


def executable() -> str | None:
    """The path that CHROMIUM says, or of a browser on the PATH, or of Playwright's own."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if path:
        return path
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


def keep(page: Page, name: str, **options: Any) -> None:
    """A picture of the page among the tests' artifacts, where the README's come from."""
    folder = Path(__file__).parents[1] / "artifacts"
    folder.mkdir(exist_ok=True)
    page.screenshot(path=folder / name, **options)


def look_up(answer: Locator, words: str) -> None:
    """Click on chips of an <attribot-answer> until a quote has these words.

    Asserts that the card is about this sentence and stays in view with it when the pointer goes
    elsewhere, and that the panel fits into the window.
    """
    page, card = answer.page, answer.locator(".card")
    if card.is_visible():
        card.locator(".closer").click()
    quote = card.locator("dd").filter(has_text=words)
    for chip in answer.locator(".answer .chip").all():
        chip.click()
        if quote.count():
            break
        chip.click()
    chosen = answer.locator(".sentence.on").first
    page.mouse.move(2, 2)
    expect(quote.last).to_be_in_viewport(ratio=0.9)
    expect(chosen).to_be_in_viewport()
    expect(card).to_be_in_viewport()
    if len({*answer.locator(".sentence").evaluate_all(_NUMBERS)}) > 1:
        number = chosen.evaluate(_NUMBER)
        expect(card.locator(".place")).to_contain_text(f"{number} of")


def watch(page: Page) -> None:
    """Keep the states that the last answer's sentences are painted in, one after the other."""
    page.evaluate(
        """() => {
            window.steps = [];
            const look = () => {
                const answer = [...document.querySelectorAll("attribot-answer")].at(-1);
                const sentences = [...(answer?.shadowRoot.querySelectorAll(".sentence") ?? [])];
                const states = sentences.map(({ className }) => className.split(" ")[1]);
                const last = window.steps.at(-1);
                if (states.length && String(states) !== String(last)) window.steps.push(states);
                requestAnimationFrame(look);
            };
            look();
        }"""
    )


def fills_in(answer: Locator, timeout: float) -> None:
    """Assert that the verdicts of a watched answer came one by one, under a card that stays."""
    waiting = answer.locator(".sentence.checking")
    settled = answer.locator(".sentence:not(.checking)").first
    expect(settled).to_be_visible(timeout=timeout)
    answer.locator(".answer .chip[aria-expanded]").first.click()
    expect(waiting).to_have_count(0, timeout=timeout)
    expect(answer.locator(".sentence").first).to_have_class(re.compile(r"\bon\b"))
    expect(answer.locator(".card .place")).to_contain_text("1 of")
    expect(answer.locator(".progress")).to_have_count(0)
    remaining = [states.count("checking") for states in answer.page.evaluate("steps")]
    assert remaining[0] > 0 and remaining == sorted(remaining, reverse=True), remaining


def opened_citation(answer: Locator, file: str) -> Page:
    """The page of a file that the open card of an <attribot-answer> leads to, in a small window."""
    link = answer.locator(".card .actions").get_by_role("link", name="Open file")
    with answer.page.context.expect_page() as opened:
        link.filter(has_text=file).or_(link).first.click()
    document, url = opened.value, opened.value.url
    assert document.locator("h1").inner_text() == file
    document.set_viewport_size({"width": 600, "height": 200})
    document.goto("about:blank")
    document.goto(url)
    return document
