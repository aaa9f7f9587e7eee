"""Take the README's pictures of the chat, light and dark: a real answer in a real browser.

python docs/make_chat_pictures.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.browser import executable  # noqa: E402
from support.chat_apps import PATIENCE, gradio_chat  # noqa: E402

QUESTION = "How high is the lighthouse?"
SIZE = {"width": 1280, "height": 820}


def take(browser: Browser, address: str, scheme: str) -> None:
    """Ask, point at the answer's sentence, and keep the window as docs/images/chat-SCHEME.png."""
    page = browser.new_page(viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(address)
    page.get_by_label("Question").fill(QUESTION, timeout=PATIENCE)
    page.get_by_label("Question").press("Enter")
    panel = page.frame_locator("iframe[title='What caused the answer']")
    sentence = panel.locator(".attribot-sentence").first
    expect(sentence).to_contain_text("38", timeout=PATIENCE)
    sentence.hover()
    expect(panel.locator(".attribot-strength-5").first).to_be_visible()
    page.screenshot(path=ROOT / "docs" / "images" / f"chat-{scheme}.png")
    page.close()


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as store,
        gradio_chat(ROOT / "examples" / "corpus", Path(store)) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=executable())
        for scheme in ("light", "dark"):
            take(browser, address, scheme)
        browser.close()


if __name__ == "__main__":
    main()
