"""The answer's element in a real browser: its sources, its controls, and what it must not do."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from support.attributions import ISLAND, handmade, verdicts_of
from support.browser import assert_accessible, keep
from support.compositions import BOTH, CARRIES, EARLIER_RUNS, HIGH, composed, run
from support.hostile import ADDRESSES, HOSTILE, HTML
from support.receipts import BICYCLE, CHECK, TICKET, citing, pending, receipts

from attribot_rag import Document
from attribot_rag.display import answer_data
from attribot_rag.display.html import render_summary
from attribot_rag.result.summary import without_attribution

PHONE, DESKTOP, HEIGHT = 390, 1280, 740
FILES, OWN, ALSO, NAMES = (
    "not from your files",
    "not in the 2 passages found",
    "also in b.txt",
    ("a.txt", "b.txt"),
)
ORSK, LIST = "The pass of Orsk lies at 2,140 m.", "Orsk: 2,140 m, a toll pass."
KITTIWAKE = "The ferry Kittiwake carries {} passengers."
FERRY, RIVAL, BELL = KITTIWAKE.format(40), KITTIWAKE.format(84), "The bell rings at noon."
FARE = "Everyone pays 12 crowns."
GERMAN = "Die Fähre hat eine Küche. Der Kapitän der Fähre kennt die Insel und das Wetter gut."
NOTEBOOK = "<!DOCTYPE html><html lang=en><title>Cell</title><main><h1>Cell</h1>"
SET_DATA = "data => { document.querySelector('attribot-answer').data = data }"
MAKE_ANEW = """data => document.querySelector("attribot-answer").replaceWith(
    Object.assign(document.createElement("attribot-answer"), { data }))"""
RESPOND = """answer => document.addEventListener("attribot-without", ({ detail }) => {
    window.asked = [detail.documents, detail.names];
    detail.respond(detail.documents[0] ? Promise.reject(new Error("no model")) : answer);
})"""
HEAR = """names => names.forEach((name) => document.addEventListener(name, (event) => {
    (window.heard ??= []).push([name, event.detail.sentence, event.detail.name]);
    if (window.own) event.preventDefault();
}))"""
CAUSAL = re.compile("made the model|model would|nfluence|from your|derentwegen|hätte|Einfluss|Aus ")
SOME = pytest.param((*ADDRESSES, *HTML[6:30:4]), id="some")
ALL = pytest.param((*HTML, *HOSTILE), id="all", marks=pytest.mark.long)
Show = Callable[[Page, str], None]
View = Callable[..., Page]


@pytest.fixture
def view(new_page: Callable[..., Page], show: Show) -> View:
    """Shows a page, or data: by default, of the answer that has sentences in every state."""
    page = new_page(viewport={"width": DESKTOP, "height": HEIGHT}, reduced_motion="reduce")

    def view(data: Any = None, **attributes: Any) -> Page:
        made = data if isinstance(data, str) else render_summary(data or receipts(), **attributes)
        show(page, made)
        return page

    return view


def pills(page: Page, text: str = "") -> Locator:
    return page.locator(".sentence", has_text=text).locator(".pill")


def card(page: Page) -> Locator:
    return page.locator(".panel")


def opened(page: Page, text: str = "") -> Locator:
    """The card of a sentence, by its first name."""
    pills(page, text).first.click()
    return card(page)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name).first.click()


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_and_what_is_marked_is_in_sight(
    new_page: Callable[..., Page], show: Show, width: int, scheme: str
) -> None:
    viewport = {"width": width, "height": HEIGHT}
    page = new_page(color_scheme=scheme, viewport=viewport, bypass_csp=True)
    show(page, render_summary(receipts(), question="How many?", answers_without=True))
    keep(page, f"answer_{scheme}_{width}.png", full_page=True)
    lit = page.locator(".panel [open] table, .panel:not(:has([open])) mark")
    for opener in (".pill.warn", "summary", "[aria-label^=Next]", ".help", ".foot .source"):
        page.locator(opener).first.click()
        assert_accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        expect(lit.first if lit.count() else card(page)).to_be_in_viewport(ratio=0.9)
    page.set_content(NOTEBOOK + ISLAND._repr_html_())
    assert_accessible(page)


def test_every_sentence_says_where_it_is_from(view: View) -> None:
    """By the names of files; amber where a reader should look."""
    page = view()
    expect(pills(page, "18 crowns")).to_have_text(["ferry.txt"])
    expect(pills(page, "84")).to_have_text(["ferry.txt", "festival.md"])
    expect(page.locator(".warn.pill")).to_have_text(["3 in ferry.txt", FILES])
    expect(opened(page, "4 crowns").locator("h2")).to_contain_text("From ferry.txt, except “4”")
    expect(card(page).locator("details b")).to_have_text(["ferry.txt"] * 2)  # each score's
    page.locator(".foot").get_by_role("button", name="not in the passages found").click()
    expect(page.locator(".sentence.on")).to_contain_text("dolphins")
    press(page, "How to read this")
    expect(card(page).locator("li").first).to_have_text("wildlife.txt")


@pytest.mark.parametrize(
    ("said", "cited", "texts", "shown", "values"),
    [
        # The model's own, but a file says it: that is told, and nothing is amber.
        ("The Android version is 10.", None, ["No.", "# Android\n\nVersion: now 10."], [ALSO], []),
        (ORSK, None, ["No.", LIST], [ALSO], []),
        ("It is led by Ada Venn today.", None, ["No.", "Since May, Ada Venn led it."], [ALSO], []),
        (ORSK, None, ["No.", "Orsk has 2,410 people."], [OWN], []),
        # A file says the same with another number; what it says of other things is not told.
        (FERRY, FERRY, [FERRY, RIVAL], ["a.txt", "84 in b.txt"], ["40"]),
        (FERRY, FERRY, [f"{FERRY} {BELL} {RIVAL}"], ["84 in a.txt"], ["40"]),
        (FERRY, None, [f"No. {RIVAL}", RIVAL], ["84 in a.txt", "84 in b.txt"], ["40"]),
        (FERRY, FERRY, [FERRY, KITTIWAKE.format("84 dogs and")], ["a.txt"], []),
        # A value or a name that is in no file; in German, a noun is none.
        ("A Dutch pays 12.90 crowns.", FARE, [FARE], ["12 in a.txt"], ["12.90"]),
        ("Sie hat eine Bar.", GERMAN[:25], [GERMAN[:25], GERMAN], ["a.txt", "b.txt"], []),
    ],
)
def test_files_stand_after_a_sentence_and_what_to_look_at(
    view: View, said: str, cited: str | None, texts: list[str], shown: list[str], values: list[str]
) -> None:
    data = citing(said, [*zip(NAMES, texts, strict=False)], cited)
    data["summary"]["sentences"][0]["checks"] = [
        CHECK | {"start": at.start(), "end": at.end(), "value": at[0], "source_value": None}
        for at in re.finditer(r"\d+\.\d+", said)  # a number that is in no file
    ]
    page = view(data)
    expect(pills(page)).to_have_text(shown)
    expect(page.locator(".answer .value")).to_have_text(values)
    expect(page.locator(".source")).to_have_text([name for name in NAMES if name in str(shown)])
    expect(page.locator(".foot")).to_contain_text(f"Check {len(values)} detail" if values else "?")


def test_what_a_file_says_is_quoted_or_opened(view: View) -> None:
    texts = [("list.txt", f"{FERRY} {BELL} {RIVAL}"), ("guide.txt", f"Welcome. {RIVAL} {LIST}")]
    page = view(citing(f"{FERRY} {ORSK}", texts, FERRY, None))
    expect(opened(page, ORSK)).to_contain_text("Your files say it too")
    expect(card(page).locator("mark")).to_have_text(LIST)
    expect(opened(page, FERRY).locator("mark")).to_have_text([FERRY, RIVAL])
    for place in (page.locator(".answer"), card(page)):
        place.get_by_role("button", name="84 in guide.txt").click()
        expect(card(page).locator(".whole mark .value")).to_have_text("84")
        press(page, "Back")  # to the card


def test_one_sentence_in_two_files_is_said_to_be_so(view: View) -> None:
    """Passages of one file are one file, and the other answer is without all that say it."""
    texts = [("ferry.txt", BELL), ("festival.md", f"Hi. {BELL}"), ("festival.md", "Bring water.")]
    without = {"0,1,2": "The bell\nrings in the island's room."}
    shown = opened(view({**citing(BELL, texts, BELL), "without": without}))
    expect(shown).to_contain_text("same sentence stands in ferry.txt and festival.md")
    expect(shown).to_contain_text("Without ferry.txt and festival.md the model answers")
    expect(shown.locator("ins")).to_have_text(["island's", "room"])


def test_another_answer_is_shown_with_its_facts_marked(view: View) -> None:
    page = view(answers_without=True)
    page.evaluate(RESPOND, receipts()["answer"].replace("18 crowns", "20 crowns"))
    other = opened(page, "18 crowns").locator(".counterfactual")
    press(page, "Answer without ferry.txt")
    expect(other.locator("ins")).to_have_text(["20"])
    assert page.evaluate("asked") == [[0], ["ferry.txt"]]
    opened(page, "Bell")
    press(page, "Answer without")
    expect(other.first).to_contain_text("no model")
    opened(page, "18 crowns")  # it was asked already
    expect(other.locator("ins")).to_have_text(["20"])
    page.evaluate("document.body.append(document.createElement('attribot-answer'))")  # the next
    expect(card(page)).to_be_hidden()


def test_markdown_is_quoted_as_a_reader_sees_it(view: View) -> None:
    row = "| North loop | 689 | 3 years |"
    tail = "It was **built**\nby *Ada Venn*, see [the plan](plan.md)."
    text = f"# Fares\n\n| Route | Length | For |\n|---|--:|---|\n{row}\n| South | 1 | 2 |\n\n{tail}"
    said = "The North loop is 689 long. Ada Venn built it."
    page = view(citing(said, [("/data/routes.md", text)], row, tail))
    rows = opened(page).locator("blockquote tr").all()
    cells = [row.locator("th, td").all_inner_texts() for row in rows]
    assert cells == [["Route", "Length", "For"], ["North loop", "689", "3 years"]]
    quoted = opened(page, "Ada Venn").locator("mark")
    expect(quoted).to_have_text("It was built by Ada Venn, see the plan.")


def test_a_pill_leads_to_its_source_and_the_source_to_its_document(view: View) -> None:
    data = receipts()
    data["documents"]["0"] += "\n\nNo fishing." * 99
    page = view(data)
    lamp, lit = pills(page, "Bell and lamp").nth(1), card(page).locator("mark")
    lamp.click()
    expect(lit.first).to_contain_text("The lamp")
    lamp.click()
    expect(card(page)).to_be_hidden()
    page.locator(".words", has_text="18 crowns").click()
    expect(lit.locator("b").first).to_have_text("ticket")
    press(page, "Open file")
    expect(card(page).locator(".whole mark")).to_have_text(TICKET)
    expect(lit).to_be_in_viewport(ratio=1)


def test_a_page_opens_documents_and_cards_of_its_own(view: View) -> None:
    page = view(open_at="https://files.example/{sentence}/{number}/{index}")
    page.evaluate(HEAR, ["attribot-choose", "attribot-open"])
    link = opened(page, "Bell").get_by_role("link", name="Open file").first
    expect(link).to_have_attribute("href", "https://files.example/5/2/1")
    page.evaluate("window.own = true")
    link.click()
    opened(page, "18 crowns")
    expect(page.locator(".sentence.on")).to_contain_text("Bell")
    chosen = [["attribot-choose", 5, "festival.md"], ["attribot-choose", 1, "ferry.txt"]]
    assert page.evaluate("heard") == [chosen[0], ["attribot-open", 5, "festival.md"], chosen[1]]
    page.locator("attribot-answer").evaluate("one => one.setAttribute('cards', 'none')")
    press(page, "Close")
    expect(opened(page, "84")).to_be_hidden()


def test_a_name_however_long_stays_with_the_last_word_of_its_sentence(view: View) -> None:
    page = view(citing(FERRY, [("Timetable of the island railway.pdf", FERRY)], FERRY))
    for width in range(300, PHONE, 10):
        page.set_viewport_size({"width": width, "height": HEIGHT})
        last = page.locator(".words").evaluate("one => [...one.getClientRects()].at(-1).bottom")
        assert pills(page).evaluate("one => one.getBoundingClientRect().top") < last


def test_everything_can_be_done_by_keyboard(view: View) -> None:
    page = view()
    for button in page.locator(".sentence button").all():
        page.keyboard.press("Tab")
        expect(button).to_be_focused()
    chosen, status = pills(page, "18 crowns"), page.locator("[role=status]")
    chosen.focus()
    page.keyboard.press("Enter")
    expect(chosen).to_have_attribute("aria-expanded", "true")
    expect(status).to_contain_text("Sentence 2 of 9")
    following = page.get_by_role("button", name="Next sentence")
    for number, told in ((3, "3 in ferry.txt"), (4, "Not from your files")):
        following.focus()
        page.keyboard.press("Enter")
        expect(card(page).locator(".place")).to_have_text(f"Sentence {number} of 9")
        expect(following).to_be_focused()
        expect(status).to_contain_text(told)
    page.keyboard.press("Escape")
    expect(pills(page, "dolphins")).to_be_focused()
    expect(page.locator("[aria-expanded=true]")).to_have_count(0)


def test_later_verdicts_leave_an_open_card_open(view: View) -> None:
    """Whether the page sets new data, or makes the element anew; and the text stays in place."""
    data = pending()
    page = view(data)
    checking = page.locator(".sentence.checking")
    expect(checking).to_have_count(7)
    expect(page.locator(".progress")).to_have_text("Checking sentence 3 of 9…")
    expect(page.locator(".checking .pill:visible")).to_have_count(0)
    opened(page, "18 crowns")
    data["summary"]["sentences"][3] = receipts()["summary"]["sentences"][3]
    page.evaluate(SET_DATA, data)
    expect(checking).to_have_count(6)
    expect(pills(page, "18 crowns")).to_be_focused()
    page.evaluate(MAKE_ANEW, receipts())
    expect(page.locator(".sentence.checking, .progress")).to_have_count(0)
    expect(page.locator(".sentence.on")).to_contain_text("18 crowns")
    expect(card(page).locator("mark")).to_have_text(TICKET)
    page.evaluate(SET_DATA, {"summary": without_attribution("pending"), "answer": "Well"})
    expect(card(page)).to_be_hidden()


def test_an_answer_made_of_earlier_answers_cites_their_documents(view: View) -> None:
    grounded = {"kind": "grounded", "source_ids": (0, 2), "effect": 9.0, "kept": 1.0}
    verdicts = verdicts_of(BOTH, grounded, {"kind": "unsupported"})
    last = composed((9.0, 0.0), (0.0, 0.0), (8.0, 0.0), verdicts=verdicts)
    page = view(run("whole", last, earlier=EARLIER_RUNS).summary)
    expect(pills(page, "The tower is high")).to_have_text(["Tower", "ferry"])
    expect(pills(page, "Both")).to_have_text([FILES])
    pills(page, "The tower is high").last.click()
    expect(card(page).locator("mark")).to_have_text([CARRIES, HIGH])
    # The effect was measured on the earlier answers, not on the documents.
    expect(card(page)).not_to_contain_text(re.compile(r"nfluence|9\.0"))


@pytest.mark.parametrize("language", ["en", "de"])
def test_an_answer_that_another_model_read_speaks_of_support(view: View, language: str) -> None:
    data = receipts()
    data["summary"] |= {"basis": "reader", "model": "m", "answered_by": "gpt-4o"}
    page = view({**data, "language": language}, lang=language, answers_without=True)
    expect(page.locator(".reader")).to_contain_text({"en": "answered", "de": "Antwort"}[language])
    told = page.locator(".frame").inner_text()
    for opener in (*pills(page).all(), page.locator(".help")):
        opener.click()
        told += card(page).evaluate("panel => panel.textContent")
    assert "gpt-4o" in told and not CAUSAL.search(told)


def test_an_answer_is_shown_before_and_without_an_attribution(view: View) -> None:
    waiting = without_attribution("pending")
    reading = {**waiting, "documents": receipts()["summary"]["documents"]}
    failed = without_attribution("error", error=ValueError("no model"))
    for told, data in {
        "It isWriting…": {"summary": waiting, "answer": "It is", "stage": "writing"},
        "Reading 4 passages…": {"summary": reading, "answer": ""},
        "no model": {"summary": failed, "answer": "It."},
    }.items():
        expect(view(data).locator(".main")).to_contain_text(told)
    expect(pills(view(stopped=True), "Maren")).to_have_text(["stopped"])
    page = view(ISLAND.to_html(answer=False))
    expect(page.locator(".answer")).to_be_hidden()
    expect(card(page)).to_contain_text("The ferry carries 84 people.")


@pytest.mark.parametrize("texts", [SOME, ALL])
def test_hostile_texts_are_shown_and_run_nothing(view: View, texts: tuple[str, ...]) -> None:
    act = """data => {
        const answer = Object.assign(document.querySelector("attribot-answer"), { data });
        for (const one of answer.shadowRoot.querySelectorAll("button")) one.click();
        return answer.shadowRoot.querySelectorAll("script, img, iframe, style").length;
    }"""
    for text in texts:
        fields = dict.fromkeys(("title", "section", "url", "source", "link"), text)
        document = Document(f"{BICYCLE} {text}", text, fields)
        made = handmade(f"{text} is it.", [document], {BICYCLE: (3.0,), text: (2.0,)})
        data = answer_data(made) | {"without": {"0": text}}
        check = {"value": text, "source_value": text, "start": 0, "end": 3, "kind": text}
        data["summary"]["sentences"][0]["checks"] = [check, check | {"message": text}]
        data["summary"]["notes"] = [text]
        for shown in (made.to_html(question=text, page=False), data):  # the first is unprotected
            page = view(shown, open_at=text)
            assert page.evaluate(act, json.loads(json.dumps(data))) == 0
            for link in opened(page).locator("a").all():
                assert re.match("https://evil.example|#", link.get_attribute("href") or "")


def test_what_is_behind_selected_words_is_shown(view: View) -> None:
    page = view()
    words = page.locator(".words", has_text="18 crowns")
    words.evaluate("one => getSelection().setBaseAndExtent(one.firstChild, 0, one.firstChild, 6)")
    expect(card(page).locator("h2")).to_contain_text("“A ticket”")
    expect(card(page).locator("mark")).to_have_text(TICKET)
    page.evaluate("document.getSelection().removeAllRanges()")
    expect(card(page)).to_be_hidden()


def test_characters_that_browsers_count_otherwise(view: View) -> None:
    """Emoji are two for a browser, control characters are shown by several."""
    data = receipts()
    data["answer"] = f"\U0001f6a2 {data['answer']}"
    for entry in (*data["summary"]["sentences"], *data["summary"]["sentences"][2]["checks"]):
        entry["start"], entry["end"] = entry["start"] + 2, entry["end"] + 2
    expect(view(data).locator(".answer .value")).to_have_text("4")
    ships = "\U0001f6a2\U0001f6a2 ships \u202e carry 84 people."
    page = view(handmade(ships, [f"\U0001f6a2 {ships}"], {ships: (3.0,)}).to_html())
    for shown in (opened(page).locator("mark"), page.locator(".answer")):
        expect(shown).to_contain_text(ships.replace("\u202e", "<U+202E>"))
