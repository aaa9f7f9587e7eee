from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page
from support.browser import chromium as chromium
from support.browser import happening
from support.browser import new_page as new_page


@pytest.fixture
def show(tmp_path: Path) -> Iterator[Callable[[Page, str], None]]:
    """Shows HTML in a page. Until the test ends, it asks for nothing else and says nothing."""
    path = tmp_path / "page.html"
    happened: list[list[str]] = []

    def show(page: Page, html: str) -> None:
        path.write_text(html, encoding="utf-8", errors="replace")
        happened.append(happening(page))
        page.goto(path.as_uri())

    yield show
    assert {text for texts in happened for text in texts} <= {path.as_uri()}
