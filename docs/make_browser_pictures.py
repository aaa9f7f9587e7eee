"""Take the pictures of an answer, of the chat and of the service: real answers in a browser.

python docs/make_browser_pictures.py [answer] [chat] [service]

The answer's data are written, too: the site's home shows the element itself.
"""

from __future__ import annotations

import json
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

from attribot_rag import Attributor, Document, load_model  # noqa: E402
from attribot_rag.display import answer_data, without_data  # noqa: E402
from attribot_rag.display.page import render_summary  # noqa: E402
from attribot_rag.model import DEFAULT_MODEL  # noqa: E402

QUESTION = "How high is the lighthouse?"
PASSENGERS = "How many passengers does the ferry Kittiwake carry?"
SAYS_84 = "The ferry Kittiwake carries up to 84 passengers. A single ticket costs 18 crowns."
SAYS_40 = "Fleet list of 1987. The ferry Kittiwake carries up to 40 passengers."
DOCUMENTS = [
    Document(SAYS_84, metadata={"title": "Ferry guide 2024"}),
    Document(SAYS_40, metadata={"title": "Fleet list 1987"}),
]
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
IMAGES = ROOT / "docs" / "images"


def take(page: Page, path: Path, said: str = "38") -> None:
    """Click the answer's first sentence, so that its card is pinned, and keep the window."""
    sentence = page.locator("attribot-answer .sentence").first
    expect(sentence).to_contain_text(said, timeout=PATIENCE)
    expect(page.locator("attribot-answer .progress")).to_have_count(0, timeout=PATIENCE)
    page.locator("attribot-answer .answer .chip[aria-expanded]").first.click()
    expect(page.locator("attribot-answer .card dd").first).to_be_in_viewport()
    expect(sentence).to_be_in_viewport()
    page.screenshot(path=path)
    page.close()


def take_answer(browser: Browser) -> None:
    """A wrong answer, its cause, and what the model answers without that; wide, and for a phone."""
    attributor = Attributor(load_model())
    attribution = attributor.ask(PASSENGERS, DOCUMENTS)
    other = attributor.answer_without(attribution, 1)
    without = {"1": without_data(attribution, other, question=PASSENGERS)}
    data = {**answer_data(attribution, question=PASSENGERS), "without": without}
    (ROOT / "docs" / "site" / "answer.json").write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    for scheme in SCHEMES:
        for width, height, cards, name in ((960, 640, "side", ""), (390, 860, "below", "-phone")):
            page = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                device_scale_factor=2,
            )
            page.set_content(render_summary(data, question=PASSENGERS, cards=cards))
            take(page, IMAGES / f"answer-{scheme}{name}.png", "Kittiwake")


def take_chat(browser: Browser) -> None:
    with (
        tempfile.TemporaryDirectory() as store,
        gradio_chat(ROOT / "examples" / "corpus", Path(store)) as address,
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 760}, color_scheme="light")
        page.goto(address)
        page.get_by_placeholder("Question").fill(QUESTION, timeout=PATIENCE)
        page.get_by_placeholder("Question").press("Enter")
        take(page, IMAGES / "chat.png")


def take_service(browser: Browser) -> None:
    with service(DEFAULT_MODEL, "--seconds", "600") as (address, _):  # a slow machine, too
        page = browser.new_page(viewport={"width": 1000, "height": 860})
        page.goto(address)
        page.locator("form summary").click()
        page.get_by_label("Token").fill(TOKEN)
        page.locator("form summary").click()
        page.get_by_label("Question").fill(QUESTION)
        page.get_by_role("button", name="Ask").click()
        take(page, IMAGES / "service.png")


TAKEN = {"answer": take_answer, "chat": take_chat, "service": take_service}


def main(names: list[str]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable())
        for name in names or TAKEN:
            TAKEN[name](browser)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
