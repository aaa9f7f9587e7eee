"""The page in a real browser: what lights up, by pointer, keyboard and selection."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect
from support.attributions import FERRY, ISLAND, NOTHING_STANDS_OUT, handmade
from support.browser import Shown, keep, new_context
from support.hostile import ADDRESSES, HOSTILE, HTML

from attribot_rag import Attribution, Document
from attribot_rag.attribution import Verdict

TICKET = "A single ticket costs 18 crowns."


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = new_context(chromium)
    yield context.new_page()
    context.close()


@pytest.fixture
def island(page: Page, tmp_path: Path) -> Iterator[Page]:
    shown = Shown(page, ISLAND, tmp_path)
    yield page
    assert not shown.events


def sentence(page: Page, text: str) -> Locator:
    return page.locator(".attribot-sentence", has_text=text)


def source(page: Page, text: str) -> Locator:
    return page.locator(".attribot-source", has_text=text)


def strength(element: Locator) -> int:
    found = re.search(r"attribot-strength-(\d)", element.first.get_attribute("class") or "")
    return int(found.group(1)) if found else 0


def bars(page: Page) -> list[tuple[str, str]]:
    """The scores and the sources of the bars."""
    rows = page.locator(".attribot-bars li").all()
    return [
        (
            row.locator(".attribot-score").inner_text(),
            row.locator(".attribot-what span").first.inner_text(),
        )
        for row in rows
    ]


WHOLE = [
    ("12.64", FERRY),
    ("8.50", TICKET),
    ("0.00", "The museum is open on Saturdays only."),
    ("-0.45", "Book early."),
]


def test_a_sentence_lights_up_its_sources(island: Page) -> None:
    assert bars(island) == WHOLE
    sentence(island, "A ticket").hover()
    assert strength(source(island, TICKET)) == 5
    assert strength(source(island, FERRY)) == 1
    assert bars(island)[0] == ("8.00", TICKET)
    assert bars(island)[1] == ("0.10", FERRY)
    assert "A ticket costs 18 crowns." in island.locator(".attribot-asked").inner_text()
    island.mouse.move(0, 0)
    assert bars(island) == WHOLE


def test_a_source_lights_up_what_it_caused(island: Page) -> None:
    source(island, TICKET).hover()
    assert strength(sentence(island, "A ticket")) == 5
    assert strength(sentence(island, "The ferry")) == 0
    source(island, FERRY).first.hover()
    assert strength(sentence(island, "The ferry")) == 5
    assert [strength(one) for one in source(island, FERRY).all()] == [5, 5]


def test_a_choice_stays_until_it_is_ended(island: Page) -> None:
    chosen = sentence(island, "A ticket")
    chosen.click()
    island.mouse.move(0, 0)
    expect(chosen).to_have_attribute("aria-pressed", "true")
    assert bars(island)[0] == ("8.00", TICKET)
    sentence(island, "The ferry").click()
    expect(chosen).to_have_attribute("aria-pressed", "false")
    island.mouse.move(0, 0)
    assert bars(island)[0] == ("12.35", FERRY)
    island.keyboard.press("Escape")
    assert bars(island) == WHOLE


def test_a_part_of_the_answer_can_be_selected(island: Page) -> None:
    island.evaluate(
        """() => {
            const text = document.querySelectorAll(".attribot-sentence")[1].firstChild;
            const start = text.data.indexOf("A ticket");
            document.getSelection().setBaseAndExtent(text, start, text, start + "A ticket".length);
        }"""
    )
    expect(island.locator(".attribot-asked")).to_contain_text("“A ticket”")
    assert bars(island)[0] == ("8.00", TICKET)
    island.evaluate(
        """() => {
            const text = document.querySelectorAll(".attribot-sentence")[1].firstChild;
            const start = text.data.indexOf("crowns");
            document.getSelection().setBaseAndExtent(text, start, text, start + 6);
        }"""
    )
    expect(island.locator(".attribot-asked")).to_contain_text("“crowns”")
    assert {score for score, _ in bars(island)} == {"0.00"}
    island.evaluate("document.getSelection().removeAllRanges()")
    expect(island.locator(".attribot-asked")).to_have_text("What caused the answer")
    assert bars(island) == WHOLE


def test_a_selection_by_mouse_over_two_sentences(island: Page) -> None:
    first, second = (sentence(island, text).bounding_box() for text in ("The ferry", "A ticket"))
    assert first and second
    island.mouse.move(first["x"] + 2, first["y"] + 8)
    island.mouse.down()
    island.mouse.move(second["x"] + 60, second["y"] + second["height"] - 8, steps=5)
    island.mouse.up()
    assert {text: score for score, text in bars(island)}[TICKET] == "8.20"
    assert island.locator("[aria-pressed=true]").count() == 0


def test_everything_can_be_reached_by_keyboard(island: Page) -> None:
    reached = []
    for _ in range(40):
        island.keyboard.press("Tab")
        reached.append(
            island.evaluate(
                "(document.activeElement.className || '') + '|' + "
                "document.activeElement.textContent.trim()"
            )
        )
        if reached[-1].startswith("attribot-sentence|A ticket"):
            assert bars(island)[0] == ("8.00", TICKET)
            island.keyboard.press("Enter")
            expect(sentence(island, "A ticket")).to_have_attribute("aria-pressed", "true")
            told = island.locator("[aria-live]").text_content() or ""
            assert "8.00" in told and TICKET in told
            island.keyboard.press("Escape")
    texts = " ".join(reached)
    for wanted in ("The ferry carries 84 people.", "It is a fine trip.", "What this means", TICKET):
        assert wanted in texts


def test_a_number_leads_to_its_source(island: Page) -> None:
    island.locator(".attribot-mark a", has_text="2").first.click()
    focused = island.evaluate("document.activeElement.innerText")
    assert focused.startswith("[2] Lamp Night")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_is_accessible(chromium: Browser, tmp_path: Path, scheme: str, width: int) -> None:
    context = new_context(
        chromium,
        color_scheme=scheme,
        viewport={"width": width, "height": 800},
        reduced_motion="reduce",
        bypass_csp=True,  # axe-core is put into the page
    )
    page = context.new_page()
    kinds = ("grounded", "unsupported", "open")
    edges = ((0, 29), (29, 55), (55, 73))
    verdicts = tuple(
        Verdict(start=start, end=end, kind=kind, source_ids=(0,) if kind == "grounded" else ())  # type: ignore[arg-type]
        for kind, (start, end) in zip(kinds, edges, strict=True)
    )
    judged = Attribution.from_dict(ISLAND.to_dict())
    object.__setattr__(judged, "verdicts", verdicts)
    shown = Shown(page, judged, tmp_path)
    page.locator("summary").click()
    for lit in (sentence(page, "A ticket"), source(page, FERRY).first):
        lit.focus()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    assert not shown.events
    keep(page, f"page_{scheme}_{width}.png", full_page=True)
    context.close()


@pytest.mark.parametrize("texts", [HTML[:20], HTML[20:40], HTML[40:], HOSTILE])
def test_hostile_texts_are_shown_and_run_nothing(
    page: Page, tmp_path: Path, texts: tuple[str, ...]
) -> None:
    for text in texts:
        document = Document(f"{FERRY} {text}", text, {"title": text, "note": text})
        shown = Shown(
            page, handmade(f"{text} is it.", [document], {FERRY: (3.0,), text: (2.0,)}), tmp_path
        )
        for element in page.locator(".attribot-sentence, .attribot-source").all():
            element.hover()
        assert page.evaluate("document.querySelectorAll('.attribot script').length") == 2
        assert page.evaluate("document.title") == "Which text caused the answer"
        assert not shown.events, text
        assert page.locator("h1").count() == 1


def test_addresses_run_nothing(page: Page, tmp_path: Path) -> None:
    for url in ADDRESSES:
        document = Document("One.", "a", {"url": url, "source": url, "link": url})
        shown = Shown(page, handmade("One.", [document], {"One.": (3.0,)}), tmp_path)
        for link in page.locator("a[target]").all():
            assert (link.get_attribute("href") or "").startswith("https://evil.example/")
        assert not shown.events, url


def test_characters_that_browsers_count_otherwise(page: Page, tmp_path: Path) -> None:
    """Emoji are two for a browser, control characters are shown by several."""
    attribution = handmade(
        "\U0001f6a2\U0001f6a2 \u202e carry 84 people.", ["Ships."], {"Ships.": (3.0,)}
    )
    shown = Shown(page, attribution, tmp_path)
    page.evaluate(
        """() => {
            const text = document.querySelector(".attribot-sentence").firstChild;
            const start = text.data.indexOf("carry");
            document.getSelection().setBaseAndExtent(text, start, text, start + 5);
        }"""
    )
    assert bars(page) == [("0.00", "Ships.")]
    page.evaluate(
        """() => {
            const text = document.querySelector(".attribot-sentence").firstChild;
            document.getSelection().setBaseAndExtent(text, 0, text, 2);
        }"""
    )
    assert bars(page) == [("3.00", "Ships.")]
    assert not shown.events


def test_text_from_right_to_left(page: Page, tmp_path: Path) -> None:
    arabic = "ترتفع المنارة ثمانية وثلاثين مترا."
    Shown(page, handmade(arabic, [arabic], {arabic: (3.0,)}), tmp_path)
    direction = "el => getComputedStyle(el).direction"
    for where in (".attribot-answer .attribot-text", ".attribot-card .attribot-text"):
        assert page.locator(where).evaluate(direction) == "rtl"


def test_two_hundred_sources_and_many_fragments(page: Page, tmp_path: Path) -> None:
    texts = [f"House number {number} has a blue door." for number in range(200)]
    answer = " ".join(f"House {number} is blue." for number in range(20))
    scores = {text: tuple(float(i == j) for j in range(20)) for i, text in enumerate(texts)}
    shown = Shown(page, handmade(answer, texts, scores), tmp_path)
    assert page.locator(".attribot-card").count() == 200
    for number in (0, 7, 19):
        page.locator(".attribot-sentence").nth(number).hover()
        assert bars(page)[0] == ("1.00", texts[number])
    assert not shown.events
    both = ISLAND.to_html(page=False) + NOTHING_STANDS_OUT.to_html(page=False)
    page.set_content(f"<!DOCTYPE html><body>{both}</body>")
    assert page.locator(".attribot[data-ready]").count() == 2
    sentence(page, "A ticket").hover()
    assert strength(source(page, TICKET)) == 5


def test_without_its_script_it_can_still_be_read(chromium: Browser, tmp_path: Path) -> None:
    context = new_context(chromium, java_script_enabled=False)
    page = context.new_page()
    Shown(page, ISLAND, tmp_path)
    assert bars(page) == WHOLE
    assert strength(source(page, FERRY)) == 5
    context.close()
