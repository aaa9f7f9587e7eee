"""The site as `make docs` built it: it asks nobody else for anything, and fits a phone."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.browser import assert_accessible, happening
from support.browser import chromium as chromium
from support.browser import new_page as new_page
from support.patience import scaled

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
PAGES = ("index.html", "evaluation/report/index.html", "glossary/index.html", "methods/index.html")


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    assert (SITE / "index.html").is_file(), "there is no site yet: make docs"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def is_elsewhere(text: str, site: str) -> bool:
    return not text.startswith((site, "blob:", "data:"))


def test_searching_finds_what_people_look_for_and_asks_this_host_alone(
    site: str, new_page: Callable[..., Page]
) -> None:
    page = new_page(viewport={"width": 360, "height": 740})
    happened = happening(page)
    page.goto(site)
    page.locator("label[for=__search].md-header__button").click()
    for words in ("patching", "hallucination", "latency", "colours", "hosted", "GPT-4"):
        page.locator("input.md-search__input").fill("")
        expect(page.locator(".md-search-result__item")).to_have_count(0)
        # At once: the search engine writes an address to the console for an unfinished "GPT-".
        page.locator("input.md-search__input").fill(words)
        page.locator("input.md-search__input").press("End")
        expect(page.locator(".md-search-result__item").first).to_be_visible(timeout=scaled(60_000))
    assert happened
    assert [text for text in happened if is_elsewhere(text, site)] == []


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1280, "dark")])
@pytest.mark.parametrize(
    "paths", [pytest.param(PAGES, id="some"), pytest.param(None, id="all", marks=pytest.mark.long)]
)
def test_pages_are_accessible_and_ask_this_host_alone(
    site: str, new_page: Callable[..., Page], paths: tuple[str, ...] | None, width: int, scheme: str
) -> None:
    """Contrast, order of headings, heads of tables and all else that axe-core knows."""
    page = new_page(
        color_scheme=scheme,
        viewport={"width": width, "height": 800},
        reduced_motion="reduce",
        bypass_csp=True,
    )
    happened = happening(page)
    written = [path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html")]
    for path in paths or [path for path in written if not path.startswith("repository/")]:
        page.goto(f"{site}/{path}")
        assert_accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    assert len(happened) > len(paths or written)
    assert [text for text in happened if is_elsewhere(text, site)] == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_home_begins_with_a_live_answer_whose_card_is_open(
    site: str, new_page: Callable[..., Page], width: int
) -> None:
    page = new_page(viewport={"width": width, "height": 800})
    page.goto(site)
    answer = page.locator("attribot-answer")
    expect(answer.locator(".answer .chip").first).to_be_in_viewport()
    expect(answer.locator(".card dd").nth(1)).to_contain_text("up to 40 passengers")
    expect(answer.locator(".counterfactual .text").first).to_contain_text("84 passengers")
    expect(
        page.locator("attribot-answer ~ ol, p:has(attribot-answer) + ol").locator("li")
    ).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_stands_after_a_sentence_is_shown_as_it_looks(
    site: str, new_page: Callable[..., Page], scheme: str
) -> None:
    page = new_page(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    page.goto(f"{site}/answers/")
    chips = page.locator("table").first.locator("td:first-child .chip")
    expect(chips.first).to_have_text("1 ✓")
    expect(page.locator(".chip.part").first).to_have_text("1 ?")
    expect(page.locator(".chip.warn").first).to_have_text("84 in 2")
    assert page.locator("table").first.locator("tbody tr:not(:has(.chip))").count() == 0
