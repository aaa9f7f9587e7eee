"""The answer's element in a real browser: its contents and its controls."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from support.attributions import ISLAND, handmade, verdicts_of
from support.browser import assert_accessible, happening, keep, look_up
from support.compositions import BOTH, CARRIES, EARLIER_RUNS, HIGH, WHITE, composed, end_to_end, run
from support.hostile import ADDRESSES, HOSTILE, HTML
from support.receipts import (
    ANSWER,
    ATTRIBUTION,
    BELL,
    BICYCLE,
    CHECK,
    LAMP,
    PASSENGERS,
    QUESTION,
    SENTENCES,
    TICKET,
    receipts,
)

from attribot_rag import Document
from attribot_rag.attribution import Marker, Verdict
from attribot_rag.context.prompt_parts import PromptPart
from attribot_rag.display import answer_data
from attribot_rag.display.html import render_summary
from attribot_rag.result.summary import summarize, without_attribution

PHONE, DESKTOP = 360, 1280
CHIPS = [
    "check: 4 ≠ 3",
    "model’s own",
    "from sentence 2",
    "from the conversation",
    "undecided",
    "stopped here",
]
NOTEBOOK = "<!DOCTYPE html><html lang=en><title>Cell</title><main><h1>Cell</h1>"
STYLE = "one => getComputedStyle(one)"
BECAUSE = "The model wrote this because of"
COMPARED = "Compare it with the text yourself: this shows where a sentence comes from"
DIFFERS = "The answer says “4”. The cited text says “3”."


Show = Callable[[Page, str], None]


@pytest.fixture(params=[f"{PHONE} light", f"{DESKTOP} dark"])
def window(request: pytest.FixtureRequest, new_page: Callable[..., Page]) -> Page:
    """A phone's or a desktop's window, light or dark."""
    width, scheme = request.param.split()
    return new_page(
        color_scheme=scheme,
        viewport={"width": int(width), "height": 740},
        has_touch=int(width) == PHONE,
        reduced_motion="reduce",
    )


@pytest.fixture
def show(tmp_path: Path) -> Iterator[Show]:
    """Shows HTML in a page. Until the test ends, it asks for nothing else and says nothing."""
    path = tmp_path / "page.html"
    happened: list[list[str]] = []

    def show(page: Page, html: str) -> None:
        path.write_text(html, encoding="utf-8", errors="replace")
        happened.append(happening(page))
        page.goto(path.as_uri())

    yield show
    assert {text for texts in happened for text in texts} <= {path.as_uri()}


@pytest.fixture
def page(window: Page, show: Show) -> Page:
    """With the answer that has sentences in every state."""
    show(window, html(answers_without=True))
    return window


@pytest.fixture
def desktop(new_page: Callable[..., Page]) -> Page:
    return new_page(viewport={"width": DESKTOP, "height": 740})


def html(data: Any = None, **attributes: Any) -> str:
    return render_summary(data or receipts(), question=QUESTION, **attributes)


def sentence(page: Page, text: str) -> Locator:
    return page.locator(".sentence", has_text=text)


def card(page: Page) -> Locator:
    return page.locator(".panel")


def is_phone(page: Page) -> bool:
    return bool(page.viewport_size and page.viewport_size["width"] == PHONE)


def box(element: Locator) -> Any:
    bounds = element.bounding_box()
    assert bounds
    return bounds


def close(page: Page) -> None:
    page.get_by_role("button", name="Close").click()


def select(page: Page, text: str, words: str) -> None:
    page.evaluate(
        """([text, words]) => {
            const root = document.querySelector("attribot-answer").shadowRoot;
            const all = [...root.querySelectorAll(".sentence .words")];
            const node = all.find((one) => one.textContent.includes(text)).firstChild;
            const start = node.data.indexOf(words);
            document.getSelection().setBaseAndExtent(node, start, node, start + words.length);
        }""",
        [text, words],
    )


def test_every_state_has_its_shape_and_its_words(page: Page) -> None:
    shown = [element.get_attribute("class") for element in page.locator(".sentence").all()]
    assert shown == [f"sentence {state}" for _, state, *_ in SENTENCES]
    assert page.locator(".answer .chip").all_inner_texts() == CHIPS
    assert sentence(page, "84").locator(".pill").all_text_contents() == ["1", "2"]
    named = page.get_by_role("button", name="passengers. source 1 or source 2")
    expect(named).to_have_count(1)
    assert sentence(page, "84").locator(".joint").count() == 0
    assert sentence(page, "Bell").locator(".joint").all_text_contents() == [" + "]
    assert page.locator(".answer .value").all_inner_texts() == ["4"]
    decoration = f"{STYLE}.textDecorationStyle"
    assert sentence(page, "dolphins").locator(".words").evaluate(decoration) == "dashed"
    assert sentence(page, "night").locator(".words").evaluate(decoration) == "dotted"
    assert page.locator(".answer .value").evaluate(f"{STYLE}.borderBottomStyle") == "double"
    assert page.locator(".strip i").count() == len(SENTENCES)
    for pill in page.locator(".answer .pill").all():
        assert box(pill)["width"] >= 22 and box(pill)["height"] >= 22
    colours = [pill.evaluate(f"{STYLE}.color") for pill in page.locator(".answer .pill").all()]
    assert len(set(colours)) == 3 and colours[0] == colours[2]  # one for each document
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_sentences_in_part_unsettled_or_with_new_words_have_chips(page: Page) -> None:
    page.evaluate(
        """() => {
            const answer = document.querySelector("attribot-answer");
            const { summary, documents } = answer.data;
            summary.sentences[1].in_part = true;
            Object.assign(summary.sentences[7], { reason: "pending" });
            summary.status = "pending";
            for (const index of [0, 1])
                documents[index] = documents[index].replace(/carries|passengers/g, "xxxxxxxxxx");
            answer.data = answer.data;
        }"""
    )
    chips = {
        "18 crowns": ("document", "in part", "solid"),
        "night": ("checking", "checking…", "dotted"),
        "84": ("document", "in no document: carries, passengers", "dotted"),
    }
    for text, (state, words, border) in chips.items():
        chip = sentence(page, text).locator(".chip")
        expect(chip).to_have_text(words)
        assert chip.evaluate(f"{STYLE}.borderTopStyle") == border
        expect(sentence(page, text)).to_have_class(re.compile(f"sentence {state}"))
        chip.click()
        heading = card(page).locator("h2").first
        expect(heading).to_have_text(
            {
                "18 crowns": f"{BECAUSE.replace('this', 'this only in part')} ferry.txt.",
                "night": "This is still being checked.",
            }.get(text, re.compile(BECAUSE))
        )
        close(page)
    expect(page.locator(".counts")).to_contain_text("Checking sources…")
    page.get_by_role("button", name="1 with words that no document has").click()
    expect(card(page)).to_contain_text("No document has the words: carries, passengers.")


def test_a_remark_in_words_stands_in_place_of_the_values(desktop: Page, show: Show) -> None:
    data, said = receipts(), "The price list says 3 crowns for a bicycle."
    data["summary"]["sentences"][2]["checks"] = [{**CHECK, "message": said}]
    show(desktop, html(data))
    listed = card(desktop).locator(".worklist button").first
    expect(listed).to_contain_text(f"check: {said}")
    expect(listed).to_contain_text("but see the remark")
    listed.click()
    expect(card(desktop).locator(".alert")).to_have_text(said)


def test_the_worklist_names_sentences_to_check_and_the_reasons(page: Page) -> None:
    expect(page.get_by_role("button", name="3 of 9 sentences from the documents")).to_be_visible()
    expect(page.locator(".count.check")).to_have_text("1 to check")
    listed = card(page).locator(".worklist button").all_inner_texts()
    assert [re.split(r"\s*\n\s*", text) for text in listed] == [
        [
            "A bicycle costs 4 crowns.",
            "check: 4 ≠ 3",
            f"{BECAUSE} ferry.txt, but a value differs. {DIFFERS}",
        ],
        [
            "The crossing is famous for its dolphins.",
            "model’s own",
            "No document made the model write this.",
        ],
        [
            "It may sail at night.",
            "undecided",
            "The documents matter here, but no part of them stands out.",
        ],
        [
            "So two adults pay 36 crowns.",
            "from sentence 2",
            f"{BECAUSE} sentence 2 of this answer. Not in the marked text: adults, 36.",
        ],
    ]
    documents = card(page).locator(".entry").all_text_contents()
    assert [" ".join(text.split()) for text in documents] == [
        "1 ferry.txt behind 2 sentences, 1 to check",
        "2 festival.md behind 2 sentences",
        "3 museum.md behind 1 sentence",
        "wildlife.txt behind no sentence",
    ]
    expect(card(page)).to_contain_text("Choose a sentence")
    expect(card(page).locator(".compared")).to_contain_text(COMPARED)
    for text, quoted in (("18 crowns", 1), ("36 crowns", 1), ("dolphins", 0)):
        sentence(page, text).locator(".words").click()
        expect(card(page).locator(".compared", has_text=COMPARED)).to_have_count(quoted)


def test_the_worklist_stands_before_closed_details(page: Page) -> None:
    answer, listed, reading = (
        box(page.locator(name)) for name in (".answer", ".worklist", ".reading")
    )
    below = answer["y"] + answer["height"]
    if not is_phone(page):
        assert reading["y"] - below < 24 and reading["x"] == answer["x"]
        assert box(card(page))["x"] > answer["x"] + answer["width"]
        return
    documents = box(card(page).locator("details"))
    assert below <= listed["y"] < documents["y"] < reading["y"]
    assert listed["y"] - below < 100  # its heading


@pytest.mark.parametrize(
    ("text", "verdict", "level", "quotes"),
    [
        (
            "84 pass",
            f"{BECAUSE} 2 documents; each of them alone would have led the model to it.",
            "decisive",
            [PASSENGERS, PASSENGERS],
        ),
        ("18 crowns", f"{BECAUSE} ferry.txt.", "decisive", [TICKET]),
        ("4 crowns", f"{BECAUSE} ferry.txt, but a value differs.", "strong", [BICYCLE]),
        ("dolphins", "No document made the model write this.", "", []),
        ("36 crowns", f"{BECAUSE} sentence 2 of this answer.", "", ["A ticket costs 18 crowns."]),
        ("Bell", f"{BECAUSE} 2 documents together.", "weak", [BELL, LAMP]),
        ("You asked", f"{BECAUSE} what was said before.", "", []),
        ("night", "The documents matter here, but no part of them stands out.", "", []),
        ("Maren", "The answer ends here, so this was not judged.", "", []),
    ],
)
def test_a_card_gives_verdict_influence_and_quotes(
    desktop: Page, show: Show, text: str, verdict: str, level: str, quotes: list[str]
) -> None:
    show(desktop, html())
    sentence(desktop, text).locator(".words").click()
    expect(card(desktop).locator("h2").first).to_have_text(verdict)
    assert card(desktop).locator("mark").all_inner_texts() == quotes
    influence = card(desktop).locator(".level").all_inner_texts()
    assert [line.split(" (")[0] for line in influence] == (
        [f"Influence on the model: {level}"] * bool(level)
    )
    shown = card(desktop).inner_text() + desktop.locator(".main").inner_text()
    assert not re.search(r"nats|%|✓|●", shown)


def test_words_that_no_cited_text_has_are_named(desktop: Page, show: Show) -> None:
    """They and the bold ones are all that say something; but for those of the question."""
    made = handmade(
        "At Kew they take credit card, says Ada, for 2.50 crowns.",
        ["Kew’s price is 2 crowns.", "Ada has no card."],
        {"Kew’s price is 2 crowns.": (9.0,)},
    )
    show(desktop, html(answer_data(made, question="Who says it?")))
    desktop.locator(".answer .pill").click()
    missing = card(desktop).locator(".missing")
    absent = "No document has the words: take, credit, 2.50."
    expect(missing).to_have_text([absent, "Not in the marked text: card, Ada"])
    assert card(desktop).locator("mark b").all_inner_texts() == ["Kew’s", "crowns"]
    show(desktop, made.to_html(question="Can I pay by credit card at Kew?"))
    desktop.locator(".answer .pill").click()
    absent = "No document has the words: take, says, 2.50."
    expect(missing).to_have_text([absent, "Not in the marked text: Ada"])
    data = receipts()
    data["summary"]["sentences"][0]["sources"] = [1]
    show(desktop, html(data))
    sentence(desktop, "84 pass").locator(".pill").first.click()
    beside = "Not in the marked text, but beside it: ferry carries, 84 passengers"
    expect(missing).to_have_text(beside)
    for text in ("18 crowns", "4 crowns", "dolphins"):
        sentence(desktop, text).locator(".words").click()
        expect(missing).to_have_count(0)


def test_words_that_no_document_has_are_no_check(desktop: Page, show: Show) -> None:
    pay = "You can pay by credit card at the harbour office."
    free = "So entry is free, with fireworks at midnight."
    sold = "The harbour office sells the ticket each morning."
    answer = " ".join((pay, free, sold))
    source = "Tickets are sold at the harbour office."
    grounded = {"kind": "grounded", "source_ids": (0,)}
    verdicts = verdicts_of(answer, grounded, {"kind": "follows", "follows": 0}, grounded)
    documents = [f"{source} The Entry fee is low.", "Office hours sell out each morning."]
    made = handmade(answer, documents, {source: (9.0, 0.0, 8.0)}, verdicts=verdicts)
    show(desktop, html(answer_data(made, question="How do I pay?")))
    chips = desktop.locator(".answer .chip")
    words = ["credit, card", "free, fireworks, midnight"]
    assert chips.all_inner_texts() == [f"in no document: {some}" for some in words]
    for chip in chips.all():
        assert chip.evaluate(f"{STYLE}.borderTopStyle") == "dotted"
        assert chip.evaluate(f"{STYLE}.color") == desktop.locator(".counts").evaluate(
            f"{STYLE}.color"
        )
    expect(desktop.locator(".counts")).not_to_contain_text("to check")
    listed = card(desktop).locator(".worklist small")
    assert listed.all_inner_texts() == [
        f"{BECAUSE} sentence 1 of this answer. No document has the words: {words[1]}."
        " Not in the marked text: entry.",
        f"{BECAUSE} document 1. No document has the words: {words[0]}.",
    ]
    for text, remark in zip((free, pay), listed.all_inner_texts(), strict=True):
        sentence(desktop, text).locator(".words").hover()
        expect(desktop.locator(".peek p")).to_have_text(remark)
    expect(sentence(desktop, pay)).to_have_class(re.compile("sentence document"))
    sentence(desktop, pay).locator(".chip").click()
    missing = card(desktop).locator(".missing")
    expect(missing).to_have_text(f"No document has the words: {words[0]}.")
    close(desktop)
    desktop.get_by_role("button", name="2 with words that no document has").click()
    expect(missing).to_have_text(f"No document has the words: {words[0]}.")
    close(desktop)
    sentence(desktop, sold).locator(".words").hover()
    expect(desktop.locator(".peek p")).to_have_text(
        f"{BECAUSE} document 1. Not in the marked text: sells, each morning."
    )
    show(desktop, html(summarize(made)))  # whose documents' texts are not known
    assert chips.all_inner_texts() == ["from sentence 1"]


def test_a_card_is_no_approval(window: Page, show: Show) -> None:
    """Only a name that no document has is reported; one that the quote has of another is not."""
    owns, made_by = "Anna Berg owns plot 14.", "The gate was designed by Karl Holm."
    hours = "The office is open from Monday to Friday in the morning."
    answer = (
        "The gate was designed by Anna Berg. The office is open from Monday to Saturday morning."
    )
    cited = ({"source_ids": (0, 1)}, {"source_ids": (2,)})
    fields = ({"kind": "grounded", "effect": 9.0, **sources} for sources in cited)
    verdicts = verdicts_of(answer, *fields)
    made = handmade(
        answer,
        [f"{owns} {made_by} {hours}"],
        {owns: (9.0,), made_by: (9.0,), hours: (0.0, 9.0)},
        verdicts=verdicts,
    )
    show(window, html(answer_data(made)))
    expect(sentence(window, "Saturday").locator(".chip")).to_have_text("in no document: Saturday")
    expect(card(window).locator(".worklist button")).to_have_count(1)
    sentence(window, "Anna").locator(".pill").click()
    expect(card(window).locator("mark").first).to_be_in_viewport(ratio=1)
    compared = card(window).locator(".compared")
    expect(compared).to_contain_text(COMPARED)
    expect(compared).to_be_in_viewport(ratio=1)
    assert box(compared)["y"] < box(card(window).locator("blockquote"))["y"]
    ink = card(window).evaluate(f"{STYLE}.color")
    assert compared.evaluate(f"{STYLE}.color") == ink


def test_words_of_no_document_come_last_in_the_worklist(desktop: Page, show: Show) -> None:
    data = receipts()
    for index in ("0", "1"):
        text = data["documents"][index]
        data["documents"][index] = re.sub("carries|passengers", "x", text)
    desktop.set_viewport_size({"width": PHONE, "height": 740})
    show(desktop, html(data))
    chips = card(desktop).locator(".worklist .chip")
    assert chips.all_inner_texts() == [
        *("check: 4 ≠ 3", "model’s own", "undecided", "from sentence 2"),
        "in no document: carries, passengers",
    ]
    for item in card(desktop).locator(".worklist button").all():
        chip, around = box(item.locator(".chip")), box(item)
        assert chip["x"] + chip["width"] <= around["x"] + around["width"]


def test_an_earlier_sentence_is_quoted_and_leads_on(page: Page) -> None:
    sentence(page, "36 crowns").locator(".chip").click()
    missing = ["Not in the marked text: adults, 36"]
    expect(card(page).locator(".missing")).to_have_text(missing)
    card(page).get_by_role("button", name="Go to sentence 2", exact=True).click()
    expect(sentence(page, "18 crowns")).to_have_attribute("aria-expanded", "true")


def test_a_click_on_a_number_shows_its_quote_and_stays(page: Page) -> None:
    chosen = sentence(page, "Bell and lamp")
    chosen.locator(".pill").nth(1).click()
    lit = card(page).locator(".document.chosen mark")
    expect(lit).to_have_text(LAMP)
    expect(lit).to_be_in_viewport(ratio=1)
    expect(chosen).to_have_attribute("aria-expanded", "true")
    expect(chosen).to_be_focused()
    if not is_phone(page):
        sentence(page, "18 crowns").locator(".words").hover()
        expect(page.locator(".peek")).to_be_visible()
    expect(card(page).locator("h2").first).to_contain_text("2 documents together")
    expect(lit).to_be_in_viewport(ratio=1)
    expect(chosen).to_be_in_viewport()
    if is_phone(page):
        sheet = box(card(page))
        assert card(page).evaluate(f"{STYLE}.overscrollBehaviorY") == "contain"
        assert sheet["height"] <= 0.56 * 740 + 1 and sheet["y"] + sheet["height"] == 740
        top = box(chosen.locator(".words"))
        assert top["y"] >= 0 and top["y"] + top["height"] <= sheet["y"]
        for button in card(page).get_by_role("button").all():
            assert box(button)["height"] >= 44, button.inner_text()
    sentence(page, "84 pass").locator(".pill").nth(0).scroll_into_view_if_needed()
    close(page)
    expect(chosen).to_have_attribute("aria-expanded", "false")


def test_the_strongest_source_comes_first_below_the_verdict(page: Page) -> None:
    page.evaluate(
        """() => {
            const answer = document.querySelector("attribot-answer");
            answer.data.evidence[5].find((row) => row.source === 4).score = 9;
            answer.data = answer.data;
        }"""
    )
    sentence(page, "Bell").locator(".words").click()
    assert card(page).locator("mark").all_inner_texts() == [LAMP, BELL]
    assert card(page).locator("h3 small").all_inner_texts() == ["page 4"]
    expect(card(page).locator("h2").first).to_be_in_viewport(ratio=1)
    expect(card(page).locator("mark").first).to_be_in_viewport(ratio=1)


def test_the_number_that_differs_stands_beside_its_source(page: Page) -> None:
    sentence(page, "4 crowns").locator(".chip").click()
    expect(card(page).locator(".alert")).to_have_text(DIFFERS)
    expect(card(page).locator("mark .value")).to_have_text("3")
    assert card(page).locator("mark b").all_inner_texts() == ["bicycle", "costs", "crowns"]
    expect(card(page).locator("blockquote")).to_contain_text(f"for children. {BICYCLE} Dogs")
    expect(card(page).locator("small")).to_have_text("Tickets")


def test_a_pointer_that_rests_shows_a_small_card(desktop: Page, show: Show) -> None:
    data = receipts()
    data["evidence"][5][0]["score"] = 1.1
    desktop.clock.install(time=0)
    show(desktop, html(data))
    desktop.clock.pause_at(3_600_000)
    words, peek = sentence(desktop, "Bell").locator(".words"), desktop.locator(".peek")
    words.hover()
    desktop.clock.run_for(200)
    expect(peek).to_be_hidden()
    desktop.clock.run_for(100)
    expect(peek).to_contain_text("2 documents together")
    assert peek.locator("mark").all_inner_texts() == [LAMP, BELL]  # most effect first
    assert box(peek)["y"] >= box(words)["y"] + box(words)["height"]
    assert box(peek)["x"] + box(peek)["width"] <= box(card(desktop))["x"]
    expect(card(desktop).locator("h2").first).to_have_text("Look at these")
    desktop.mouse.move(1, 700)
    expect(peek).to_be_hidden()
    sentence(desktop, "84 pass").locator(".words").hover()
    desktop.mouse.move(1, 700)
    desktop.clock.run_for(1000)
    expect(peek).to_be_hidden()


def test_a_quote_outlines_the_sentences_that_it_caused(desktop: Page, show: Show) -> None:
    data = receipts()
    data["summary"]["sentences"][4]["sources"] = [1]
    show(desktop, html(data))
    sentence(desktop, "18 crowns").locator(".words").click()
    card(desktop).locator("blockquote").hover()
    assert desktop.locator(".caused .words").all_inner_texts() == [
        "A ticket costs 18 crowns.",
        "So two adults pay 36 crowns.",
    ]
    card(desktop).get_by_role("button", name="sentence 5").click()
    expect(sentence(desktop, "36 crowns")).to_have_attribute("aria-expanded", "true")


def test_counts_and_arrows_lead_through_the_sentences(page: Page) -> None:
    page.get_by_role("button", name="3 of 9").click()
    expect(card(page)).to_contain_text("Sentence 1 of 9")
    page.get_by_role("button", name="3 of 9").click()
    expect(card(page)).to_contain_text("Sentence 2 of 9")
    page.get_by_role("button", name="Next sentence").click()
    expect(sentence(page, "4 crowns")).to_have_attribute("aria-expanded", "true")
    previous = page.get_by_role("button", name="Previous sentence")
    for _ in range(2):
        previous.click()
    expect(previous).to_have_attribute("aria-disabled", "true")
    previous.dispatch_event("click")
    expect(card(page)).to_contain_text("Sentence 1 of 9")
    segment = page.locator(".strip i").nth(8)
    assert segment.get_attribute("title") == "Sentence 9: stopped here"
    segment.click()
    expect(sentence(page, "Maren")).to_have_attribute("aria-expanded", "true")
    expect(sentence(page, "Maren")).to_be_in_viewport()
    expect(page.get_by_role("button", name="Next sentence")).to_have_attribute(
        "aria-disabled", "true"
    )


def test_every_place_between_two_lines_belongs_to_a_sentence(page: Page) -> None:
    gaps = page.evaluate(
        """() => {
            const root = document.querySelector("attribot-answer").shadowRoot;
            const rects = [...root.querySelectorAll(".sentence .words")].flatMap(
                (one) => [...one.getClientRects()]);
            const x = Math.min(...rects.map(({ left }) => left)) + 4;
            const [top, bottom] = [rects[0].top, Math.max(...rects.map((rect) => rect.bottom))];
            const gaps = [];
            for (let y = top; y < bottom; y++)
                if (!root.elementFromPoint(x, y)?.closest(".sentence")) gaps.push(y);
            return gaps;
        }"""
    )
    assert gaps == []


def test_targets_are_large_and_a_tapped_sentence_stays_visible(page: Page) -> None:
    if not is_phone(page):
        pytest.skip("no fingers")
    page.locator("summary", has_text="4 documents").click()
    targets = page.locator("button:visible, summary:visible, a:visible").all()
    assert len(targets) > 10
    for target in targets:
        assert round(box(target)["height"]) >= 44, target.inner_text()
    for chosen in page.locator(".sentence").all():
        chosen.locator(".words").tap()
        sheet, words = box(card(page)), box(chosen.locator(".words"))
        assert sheet["height"] <= 0.56 * 740 + 1
        assert words["y"] >= 0 and words["y"] + words["height"] <= sheet["y"]
        for target in card(page).locator("button:visible, summary:visible, a:visible").all():
            assert round(box(target)["height"]) >= 44, target.inner_text()
        close(page)


def test_later_verdicts_leave_an_open_card_open(window: Page, show: Show) -> None:
    """Whether the page sets new data, or makes the element anew."""
    page, data = window, receipts()
    for later in data["summary"]["sentences"][2:]:
        later |= {"verdict": "open", "reason": "pending", "checks": []}
    data["summary"]["status"] = "pending"
    show(page, html(data))
    expect(page.locator(".sentence.checking")).to_have_count(7)
    expect(page.locator(".counts")).to_contain_text("Checking sources…")
    checking = sentence(page, "night").locator(".chip")
    expect(checking).to_have_text("checking…")
    assert checking.evaluate(f"{STYLE}.borderTopStyle") == "dotted"
    checking.click()
    expect(card(page).locator("h2").first).to_have_text("This is still being checked.")
    close(page)
    chosen = sentence(page, "18 crowns")
    chosen.locator(".pill").click()
    set_data = "data => { document.querySelector('attribot-answer').data = data }"
    make_anew = """data => {
        const answer = document.createElement("attribot-answer");
        answer.setAttribute("data", JSON.stringify(data));
        document.querySelector("attribot-answer").replaceWith(answer);
    }"""
    data["summary"]["sentences"][2] = receipts()["summary"]["sentences"][2]
    page.evaluate(set_data, data)
    expect(page.locator(".sentence.checking")).to_have_count(6)
    expect(chosen).to_be_focused()
    page.evaluate(make_anew, receipts())
    expect(page.locator(".sentence.checking")).to_have_count(0)
    expect(chosen).to_have_attribute("aria-expanded", "true")
    expect(card(page).locator("mark")).to_have_text(TICKET)
    expect(page.locator(".counts")).not_to_contain_text("Checking sources")
    page.evaluate(set_data, {**receipts(), "answer": f"No. {ANSWER}"})
    page.evaluate(set_data, {"summary": without_attribution("pending"), "answer": "Well"})
    expect(page.locator(".frame.open")).to_have_count(0)


def test_a_sheet_is_swiped(page: Page) -> None:
    if not is_phone(page):
        pytest.skip("no sheet")
    sentence(page, "18 crowns").locator(".pill").click()
    swipe = """(panel, [from, to]) => {
        const at = (x) => [new Touch({ identifier: 1, target: panel, clientX: x, clientY: 500 })];
        panel.dispatchEvent(new TouchEvent("touchstart", { touches: at(from) }));
        panel.dispatchEvent(new TouchEvent("touchend", { changedTouches: at(to) }));
    }"""
    card(page).evaluate(swipe, [300, 100])
    expect(card(page)).to_contain_text("Sentence 3 of 9")
    words = box(sentence(page, "4 crowns").locator(".words"))
    assert words["y"] >= 0 and words["y"] + words["height"] <= box(card(page))["y"]
    card(page).evaluate(swipe, [100, 110])
    card(page).evaluate(swipe, [100, 300])
    expect(card(page)).to_contain_text("Sentence 2 of 9")


def test_everything_can_be_done_by_keyboard(page: Page) -> None:
    status = page.locator("[role=status]")
    expect(status).to_contain_text("3 of 9 sentences from the documents 1 to check")
    chosen = sentence(page, "18 crowns")
    for _ in range(20):
        page.keyboard.press("Tab")
        if chosen.evaluate("one => one.matches(':focus')"):
            break
    expect(chosen).to_be_focused()
    if not is_phone(page):
        expect(page.locator(".peek")).to_contain_text(f"{BECAUSE} ferry.txt.")
    page.keyboard.press("Enter")
    expect(chosen).to_have_attribute("aria-expanded", "true")
    expect(status).to_have_text(f"Sentence 2. {BECAUSE} ferry.txt.")
    page.keyboard.press("ArrowRight")
    expect(sentence(page, "4 crowns")).to_be_focused()
    expect(status).to_contain_text(DIFFERS)
    assert page.locator("[role=status], [aria-live]").count() == 1
    page.keyboard.press("Escape")
    expect(sentence(page, "4 crowns")).to_be_focused()
    expect(page.locator("[aria-expanded=true]")).to_have_count(0)
    expect(page.locator(".peek")).to_be_hidden()
    page.keyboard.press("ArrowLeft")
    expect(chosen).to_be_focused()
    page.keyboard.press("Enter")
    following = page.get_by_role("button", name="Next sentence")
    following.focus()
    page.keyboard.press("Enter")
    expect(card(page)).to_contain_text("Sentence 3 of 9")
    expect(following).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # Close
    expect(sentence(page, "4 crowns")).to_be_focused()
    expect(page.locator(".peek")).to_be_hidden()
    page.locator("summary", has_text="How to read this").focus()
    page.keyboard.press("Enter")
    legend = page.locator(".legend").first
    expect(legend).to_contain_text("For every kind of sentence: that is no proof that it is right.")
    expect(legend).to_contain_text("Each bar above the answer is a sentence")
    assert not re.search("Method|token", legend.inner_text())
    expect(page.locator(".about")).to_contain_text("Method:")


def test_selected_words_narrow_the_card(page: Page) -> None:
    heading = card(page).locator("h2").first
    select(page, "18 crowns", "A tick")
    expect(heading).to_have_text("Behind “A ticket”")
    assert card(page).locator("mark").all_inner_texts() == [TICKET]
    expect(card(page).locator(".level")).to_contain_text("Influence on the model: decisive")
    card(page).locator("summary", has_text="For experts").click()
    expect(card(page).locator("table")).to_be_visible()
    select(page, "18 crowns", "crowns")
    expect(heading).to_have_text("No document has a measurable influence on “crowns” alone.")
    page.keyboard.press("Escape")
    chosen = """() => document.getSelection().getComposedRanges(
        { shadowRoots: [document.querySelector("attribot-answer").shadowRoot] })
        .some((range) => !range.collapsed)"""
    expect(page.locator(".frame.open")).to_have_count(0)
    assert not page.evaluate(chosen)
    select(page, "Bell and lamp", "and")  # says nothing on its own
    assert page.evaluate(chosen)
    expect(page.locator(".frame.open")).to_have_count(0)
    select(page, "18 crowns", "A ticket")
    close(page)
    expect(page.locator(".frame.open")).to_have_count(0)
    assert not page.evaluate(chosen)


@pytest.mark.parametrize(
    ("first", "words"),
    [("84", "The ferry carries up to 84 passengers. A ticket costs 18"), ("18", "A ticket costs")],
)
def test_words_are_selected_by_mouse_and_nothing_is_pinned(
    desktop: Page, show: Show, first: str, words: str
) -> None:
    show(desktop, html())
    select(desktop, "Bell and lamp", "Bell")  # whose place the other selection takes
    expect(card(desktop).locator("h2").first).to_contain_text("“Bell”")
    start, end = (box(sentence(desktop, text).locator(".words")) for text in (first, "18 crowns"))
    desktop.mouse.move(start["x"] + 1, start["y"] + 8)
    desktop.mouse.down()
    desktop.mouse.move(end["x"] + (150 if first == "84" else 90), end["y"] + 12, steps=5)
    desktop.mouse.up()
    expect(card(desktop).locator("h2").first).to_have_text(f"Behind “{words}”")
    assert desktop.locator("[aria-expanded=true]").count() == 0


def test_experts_see_nats_on_one_scale_and_nothing_below_the_noise(
    window: Page, show: Show
) -> None:
    page, data = window, receipts()
    data["evidence"][2][1]["exact"] = False
    data["evidence"][2].append({"source": 99, "score": -1.7, "exact": True, "tokens": []})
    data["quotes"]["99"] = [[0, 0, 7]]  # a heading
    data["summary"]["notes"] = ["Two sources were not scored."]
    show(page, html(data))
    sentence(page, "4 crowns").locator(".pill").click()
    card(page).locator("summary", has_text="For experts").click()
    experts = card(page).locator(".experts")
    meters = experts.locator("meter")
    about = page.locator(".about")
    about.locator("summary").click()
    expect(about.get_by_text("Two sources were not scored.")).to_be_visible()
    expect(experts).to_contain_text("Cited sources: 7.1 nats, exact.")
    expect(experts).to_contain_text("All documents: 8.0 nats.")
    bars = [(meter.get_attribute("value"), meter.get_attribute("max")) for meter in meters.all()]
    assert bars == [("7.1", "20"), ("1.5", "20")]
    scores = experts.locator("td:first-child").all_text_contents()
    assert scores == ["7.1", "−1.5 (approximate)"]
    close(page)
    sentence(page, "dolphins").locator(".chip").click()
    card(page).locator("summary", has_text="For experts").click()
    expect(experts).to_contain_text("Strongest source: 0.5 nats, within the noise (below 1).")
    expect(meters).to_have_count(0)


@pytest.mark.parametrize(
    ("kept", "level"), [(0.95, "decisive"), (0.7, "strong"), (0.6, "strong"), (0.2, "weak")]
)
def test_the_kept_share_bounds_the_level_and_a_low_one_means_in_part(
    desktop: Page, show: Show, kept: float, level: str
) -> None:
    data = receipts()
    data["summary"]["sentences"][1] |= {"kept": kept, "in_part": kept < 0.7}
    show(desktop, html(data))
    chip = sentence(desktop, "18 crowns").locator(".chip", has_text="in part")
    expect(chip).to_have_count(int(kept < 0.7))
    if kept < 0.7:
        assert chip.evaluate(f"{STYLE}.borderTopStyle") == "solid"
    sentence(desktop, "18 crowns").locator(".pill").click()
    expect(card(desktop).locator("h2", has_text="only in part")).to_have_count(int(kept < 0.7))
    expect(card(desktop).locator(".level b")).to_have_text(level)
    card(desktop).locator("summary", has_text="For experts").click()
    expect(card(desktop).locator(".experts")).to_contain_text(
        f"With only the cited text, {kept:.0%} of the effect".replace("%", " %")
    )


def test_another_answer_is_shown_as_a_difference(page: Page) -> None:
    page.evaluate(
        """() => document.addEventListener("attribot-without", ({ detail }) => {
            window.asked = [detail.document, detail.number, detail.name];
            detail.respond(window.asked[0] ? Promise.reject(new Error("no model")) :
                window.other);
        })"""
    )
    page.evaluate("other => { window.other = other }", ANSWER.replace("18 crowns", "20 crowns"))
    sentence(page, "18 crowns").locator(".pill").click()
    card(page).get_by_role("button", name="Answer without ferry.txt").click()
    without = card(page).locator(".without")
    expect(without.locator("del")).to_have_text("18")
    expect(without.locator("ins")).to_have_text("20")
    assert page.evaluate("window.asked") == [0, 1, "ferry.txt"]
    close(page)
    sentence(page, "Bell").locator(".pill").first.click()
    card(page).get_by_role("button", name="Answer without festival.md").click()
    expect(without).to_have_text("There is no other answer: no model")
    page.evaluate(  # the next question's
        "document.body.append(document.createElement('attribot-answer'))"
    )
    expect(without).to_have_count(0)
    expect(page.locator(".frame.open")).to_have_count(0)


def test_a_document_is_opened_at_the_cited_place(window: Page, desktop: Page, show: Show) -> None:
    page, data = window, receipts()
    data["documents"]["0"] = data["documents"]["0"] + "\n\nNo fishing." * 99
    show(page, html(data))
    assert page.get_by_role("button", name="Answer without").count() == 0
    sentence(page, "18 crowns").locator(".pill").click()
    opener = card(page).get_by_role("button", name="Open at this place")
    opener.click()
    whole = card(page).get_by_role("region", name="ferry.txt")
    expect(whole).to_be_focused()
    expect(whole.locator("mark")).to_have_text(TICKET)
    expect(whole.locator("mark")).to_be_in_viewport(ratio=1)
    assert box(whole.locator("mark"))["y"] < box(card(page))["y"] + 120
    assert card(page).locator(".quotes").count() == 0
    before = card(page).evaluate("one => one.scrollTop")  # the only thing that scrolls
    page.keyboard.press("PageDown")
    page.wait_for_function(
        """top => document.querySelector("attribot-answer").shadowRoot
            .querySelector(".panel").scrollTop > top + 100""",
        arg=before,
    )
    card(page).get_by_role("button", name="Back to the passages").click()
    expect(opener).to_be_focused()
    expect(card(page).locator("blockquote")).to_contain_text(TICKET)
    opener.click()
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()
    show(desktop, html(open_at="https://files.example/{sentence}/{number}/{index}"))
    sentence(desktop, "Bell").locator(".pill").first.click()
    link = card(desktop).get_by_role("link", name="Open at this place").first
    assert link.get_attribute("href") == "https://files.example/5/2/1"
    show(desktop, html(open_at="javascript:alert({number})"))
    sentence(desktop, "Bell").locator(".pill").first.click()
    assert card(desktop).locator("a").count() == 0


def test_a_document_is_opened_from_the_list(window: Page, show: Show) -> None:
    page, data = window, receipts()
    data["documents"]["1"] += "\n\n## Food\n\nThere is none."
    show(page, html(data))
    listed = card(page).locator("details", has_text="4 documents")
    if is_phone(page):
        listed.locator("summary").click()
    listed.get_by_role("button", name="festival.md").click()
    whole = card(page).get_by_role("region", name="festival.md")
    assert whole.locator("mark").all_inner_texts() == [PASSENGERS, BELL]
    assert whole.inner_text().endswith("\n\nFood\n\nThere is none.")
    expect(card(page).locator(".metadata")).to_have_text("page_label: 4")
    card(page).get_by_role("button", name="Back to the documents").click()
    expect(listed.get_by_role("button", name="festival.md")).to_be_focused()
    sentence(page, "18 crowns").locator(".pill").click()
    close(page)
    expect(listed.get_by_role("button", name="festival.md")).to_be_visible()


def test_every_quote_is_found_in_a_page(window: Page, show: Show) -> None:
    show(window, ATTRIBUTION.to_html(question=QUESTION))
    for quote in (PASSENGERS, TICKET, BICYCLE, BELL, LAMP):
        look_up(window.locator("attribot-answer"), quote)


def test_a_summary_alone_is_enough(window: Page, show: Show) -> None:
    summary = summarize(ATTRIBUTION)
    show(window, html(summary))
    sentence(window, "18 crowns").locator(".pill").click()
    assert card(window).locator("mark").all_inner_texts() == [TICKET]
    expect(card(window).locator(".level b")).to_have_text("decisive")


def test_an_answer_made_of_earlier_answers_cites_their_documents(desktop: Page, show: Show) -> None:
    grounded = {"kind": "grounded", "source_ids": (0, 2), "effect": 9.0, "kept": 1.0}
    verdicts = verdicts_of(BOTH, grounded, {"kind": "unsupported"})
    last = composed((9.0, 0.0), (0.0, 0.0), (8.0, 0.0), verdicts=verdicts)
    whole = run("whole", last, earlier=EARLIER_RUNS)
    show(desktop, html(whole.summary))
    expect(desktop.locator(".counts")).to_contain_text("Made from earlier answers")
    chosen = sentence(desktop, "The tower is high")
    assert chosen.locator(".pill").all_text_contents() == ["1", "2"]
    expect(sentence(desktop, "Both").locator(".chip")).to_have_text("model’s own")
    chosen.locator(".pill").last.click()
    assert card(desktop).locator("mark").all_inner_texts() == [HIGH, CARRIES]
    expect(card(desktop).locator(".document.chosen h3")).to_have_text("2 ferry")
    assert card(desktop).locator("h3 .pill").all_text_contents() == ["1", "2"]
    close(desktop)
    listed = card(desktop).locator(".entry .pill").all_text_contents()
    assert listed == re.findall(r"\[(\d)\]", whole.to_cited_text())
    chosen.locator(".pill").last.click()
    # The effect was measured on the earlier answers, not on the documents.
    expect(card(desktop).locator(".level")).to_have_count(0)
    expect(card(desktop).locator(".experts")).not_to_contain_text("9.0")


def test_answers_end_to_end_have_their_own_sources(desktop: Page, show: Show) -> None:
    show(desktop, html(end_to_end().summary))
    around = desktop.locator(".answer").first.evaluate("one => one.textContent")
    assert around == "Response 1: \nResponse 2: "
    assert desktop.locator(".sentence .words").all_inner_texts() == [CARRIES, HIGH, WHITE]
    look_up(desktop.locator("attribot-answer attribot-answer").first, CARRIES)
    numbers = re.findall(r"\[(\d)\]", end_to_end().to_cited_text())
    assert desktop.locator(".sentence .pill").all_text_contents() == numbers == ["1", "2", "2"]
    assert desktop.locator("h3 .pill").all_text_contents() == ["1"]
    assert desktop.locator(".entry .pill").all_text_contents() == ["2"]
    sentence(desktop, WHITE).locator(".pill").click()
    expect(card(desktop).last.locator("mark")).to_have_text(WHITE)


@pytest.mark.parametrize("origin", ["instructions", "question"])
def test_the_part_of_the_prompt_is_named(desktop: Page, show: Show, origin: PromptPart) -> None:
    verdict = Verdict(
        start=0, end=len(TICKET), kind="conversation", origin=origin, effect=9.0, reliance=0.5
    )
    result = handmade(TICKET, [LAMP], {LAMP: (0.1,)}, verdicts=(verdict,))
    show(desktop, result.to_html())
    expect(desktop.locator(".sentence .chip")).to_have_text(f"from the {origin}")
    expect(desktop.locator(".counts")).to_contain_text(f"1 from the {origin}")
    desktop.locator(".sentence").click()
    expect(desktop.locator(".panel h2")).to_contain_text(BECAUSE)
    expect(desktop.locator(".panel")).not_to_contain_text("Cited sources")


def test_an_answer_is_shown_before_and_without_an_attribution(desktop: Page, show: Show) -> None:
    show(desktop, html({"summary": without_attribution("pending"), "answer": "It is"}))
    expect(desktop.locator(".answer")).to_have_text("It is")
    expect(desktop.locator(".counts")).to_have_text("Checking sources…")
    desktop.evaluate(
        "data => { document.querySelector('attribot-answer').data = data }",
        {"summary": without_attribution("error", error=ValueError("no model")), "answer": "It."},
    )
    expect(desktop.locator(".counts")).to_have_text("The sources could not be checked: no model")
    desktop.evaluate(
        """data => {
            const answer = document.querySelector("attribot-answer");
            answer.setAttribute("stopped", "");
            answer.setAttribute("data", data);
        }""",
        json.dumps({**receipts(), "answer": ANSWER}),
    )
    expect(sentence(desktop, "Maren")).to_contain_text("stopped here")
    show(desktop, ISLAND.to_html(answer=False))
    expect(desktop.locator(".answer")).to_be_hidden()
    desktop.locator(".count").first.click()
    expect(card(desktop).locator(".said")).to_have_text("The ferry carries 84 people.")


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible(
    new_page: Callable[..., Page], show: Show, scheme: str, width: int
) -> None:
    page = new_page(
        color_scheme=scheme,
        viewport={"width": width, "height": 740},
        reduced_motion="reduce",
        bypass_csp=True,
    )
    show(page, html(answers_without=True))
    page.locator("summary", has_text="How to read this").click()
    assert_accessible(page)
    keep(page, f"answer_{scheme}_{width}.png", full_page=True)
    for text in ("4 crowns", "Bell", "dolphins"):
        sentence(page, text).locator(".pill, .chip").first.click()
        card(page).locator("summary", has_text="For experts").click()
        assert_accessible(page)
        close(page)
    card(page).locator("button.entry", has_text="ferry.txt").dispatch_event("click")
    assert_accessible(page)
    page.keyboard.press("Escape")
    select(page, "18 crowns", "A ticket")
    expect(card(page).locator("h2").first).to_contain_text("Behind")
    assert_accessible(page)
    page.set_content(NOTEBOOK + ISLAND._repr_html_())
    sentence(page, "A ticket").locator(".pill").click()
    assert_accessible(page)


LIGHT = ("rgb(255, 255, 255)", "rgb(27, 29, 34)")
DARK = ("rgb(21, 23, 28)", "rgb(240, 241, 244)")


@pytest.mark.parametrize(
    ("theme", "system", "colours"), [("dark", "light", DARK), ("light", "dark", LIGHT)]
)
def test_a_theme_is_forced(
    new_page: Callable[..., Page], show: Show, theme: str, system: str, colours: tuple[str, str]
) -> None:
    page = new_page(color_scheme=system, bypass_csp=True)
    show(page, html(theme=theme))
    element = page.locator("attribot-answer")
    for name, colour in zip(("backgroundColor", "color"), colours, strict=True):
        assert element.evaluate(f"{STYLE}.{name}") == colour
    assert_accessible(page)
    element.evaluate("one => one.style.setProperty('--attribot-paper', 'rgb(1, 2, 3)')")
    assert element.evaluate(f"{STYLE}.backgroundColor") == "rgb(1, 2, 3)"


@pytest.mark.parametrize(
    "texts",
    [HTML[:30], *(pytest.param(more, marks=pytest.mark.long) for more in (HTML[30:], HOSTILE))],
    ids=["html", "more html", "other texts"],
)
def test_hostile_texts_are_shown_and_run_nothing(
    desktop: Page, show: Show, texts: tuple[str, ...]
) -> None:
    for text in texts:
        document = Document(f"{PASSENGERS} {text}", text, {"title": text, "section": text})
        made = handmade(f"{text} is it.", [document], {PASSENGERS: (3.0,), text: (2.0,)})
        show(desktop, made.to_html(question=text))
        data = json.dumps({"value": text, "source_value": text, "start": 0, "end": 3, "kind": text})
        desktop.evaluate(
            """check => {
                const answer = document.querySelector("attribot-answer");
                const data = JSON.parse(answer.getAttribute("data"));
                data.summary.notes = [check.value];
                data.summary.sentences[0].checks = [check, { ...check, message: check.value }];
                answer.data = data;
                answer.shadowRoot.querySelectorAll("details").forEach((one) => { one.open = true });
                answer.shadowRoot.querySelector("button.entry")?.click();
                const sentence = answer.shadowRoot.querySelector(".sentence");
                sentence?.focus();
                sentence?.click();
                answer.shadowRoot.querySelectorAll("details").forEach((one) => { one.open = true });
            }""",
            json.loads(data),
        )
        allowed = "main, attribot-answer, p, ol, li, q, br, script"
        assert desktop.locator("body *").count() <= desktop.locator(allowed).count() + 400
        assert (
            desktop.locator("attribot-answer").evaluate(
                "one => one.shadowRoot.querySelectorAll('script, img, iframe, style').length"
            )
            == 0
        )
        desktop.goto("about:blank")
        desktop.set_content(made.to_html(question=text, page=False))  # without a page's policy
        desktop.evaluate(
            """() => document.querySelector("attribot-answer").shadowRoot
                .querySelector(".sentence")?.click()"""
        )


def test_addresses_run_nothing(desktop: Page, show: Show) -> None:
    for url in ADDRESSES:
        document = Document("One.", "a", {"url": url, "source": url, "link": url})
        show(desktop, handmade("One.", [document], {"One.": (3.0,)}).to_html())
        desktop.locator(".answer .pill").click()
        for link in card(desktop).locator("a").all():
            assert (link.get_attribute("href") or "").startswith("https://evil.example/")


def test_characters_that_browsers_count_otherwise(desktop: Page, show: Show) -> None:
    """Emoji are two for a browser, control characters are shown by several."""
    ships = "\U0001f6a2\U0001f6a2 ships \u202e carry 84 people."
    data = receipts(answer=f"\U0001f6a2 {ANSWER}")
    for entry in data["summary"]["sentences"]:
        entry["start"], entry["end"] = entry["start"] + 2, entry["end"] + 2
    check = data["summary"]["sentences"][2]["checks"][0]
    check["start"], check["end"] = check["start"] + 2, check["end"] + 2
    show(desktop, html(data))
    expect(desktop.locator(".answer .value")).to_have_text("4")
    made = handmade(ships, [f"\U0001f6a2 {ships}"], {ships: (3.0,)})
    show(desktop, made.to_html())
    expect(desktop.locator(".answer")).to_contain_text("ships <U+202E> carry")
    select(desktop, "ships", "\U0001f6a2\U0001f6a2 sh")
    expect(card(desktop).locator("mark")).to_contain_text("ships <U+202E> carry 84 people.")


def test_text_from_right_to_left(desktop: Page, show: Show) -> None:
    arabic = "ترتفع المنارة ثمانية وثلاثين مترا."
    show(desktop, handmade(arabic, [arabic], {arabic: (3.0,)}).to_html())
    desktop.locator(".answer .pill").click()
    for where in (".answer", "blockquote"):
        assert desktop.locator(where).first.evaluate(f"{STYLE}.direction") == "rtl"


def test_forty_sentences_and_two_hundred_sources(desktop: Page, show: Show) -> None:
    texts = [f"House number {number} on Mill Lane has a blue door." for number in range(200)]
    answer = " ".join(f"House {number} has a door that is blue." for number in range(40))
    scores = {
        text: tuple(9.0 if i == j else 1.0 + i / 200 for j in range(40))
        for i, text in enumerate(texts)
    }
    page = handmade(answer, texts, scores).to_html()
    documents = len(json.dumps({str(index): text for index, text in enumerate(texts)}))
    assert len(page.encode()) - documents <= 300_000
    show(desktop, page)
    assert desktop.locator(".sentence").count() == 40
    for number in (0, 7, 39):
        desktop.locator(".sentence .pill").nth(number).hover()
        desktop.locator(".sentence .pill").nth(number).click()
        expect(card(desktop).locator("mark").first).to_have_text(texts[number])
    select(desktop, "House 7 ", "House 7 ")
    expect(card(desktop).locator("h2").first).to_contain_text("Behind")


def test_in_a_narrow_place_the_card_follows_its_sentence(desktop: Page) -> None:
    element = ATTRIBUTION.to_html(page=False)
    desktop.set_content(f"<!DOCTYPE html><div style='width: 500px'>{element}</div>")
    look_up(desktop.locator("attribot-answer"), LAMP)
    before = card(desktop).evaluate("one => one.previousElementSibling.textContent")
    assert before.startswith("Bell and lamp")


def test_several_in_a_page(desktop: Page) -> None:
    both = ISLAND.to_html(page=False) + ATTRIBUTION.to_html(page=False)
    desktop.set_content(f"<!DOCTYPE html><body>{both}</body>")
    assert desktop.locator(".frame").count() == 2
    sentence(desktop, "A ticket").first.locator(".pill").click()
    expect(card(desktop).first.locator("mark")).to_have_text("A single ticket costs 18 crowns.")
    look_up(desktop.locator("attribot-answer").last, BICYCLE)


def test_without_scripts_the_cited_text_is_shown(new_page: Callable[..., Page], show: Show) -> None:
    page = new_page(java_script_enabled=False)
    show(page, ISLAND.to_html())
    expect(page.locator("attribot-answer p")).to_have_text(ISLAND.to_cited_text())


def test_numbers_stand_for_the_markers_of_the_model(desktop: Page, show: Show) -> None:
    sentences = (
        "The ferry carries 84 people [1]. ",
        "A ticket costs 18 crowns. **[3]** ",
        "So it is [2].",
    )
    response = "".join(sentences)
    marked = [("[1]", 0, True), ("**[3]**", 2, False), ("[2]", 1, True)]
    markers = tuple(
        Marker(
            start=start,
            end=start + len(text),
            label=text.strip("*[]"),
            document=document,
            supported=holds,
        )
        for text, document, holds in marked
        for start in [response.index(text)]
    )
    judged: tuple[dict[str, Any], ...] = (
        {"kind": "grounded", "source_ids": (0,)},
        {"kind": "grounded", "source_ids": (1,)},
        {"kind": "follows", "follows": 0},
    )
    verdicts = tuple(
        Verdict(start=response.index(text), end=response.index(text) + len(text), **fields)
        for text, fields in zip(sentences, judged, strict=True)
    )
    texts = ("The ferry carries 84 people.", "A ticket costs 18 crowns.", "The museum is open.")
    result = handmade(
        response, texts, dict.fromkeys(texts, (0.0,)), markers=markers, verdicts=verdicts
    )
    show(desktop, html(answer_data(result)))
    shown = [" ".join(text.split()) for text in desktop.locator(".sentence").all_inner_texts()]
    assert shown == [
        "The ferry carries 84 people. 1",
        "A ticket costs 18 crowns. 2 model cites [3]",
        "So it is [2]. from sentence 1",
    ]
    sentence(desktop, "A ticket").click()
    expect(card(desktop)).to_contain_text("The model itself cites [3], which has no effect")
