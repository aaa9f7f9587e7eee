"""Take the pictures of the chat, light and dark, and of the service: real answers in a browser.

python docs/make_browser_pictures.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.browser import executable  # noqa: E402
from support.chat_apps import PATIENCE, gradio_chat  # noqa: E402
from support.service_process import TOKEN, service  # noqa: E402

from attribot_rag.model import DEFAULT_MODEL  # noqa: E402

QUESTION = "How high is the lighthouse?"
IMAGES = ROOT / "docs" / "images"


def take(page: Page, path: Path) -> None:
    """Click the answer's first sentence, so that its card is pinned, and keep the window."""
    sentence = page.locator("attribot-answer .sentence").first
    expect(sentence).to_contain_text("38", timeout=PATIENCE)
    expect(page.locator("attribot-answer .progress")).to_have_count(0, timeout=PATIENCE)
    sentence.locator(".pill").first.click()
    expect(page.locator("attribot-answer .panel mark").first).to_be_in_viewport()
    expect(sentence).to_be_in_viewport()
    page.screenshot(path=path)
    page.close()


def take_chat(browser: Browser, scheme: Literal["light", "dark"]) -> None:
    with (
        tempfile.TemporaryDirectory() as store,
        gradio_chat(ROOT / "examples" / "corpus", Path(store)) as address,
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 760}, color_scheme=scheme)
        page.goto(address)
        page.get_by_placeholder("Question").fill(QUESTION, timeout=PATIENCE)
        page.get_by_placeholder("Question").press("Enter")
        take(page, IMAGES / f"chat-{scheme}.png")


def take_service(browser: Browser) -> None:
    with service(DEFAULT_MODEL) as (address, _):
        page = browser.new_page(viewport={"width": 1000, "height": 860})
        page.goto(address)
        page.locator("form summary").click()
        page.get_by_label("Token").fill(TOKEN)
        page.locator("form summary").click()
        page.get_by_label("Question").fill(QUESTION)
        page.get_by_role("button", name="Ask").click()
        take(page, IMAGES / "service.png")


def main() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable())
        take_chat(browser, "light")
        take_chat(browser, "dark")
        take_service(browser)
        browser.close()


if __name__ == "__main__":
    main()
