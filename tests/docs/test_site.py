"""The site as `make docs` built it: it asks nobody else for anything, and fits a phone."""

import re
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from support.browser import chromium as chromium
from support.browser import new_context
from support.patience import scaled

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
PAGES = ("index.html", "evaluation/report/index.html", "glossary/index.html", "methods/index.html")
LOADING_RELATIONS = {"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch"}
CSS_URL = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""")


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Loaded(HTMLParser):
    """What a page makes the browser load, in `urls`; links that are followed by a click are not."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.urls += [given[name] for name in ("src", "srcset", "poster", "data") if name in given]
        if tag == "link" and LOADING_RELATIONS & set(given.get("rel", "").split()):
            self.urls.append(given["href"])
        self.urls += CSS_URL.findall(given.get("style", ""))


class Linked(HTMLParser):
    """Where a page's links lead, in `links`, and what they can lead to, in `ids`.

    `empty` counts heads of table columns without a text.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.empty = 0
        self._head: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "th":
            self._head = ""

    def handle_data(self, data: str) -> None:
        if self._head is not None:
            self._head += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "th":
            self.empty += not (self._head or "").strip()
            self._head = None


@pytest.fixture(scope="module")
def linked() -> dict[Path, Linked]:
    """The pages; that for what is not found stands anywhere, and has no relative links."""
    assert (SITE / "index.html").is_file(), "there is no site yet: make docs"
    pages = [path for path in SITE.rglob("*.html") if path.name != "404.html"]
    return {path: Linked(path.read_text(encoding="utf-8")) for path in pages}


def test_links_lead_to_a_place_that_is_there(linked: dict[Path, Linked]) -> None:
    dead = []
    for path, page in linked.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            place = unquote(parts.fragment)
            there = linked[target].ids if target in linked else set()
            if not target.is_file() or (place and place not in there):
                dead.append((path.relative_to(SITE).as_posix(), link))
    assert dead == []


def test_every_column_of_a_table_has_a_head(linked: dict[Path, Linked]) -> None:
    assert [path.relative_to(SITE).as_posix() for path, page in linked.items() if page.empty] == []


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    assert (SITE / "index.html").is_file(), "there is no site yet: make docs"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = new_context(chromium, viewport={"width": 360, "height": 740})
    yield context.new_page()
    context.close()


@pytest.mark.browser
def test_no_page_loads_anything_from_another_host(site: str) -> None:
    pages = sorted(SITE.rglob("*.html"))
    assert len(pages) > 30
    elsewhere = {
        (path.relative_to(SITE).as_posix(), url)
        for path in pages
        for url in Loaded(path.read_text(encoding="utf-8")).urls
        if urlsplit(url).netloc
    }
    elsewhere |= {
        (path.relative_to(SITE).as_posix(), url)
        for path in SITE.rglob("*.css")
        for url in CSS_URL.findall(path.read_text(encoding="utf-8"))
    }
    assert elsewhere == set()


def test_reading_and_searching_ask_this_host_alone(site: str, page: Page) -> None:
    asked: list[str] = []
    page.context.on("request", lambda request: asked.append(request.url))
    failed: list[str] = []
    page.on("pageerror", lambda error: failed.append(str(error)))
    for path in PAGES:
        page.goto(f"{site}/{path}")
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1], path
    page.locator("label[for=__search].md-header__button").click()
    page.locator("input.md-search__input").press_sequentially("patching")
    expect(page.locator(".md-search-result__item").first).to_be_visible(timeout=scaled(60_000))
    assert len(asked) > len(PAGES)
    assert [url for url in asked if not url.startswith((site, "blob:", "data:"))] == []
    assert failed == []


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize(
    "paths", [pytest.param(PAGES, id="some"), pytest.param(None, id="all", marks=pytest.mark.long)]
)
def test_pages_are_accessible(
    site: str, chromium: Browser, paths: tuple[str, ...] | None, width: int, scheme: str
) -> None:
    """Contrast, order of headings, heads of tables and all else that axe-core knows."""
    context = new_context(
        chromium,
        color_scheme=scheme,
        viewport={"width": width, "height": 800},
        reduced_motion="reduce",
        bypass_csp=True,  # axe-core is put into the page
    )
    page, axe = context.new_page(), Axe()
    written = [path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html")]
    for path in paths or [path for path in written if not path.startswith("repository/")]:
        page.goto(f"{site}/{path}")
        found = axe.run(page)
        assert found.violations_count == 0, (path, found.generate_report())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    context.close()
