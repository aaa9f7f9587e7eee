"""A real browser, and pages of it that must not ask for anything."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from attribot_rag import Attribution

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def chromium() -> str:
    """Its path: CHROMIUM says where it is, or it is on the PATH."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    assert found, "these tests need a browser: make chromium, or CHROMIUM=path/to/it"
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium())
        yield started
        started.close()


def keep(page: Page, name: str, **options: Any) -> None:
    """A picture of the page among the tests' artifacts, where the README's come from."""
    folder = Path(__file__).parents[1] / "artifacts"
    folder.mkdir(exist_ok=True)
    page.screenshot(path=folder / name, **options)


class Shown:
    """An attribution's page, and in `events` everything that should not have happened there."""

    def __init__(self, page: Page, attribution: Attribution, folder: Path, **options: Any) -> None:
        self.page = page
        self.events: list[str] = []
        path = folder / "page.html"
        path.write_text(attribution.to_html(**options), encoding="utf-8", errors="replace")
        page.on("dialog", self._dialog)
        page.on("pageerror", lambda error: self.events.append(f"error: {error}"))
        page.on("console", lambda message: self.events.append(f"console: {message.text}"))
        page.on("request", lambda request: self._requested(request.url, path.as_uri()))
        page.on("popup", lambda popup: self.events.append(f"popup: {popup.url}"))
        page.goto(path.as_uri())

    def _dialog(self, dialog: Any) -> None:
        self.events.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, url: str, own: str) -> None:
        if url != own:
            self.events.append(f"request: {url}")
