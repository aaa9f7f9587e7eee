"""The answer's element in a real browser: its contents and its controls."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from support.attributions import ISLAND, handmade, verdicts_of
from support.browser import assert_accessible, happening, keep
from support.compositions import BOTH, CARRIES, EARLIER_RUNS, HIGH, composed, run
from support.hostile import ADDRESSES, HOSTILE, HTML
from support.receipts import (
    ANSWER,
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
from attribot_rag.display import answer_data
from attribot_rag.display.html import render_summary
from attribot_rag.result.summary import without_attribution

PHONE, DESKTOP = 360, 1280
NOTEBOOK = "<!DOCTYPE html><html lang=en><title>Cell</title><main><h1>Cell</h1>"
CHIPS = [
    "check: 4 ≠ 3",
    "model’s own",
    "from sentence 2",
    "from the conversation",
    "undecided",
    "stopped here",
]
Show = Callable[[Page, str], None]


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
def desktop(new_page: Callable[..., Page]) -> Page:
    return new_page(viewport={"width": DESKTOP, "height": 740}, reduced_motion="reduce")


@pytest.fixture
def page(desktop: Page, show: Show) -> Page:
    """With the answer that has sentences in every state."""
    show(desktop, html(answers_without=True))
    return desktop


def html(data: Any = None, **attributes: Any) -> str:
    return render_summary(data or receipts(), question=QUESTION, **attributes)


def sentence(page: Page, text: str) -> Locator:
    return page.locator(".sentence", has_text=text)


def card(page: Page) -> Locator:
    return page.locator(".panel")


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


@pytest.mark.parametrize(("width", "scheme"), [(PHONE, "light"), (DESKTOP, "dark")])
def test_it_is_accessible_and_no_wider_than_its_window(
    new_page: Callable[..., Page], show: Show, width: int, scheme: str
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
    for text in ("4 crowns", "Bell"):
        sentence(page, text).locator(".pill, .chip").first.click()
        card(page).locator("summary", has_text="For experts").click()
        assert_accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
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


def test_every_state_has_its_shape_and_its_words(page: Page) -> None:
    shown = [element.get_attribute("class") for element in page.locator(".sentence").all()]
    assert shown == [f"sentence {state}" for _, state, *_ in SENTENCES]
    assert page.locator(".answer .chip").all_inner_texts() == CHIPS
    assert sentence(page, "84").locator(".pill").all_text_contents() == ["1", "2"]
    assert sentence(page, "84").locator(".joint").count() == 0
    assert sentence(page, "Bell").locator(".joint").count() == 1
    assert page.locator(".answer .value").all_inner_texts() == ["4"]
    listed = card(page).locator(".worklist .chip").all_inner_texts()
    assert listed == ["check: 4 ≠ 3", "model’s own", "undecided", "from sentence 2"]
    documents = card(page).locator(".entry").all_text_contents()
    assert [text.split()[:2] for text in documents[:3]] == [
        ["1", "ferry.txt"],
        ["2", "festival.md"],
        ["3", "museum.md"],
    ]
    assert "no sentence" in documents[3]


def test_a_remark_in_words_stands_in_place_of_the_values(desktop: Page, show: Show) -> None:
    data, said = receipts(), "The price list says 3 crowns for a bicycle."
    data["summary"]["sentences"][2]["checks"] = [{**CHECK, "message": said}]
    show(desktop, html(data))
    listed = card(desktop).locator(".worklist button").first
    expect(listed).to_contain_text(f"check: {said}")
    expect(listed).to_contain_text("but see the remark")
    listed.click()
    expect(card(desktop).locator(".alert")).to_have_text(said)


def test_a_card_gives_verdict_influence_and_quotes(page: Page) -> None:
    cards = {
        "84 pass": ("2 documents", "decisive", [PASSENGERS, PASSENGERS]),
        "18 crowns": ("ferry.txt", "decisive", [TICKET]),
        "4 crowns": ("a value differs", "strong", [BICYCLE]),
        "dolphins": ("No document", "", []),
        "36 crowns": ("sentence 2", "", ["A ticket costs 18 crowns."]),
        "Bell": ("together", "weak", [BELL, LAMP]),
        "You asked": ("said before", "", []),
        "night": ("no part", "", []),
        "Maren": ("not judged", "", []),
    }
    for text, (verdict, level, quotes) in cards.items():
        sentence(page, text).locator(".words").click()
        expect(card(page).locator("h2").first).to_contain_text(verdict)
        assert card(page).locator("mark").all_inner_texts() == quotes
        expect(card(page).locator(".compared")).to_have_count(int(bool(quotes)))
        expect(card(page).locator(".level")).to_have_count(int(bool(level)))
        if level:
            expect(card(page).locator(".level b")).to_have_text(level)
        close(page)
    sentence(page, "4 crowns").locator(".chip").click()
    expect(card(page).locator(".alert")).to_contain_text(re.compile("4.*3"))
    expect(card(page).locator("mark .value")).to_have_text("3")


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
    expect(missing).to_contain_text(["take, credit, 2.50", "card, Ada"])
    assert card(desktop).locator("mark b").all_inner_texts() == ["Kew’s", "crowns"]
    show(desktop, made.to_html(question="Can I pay by credit card at Kew?"))
    desktop.locator(".answer .pill").click()
    expect(missing).to_contain_text(["take, says, 2.50", "Ada"])
    data = receipts()
    data["summary"]["sentences"][0]["sources"] = [1]
    show(desktop, html(data))
    sentence(desktop, "84 pass").locator(".pill").first.click()
    expect(missing).to_contain_text("beside it: ferry carries, 84 passengers")
    for text in ("18 crowns", "4 crowns", "dolphins"):
        sentence(desktop, text).locator(".words").click()
        expect(missing).to_have_count(0)


def test_a_number_leads_to_its_source_and_the_source_to_its_document(
    page: Page, show: Show
) -> None:
    chosen = sentence(page, "Bell and lamp")
    chosen.locator(".pill").nth(1).click()
    lit = card(page).locator(".document.chosen mark")
    expect(lit).to_have_text(LAMP)
    expect(lit).to_be_in_viewport(ratio=1)
    expect(chosen).to_have_attribute("aria-expanded", "true")
    expect(chosen).to_be_focused()
    close(page)
    expect(chosen).to_have_attribute("aria-expanded", "false")
    data = receipts()
    data["documents"]["0"] += "\n\nNo fishing." * 99
    show(page, html(data))
    assert page.get_by_role("button", name="Answer without").count() == 0
    sentence(page, "18 crowns").locator(".pill").click()
    opener = card(page).get_by_role("button", name="Open at this place")
    opener.click()
    whole = card(page).get_by_role("region", name="ferry.txt")
    expect(whole).to_be_focused()
    expect(whole.locator("mark")).to_have_text(TICKET)
    expect(whole.locator("mark")).to_be_in_viewport(ratio=1)
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()
    show(page, html(open_at="https://files.example/{sentence}/{number}/{index}"))
    sentence(page, "Bell").locator(".pill").first.click()
    link = card(page).get_by_role("link", name="Open at this place").first
    assert link.get_attribute("href") == "https://files.example/5/2/1"
    show(page, html(open_at="javascript:alert({number})"))
    sentence(page, "Bell").locator(".pill").first.click()
    assert card(page).locator("a").count() == 0


def test_everything_can_be_done_by_keyboard(page: Page) -> None:
    status = page.locator("[role=status]")
    expect(status).to_contain_text("3 of 9 sentences")
    chosen = sentence(page, "18 crowns")
    for _ in range(20):
        page.keyboard.press("Tab")
        if chosen.evaluate("one => one.matches(':focus')"):
            break
    expect(chosen).to_be_focused()
    expect(page.locator(".peek")).to_contain_text("ferry.txt")
    page.keyboard.press("Enter")
    expect(chosen).to_have_attribute("aria-expanded", "true")
    expect(status).to_contain_text("Sentence 2.")
    page.keyboard.press("ArrowRight")
    expect(sentence(page, "4 crowns")).to_be_focused()
    expect(status).to_contain_text("a value differs")
    assert page.locator("[role=status], [aria-live]").count() == 1
    page.keyboard.press("Escape")
    expect(sentence(page, "4 crowns")).to_be_focused()
    expect(page.locator("[aria-expanded=true]")).to_have_count(0)
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
    page.locator("summary", has_text="How to read this").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".legend").first).to_contain_text("no proof")


def test_later_verdicts_leave_an_open_card_open(desktop: Page, show: Show) -> None:
    """Whether the page sets new data, or makes the element anew."""
    page, data = desktop, receipts()
    for later in data["summary"]["sentences"][2:]:
        later |= {"verdict": "open", "reason": "pending", "checks": []}
    data["summary"]["status"] = "pending"
    show(page, html(data))
    expect(page.locator(".sentence.checking")).to_have_count(7)
    expect(page.locator(".counts")).to_contain_text("Checking sources…")
    checking = sentence(page, "night").locator(".chip")
    expect(checking).to_have_text("checking…")
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


@pytest.mark.parametrize(
    "texts",
    [(*HTML[:3], *HTML[6:30:4]), pytest.param((*HTML, *HOSTILE), marks=pytest.mark.long)],
    ids=["some", "all"],
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


def test_without_scripts_the_cited_text_is_shown(new_page: Callable[..., Page], show: Show) -> None:
    page = new_page(java_script_enabled=False)
    show(page, ISLAND.to_html())
    expect(page.locator("attribot-answer p")).to_have_text(ISLAND.to_cited_text())
