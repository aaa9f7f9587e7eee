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


class Read(HTMLParser):
    """A page: what it makes the browser load (`loaded`), not what is followed by a click.

    `links` are where its links lead, `ids` what they can lead to; `empty` counts heads of table
    columns without a text.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.empty = 0
        self._head: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.loaded += [given[one] for one in ("src", "srcset", "poster", "data") if one in given]
        if tag == "link" and LOADING_RELATIONS & set(given.get("rel", "").split()):
            self.loaded.append(given["href"])
        self.loaded += CSS_URL.findall(given.get("style", ""))
        self.ids |= {given[one] for one in ("id",) if one in given}
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
def pages() -> dict[Path, Read]:
    assert (SITE / "index.html").is_file(), "there is no site yet: make docs"
    return {path: Read(path.read_text(encoding="utf-8")) for path in SITE.rglob("*.html")}


def test_links_lead_to_a_place_that_is_there(pages: dict[Path, Read]) -> None:
    """But for those of the page for what is not found, which stands anywhere."""
    dead = []
    for path, page in pages.items():
        for link in page.links if path.name != "404.html" else ():
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            place = unquote(parts.fragment)
            there = pages[target].ids if target in pages else set()
            if not target.is_file() or (place and place not in there):
                dead.append((path.relative_to(SITE).as_posix(), link))
    assert dead == []


def test_columns_have_heads_and_nothing_is_loaded_from_another_host(
    pages: dict[Path, Read],
) -> None:
    assert len(pages) > 30
    for path, page in pages.items():
        assert not page.empty, path
        assert not [url for url in page.loaded if urlsplit(url).netloc], path
    for sheet in SITE.rglob("*.css"):
        assert not [
            url for url in CSS_URL.findall(sheet.read_text("utf-8")) if urlsplit(url).netloc
        ]


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
