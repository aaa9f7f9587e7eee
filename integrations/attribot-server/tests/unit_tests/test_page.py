"""The service's page in a real browser, on the embedded model."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.browser import assert_accessible, happening, keep, look_up
from support.hostile import HTML
from support.patience import scaled
from support.service_process import CORPUS, TOKEN, service

from attribot_rag.model import DEFAULT_MODEL

DOCS = Path(__file__).parents[4] / "docs"
PATIENCE = scaled(120_000)  # milliseconds

pytestmark = pytest.mark.embedded


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with service(DEFAULT_MODEL) as (url, _):
        yield url


@pytest.fixture
def page(new_page: Callable[..., Page], address: str) -> Page:
    return with_token(new_page(), address)


@pytest.fixture
def without_policy(new_page: Callable[..., Page], address: str) -> Page:
    """Nothing but the page itself protects it; axe-core is put into it."""
    return with_token(new_page(bypass_csp=True), address)


def with_token(page: Page, address: str) -> Page:
    page.goto(address)
    page.locator("form summary").click()
    page.get_by_label("Token").fill(TOKEN)
    return page


@pytest.mark.slow
def test_an_answer_comes_at_once_and_its_sources_follow(page: Page, address: str) -> None:
    happened = happening(page)
    page.get_by_label("Question").fill("How high is the lighthouse?")
    page.get_by_role("button", name="Ask").click()
    answer = page.locator("attribot-answer")
    expect(answer.locator(".answer")).to_contain_text("The", timeout=PATIENCE)
    expect(answer.locator(".progress")).to_have_text(re.compile("Writing…|Checking"))
    expect(answer.locator(".sentence").first).to_contain_text("38", timeout=PATIENCE)
    assert str(CORPUS) not in page.content() + answer.inner_text()
    page.locator("form summary").click()
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 720})
        look_up(answer, "38 metres high")
    keep(page, "service.png")
    assert set(happened) == {f"{address}/ask"}


@pytest.mark.slow
def test_the_recipe_for_plain_html_works(new_page: Callable[..., Page], address: str) -> None:
    recipe = re.search(r"```html\n(.*?)```", (DOCS / "answers.md").read_text("utf-8"), re.DOTALL)
    assert recipe is not None
    page = new_page(extra_http_headers={"Authorization": f"Bearer {TOKEN}"})
    html = {"body": recipe[1], "content_type": "text/html"}
    page.route(f"{address}/recipe", lambda route: route.fulfill(**html))
    page.goto(f"{address}/recipe")
    expect(page.locator("attribot-answer .answer .chip[aria-expanded]").first).to_be_visible(
        timeout=PATIENCE
    )
    look_up(page.locator("attribot-answer"), "38 metres high")


@pytest.mark.slow
def test_hostile_texts_run_nothing_and_an_answer_is_accessible(
    without_policy: Page, address: str
) -> None:
    page = without_policy
    happened = happening(page)
    documents = "\n\n".join(f"The gate is green. {text}" for text in HTML[:6])
    page.get_by_label("Documents, parted").fill(documents)
    page.get_by_label("Question").fill(f"What colour is the gate? {HTML[0]}")
    page.get_by_role("button", name="Ask").click()
    answer = page.locator("attribot-answer")
    expect(answer.locator(".help")).to_be_visible(timeout=PATIENCE)
    expect(answer.locator(".progress")).to_have_count(0, timeout=PATIENCE)
    for button in answer.locator(".trust button, .list button").all():
        button.click()
        page.keyboard.press("Escape")
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 740})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            assert_accessible(page)
    assert set(happened) == {f"{address}/ask"}


def test_errors_are_shown(page: Page) -> None:
    page.get_by_label("Question").fill("xylophone zeppelin?")
    page.get_by_label("Token").fill("wrong")
    page.locator("summary").click()
    expect(page.get_by_label("Token")).to_be_hidden()
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("status")).to_have_text("a valid bearer token is needed")
    expect(page.get_by_label("Token")).to_be_visible()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("status")).to_contain_text(re.compile("has a word of the question"))
