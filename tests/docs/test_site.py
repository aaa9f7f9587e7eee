"""The site as `make docs` built it: it asks nobody else for anything, and fits a phone."""

import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Page, expect
from support.browser import assert_accessible, happening
from support.browser import chromium as chromium
from support.browser import new_page as new_page
from support.patience import scaled

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
PAGES = ("index.html", "evaluation/report/index.html", "glossary/index.html", "methods/index.html")
LOADING = ("src", "srcset", "poster", "data")
LOADING_RELATIONS = {"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch"}
CSS_URL = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""")


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


class Read(HTMLParser):
    """A page: the addresses that a browser loads for it, and those that its links lead to.

    `ids` are the places that links can lead to; `num_empty` counts heads of table columns without
    a text.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.num_empty = 0
        self._head: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.loaded += [attributes[name] for name in LOADING if name in attributes]
        if tag == "link" and LOADING_RELATIONS & set(attributes.get("rel", "").split()):
            self.loaded.append(attributes["href"])
        self.loaded += CSS_URL.findall(attributes.get("style", ""))
        self.ids |= {attributes["id"]} if "id" in attributes else set()
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if tag == "th":
            self._head = ""

    def handle_data(self, data: str) -> None:
        if self._head is not None:
            self._head += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "th":
            self.num_empty += not (self._head or "").strip()
            self._head = None


@pytest.fixture(scope="module")
def pages() -> dict[Path, Read]:
    assert (SITE / "index.html").is_file(), "there is no site yet: make docs"
    return {path: Read(path.read_text(encoding="utf-8")) for path in SITE.rglob("*.html")}


def test_links_lead_to_a_place_that_is_there(pages: dict[Path, Read]) -> None:
    """But for those of the page for addresses that do not exist, which stands anywhere."""
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
            ids = pages[target].ids if target in pages else set()
            if not target.is_file() or (place and place not in ids):
                dead.append((path.relative_to(SITE).as_posix(), link))
    assert dead == []


def test_columns_have_heads_and_nothing_is_loaded_from_another_host(
    pages: dict[Path, Read],
) -> None:
    assert len(pages) > 30
    for path, page in pages.items():
        assert not page.num_empty, path
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


def is_elsewhere(text: str, site: str) -> bool:
    return not text.startswith((site, "blob:", "data:"))


def test_searching_asks_this_host_alone(site: str, new_page: Callable[..., Page]) -> None:
    page = new_page(viewport={"width": 360, "height": 740})
    happened = happening(page)
    page.goto(site)
    page.locator("label[for=__search].md-header__button").click()
    page.locator("input.md-search__input").press_sequentially("patching")
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
def test_the_home_begins_with_a_picture_and_the_same_answer_live(
    site: str, new_page: Callable[..., Page], width: int
) -> None:
    page = new_page(viewport={"width": width, "height": 800})
    page.goto(site)
    pictures = page.locator("picture img")
    assert pictures.evaluate("one => one.decode().then(() => one.naturalWidth)") >= 2 * 390
    assert ("phone" in pictures.evaluate("one => one.currentSrc")) == (width == 390)
    answer = page.locator("attribot-answer")
    answer.locator(".pill").first.click()
    expect(answer.locator(".panel mark")).to_have_text(re.compile("up to 40 passengers"))
    expect(answer.locator(".counterfactual .text").first).to_contain_text("84 passengers")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
