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

PHONE, DESKTOP = 390, 1280
OWN, ALSO = "not from your files", "also in b.txt"
ORSK = "The pass of Orsk lies at 2,140 m."
KITTIWAKE = "The ferry Kittiwake carries {} passengers."
FERRY, BELL = KITTIWAKE.format(40), "The bell rings at noon."
GERMAN = "Die Fähre hat eine Küche. Der Kapitän der Fähre kennt die Insel und das Wetter gut."
NOTEBOOK = "<!DOCTYPE html><html lang=en><title>Cell</title><main><h1>Cell</h1>"
SET_DATA = "data => { document.querySelector('attribot-answer').data = data }"
MAKE_ANEW = """data => {
    const answer = document.createElement("attribot-answer");
    document.querySelector("attribot-answer").replaceWith(Object.assign(answer, { data }));
}"""
RESPOND = """answer => document.addEventListener("attribot-without", ({ detail }) => {
    window.asked = [detail.documents, detail.names];
    detail.respond(detail.documents[0] ? Promise.reject(new Error("no model")) : answer);
})"""
HEAR = """name => document.addEventListener(name, (event) => {
    (window.heard ??= []).push([name, event.detail.sentence, event.detail.name]);
    if (window.own) event.preventDefault();
})"""
OPEN = re.compile(r"\bon\b")
Show = Callable[[Page, str], None]


@pytest.fixture
def desktop(new_page: Callable[..., Page]) -> Page:
    return new_page(viewport={"width": DESKTOP, "height": 740}, reduced_motion="reduce")


@pytest.fixture
def page(desktop: Page, show: Show) -> Page:
    """With the answer that has sentences in every state."""
    show(desktop, html(answers_without=True))
    return desktop


def html(data: Any = None, **attributes: Any) -> str:
    return render_summary(data or receipts(), question="How many?", **attributes)


def sentence(page: Page, text: str) -> Locator:
    return page.locator(".sentence", has_text=text)


def pills(page: Page, text: str = "") -> Locator:
    return sentence(page, text).locator(".pill")


def card(page: Page) -> Locator:
    return page.locator(".panel")


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name).first.click()


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_and_no_wider_than_its_window(
    new_page: Callable[..., Page], show: Show, width: int, scheme: str
) -> None:
    viewport = {"width": width, "height": 740}
    page = new_page(color_scheme=scheme, viewport=viewport, bypass_csp=True)
    show(page, html(answers_without=True))
    keep(page, f"answer_{scheme}_{width}.png", full_page=True)
    openers: tuple[Callable[[], object], ...] = (
        lambda: pills(page, "4 crowns").first.click(),
        lambda: card(page).locator(".why summary").click(),
        lambda: press(page, "Next sentence"),
        lambda: press(page, "How to read this"),
        lambda: page.locator(".source").first.click(),
        lambda: page.set_content(NOTEBOOK + ISLAND._repr_html_()),
    )
    for open_it in openers:
        open_it()
        assert_accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_every_sentence_says_where_it_is_from(page: Page) -> None:
    """By the names of files; amber where a reader should look."""
    expect(pills(page, "18 crowns")).to_have_text(["ferry.txt"])
    expect(pills(page, "84")).to_have_text(["ferry.txt", "festival.md"])
    expect(page.locator(".warn.pill")).to_have_text(["ferry.txt says 3", OWN])
    expect(page.locator(".answer .value")).to_have_text(["4"])
    foot = page.locator(".foot")
    expect(foot.locator(".source")).to_have_text(["ferry.txt", "festival.md", "museum.md"])
    foot.get_by_role("button", name="not from your files").click()
    expect(sentence(page, "dolphins")).to_have_class(OPEN)
    press(page, "How to read this")
    expect(card(page).locator("li").first).to_have_text("wildlife.txt")


@pytest.mark.parametrize(
    ("said", "cited", "other", "shown", "sources"),
    [
        # The model's own, but a file says it: that is told, and nothing is amber.
        ("The Android version is 10.", None, "# Android\n\nVersion: now 10.", ALSO, "b.txt"),
        (ORSK, None, "Orsk: 2,140 m, a toll pass.", ALSO, "b.txt"),
        ("It is led by Ada Venn today.", None, "Since May, Ada Venn led it.", ALSO, "b.txt"),
        (ORSK, None, "Orsk has 2,410 people.", OWN, ""),
        # Another file says the same with another number; what it says of other things is not told.
        (FERRY, FERRY, KITTIWAKE.format(84), "a.txt, b.txt says 84", "a.txt, b.txt"),
        (FERRY, FERRY, KITTIWAKE.format("84 dogs and"), "a.txt", "a.txt"),
        # A name that is in no file; in German, a noun is none.
        ("Kew is Dutch.", "Kew is a town.", "", "a.txt, “Dutch” is in none of your files", "a.txt"),
        ("Sie hat eine Bar.", GERMAN[:25], GERMAN, "a.txt, b.txt", "a.txt, b.txt"),
    ],
)
def test_files_stand_after_a_sentence_and_what_to_look_at(
    desktop: Page, show: Show, said: str, cited: str | None, other: str, shown: str, sources: str
) -> None:
    show(desktop, html(citing(said, [("a.txt", cited or "No."), ("b.txt", other or "No.")], cited)))
    expect(pills(desktop)).to_have_text(shown.split(", "))
    expect(desktop.locator(".source")).to_have_text(sources.split(", ") if sources else [])


def test_what_another_file_says_is_quoted_or_opened(desktop: Page, show: Show) -> None:
    same, rival = "Orsk: 2,140 m, a toll pass.", KITTIWAKE.format(84)
    texts = [("list.txt", FERRY), ("guide.txt", f"Welcome. {rival} {same}")]
    show(desktop, html(citing(f"{FERRY} {ORSK}", texts, FERRY, None)))
    pills(desktop, ORSK).click()
    expect(card(desktop)).to_contain_text("Your files say it too")
    expect(card(desktop).locator("mark")).to_have_text(same)
    pills(desktop, FERRY).first.click()
    card(desktop).get_by_role("button", name="guide.txt says 84").click()
    expect(card(desktop).locator(".whole mark")).to_have_text(rival)


def test_one_sentence_in_two_files_is_said_to_be_so(desktop: Page, show: Show) -> None:
    """Passages of one file are one file, and the other answer is without all that say it."""
    texts = [("ferry.txt", BELL), ("festival.md", f"Hi. {BELL}"), ("festival.md", "Bring water.")]
    without = {"0,1,2": "The bell\nrings in the island's room."}
    show(desktop, html({**citing(BELL, texts, BELL), "without": without}))
    pills(desktop).first.click()
    expect(card(desktop)).to_contain_text("same sentence stands in ferry.txt and festival.md")
    expect(card(desktop)).to_contain_text("Without ferry.txt and festival.md the model answers")
    expect(card(desktop).locator("ins")).to_have_text(["island's", "room"])


def test_another_answer_is_shown_with_its_facts_marked(page: Page) -> None:
    page.evaluate(RESPOND, receipts()["answer"].replace("18 crowns", "20 crowns"))
    pills(page, "18 crowns").click()
    press(page, "Answer without ferry.txt")
    other = card(page).locator(".counterfactual")
    expect(other.locator("ins")).to_have_text(["20"])
    assert page.evaluate("asked") == [[0], ["ferry.txt"]]
    pills(page, "Bell").first.click()
    press(page, "Answer without")
    expect(other.first).to_contain_text("no model")
    pills(page, "18 crowns").click()  # it was asked already
    expect(other.locator("ins")).to_have_text(["20"])
    page.evaluate("document.body.append(document.createElement('attribot-answer'))")  # the next
    expect(card(page)).to_be_hidden()


def test_a_value_of_no_file_is_amber_and_the_card_says_what_the_source_has(
    desktop: Page, show: Show
) -> None:
    said = "The Dutch give generous refunds of 12.90 crowns."
    source = "Kew gives refunds of 12 crowns."
    data = citing(said, [("a.txt", source)], source)
    start = said.index("12.90")
    place = {"start": start, "end": start + 5, "value": "12.90", "source_value": None}
    data["summary"]["sentences"][0]["checks"] = [CHECK | place]
    show(desktop, html(data))
    amber = desktop.locator(".warn.pill")
    expect(amber).to_have_text(["a.txt says 12", "“Dutch” is in none of your files"])
    expect(desktop.locator(".foot")).to_contain_text("Check 2 details")
    amber.first.click()
    expect(card(desktop).locator("h2")).to_have_text("From a.txt, except “12.90”, “Dutch”")


def test_markdown_is_quoted_as_a_reader_sees_it(desktop: Page, show: Show) -> None:
    row = "| North loop | 689 | 3 years |"
    tail = "It was **built**\nby *Ada Venn*, see [the plan](plan.md)."
    text = f"# Fares\n\n| Route | Length | For |\n|---|--:|---|\n{row}\n| South | 1 | 2 |\n\n{tail}"
    said = "The North loop is 689 long. Ada Venn built it."
    show(desktop, html(citing(said, [("/data/routes.md", text)], row, tail)))
    pills(desktop).first.click()
    rows = card(desktop).locator("blockquote tr").all()
    cells = [row.locator("th, td").all_inner_texts() for row in rows]
    assert cells == [["Route", "Length", "For"], ["North loop", "689", "3 years"]]
    pills(desktop).last.click()
    expect(card(desktop).locator("mark")).to_have_text("It was built by Ada Venn, see the plan.")


def test_a_pill_leads_to_its_source_and_the_source_to_its_document(page: Page, show: Show) -> None:
    lamp = pills(page, "Bell and lamp").nth(1)
    lamp.click()
    lit = card(page).locator(".document").first.locator("mark")
    expect(lit).to_contain_text("The lamp")
    expect(lit).to_be_in_viewport(ratio=1)
    lamp.click()
    expect(card(page)).to_be_hidden()
    data = receipts()
    data["documents"]["0"] += "\n\nNo fishing." * 99
    show(page, html(data))
    sentence(page, "18 crowns").locator(".words").click()
    expect(card(page).locator("mark b").first).to_have_text("ticket")
    press(page, "Open document")
    whole = card(page).locator(".whole mark")
    expect(whole).to_have_text(TICKET)
    expect(whole).to_be_in_viewport(ratio=1)
    press(page, "Back")
    expect(card(page).locator("blockquote mark")).to_have_text(TICKET)
    show(page, html(open_at="https://files.example/{sentence}/{number}/{index}"))
    for event in ("attribot-choose", "attribot-open"):
        page.evaluate(HEAR, event)
    pills(page, "Bell").first.click()
    link = card(page).get_by_role("link", name="Open document").first
    expect(link).to_have_attribute("href", "https://files.example/5/2/1")
    page.evaluate("window.own = true")  # the page opens it, and shows its own card
    link.click()
    pills(page, "18 crowns").click()
    expect(sentence(page, "Bell")).to_have_class(OPEN)
    assert page.evaluate("heard") == [
        ["attribot-choose", 5, "festival.md"],
        ["attribot-open", 5, "festival.md"],
        ["attribot-choose", 1, "ferry.txt"],
    ]
    page.locator("attribot-answer").evaluate("one => one.setAttribute('cards', 'none')")
    press(page, "Close")
    pills(page, "84").first.click()
    expect(card(page)).to_be_hidden()


def test_a_name_stays_with_the_last_word_of_its_sentence(desktop: Page, show: Show) -> None:
    """However long it is."""
    show(desktop, html(citing(FERRY, [("Timetable of the island railway.pdf", FERRY)], FERRY)))
    for width in range(300, PHONE, 10):
        desktop.set_viewport_size({"width": width, "height": 740})
        last = desktop.locator(".words").evaluate("one => [...one.getClientRects()].at(-1).bottom")
        assert pills(desktop).evaluate("one => one.getBoundingClientRect().top") < last


def test_everything_can_be_done_by_keyboard(page: Page) -> None:
    buttons = page.locator(".sentence button")
    for number in range(buttons.count()):
        page.keyboard.press("Tab")
        expect(buttons.nth(number)).to_be_focused()
    chosen, status = pills(page, "18 crowns"), page.locator("[role=status]")
    chosen.focus()
    page.keyboard.press("Enter")
    expect(chosen).to_have_attribute("aria-expanded", "true")
    expect(status).to_contain_text("Sentence 2 of 9")
    following = page.get_by_role("button", name="Next sentence")
    for number in (3, 4):
        following.focus()
        page.keyboard.press("Enter")
        expect(card(page).locator(".place")).to_have_text(f"Sentence {number} of 9")
        expect(following).to_be_focused()
        expect(status).to_contain_text({3: "ferry.txt says 3", 4: "Not from your files"}[number])
    page.keyboard.press("Escape")
    expect(pills(page, "dolphins")).to_be_focused()
    expect(page.locator("[aria-expanded=true]")).to_have_count(0)


def test_later_verdicts_leave_an_open_card_open(page: Page, show: Show) -> None:
    """Whether the page sets new data, or makes the element anew; and the text stays in place."""
    data, checking = pending(), page.locator(".sentence.checking")
    show(page, html(data))
    expect(checking).to_have_count(7)
    expect(page.locator(".progress")).to_have_text("Checking sentence 3 of 9…")
    expect(page.locator(".checking .pill:visible")).to_have_count(0)
    chosen = sentence(page, "18 crowns")
    chosen.locator(".pill").click()
    data["summary"]["sentences"][3] = receipts()["summary"]["sentences"][3]
    page.evaluate(SET_DATA, data)
    expect(checking).to_have_count(6)
    expect(chosen.locator(".pill")).to_be_focused()
    page.evaluate(MAKE_ANEW, receipts())
    expect(page.locator(".sentence.checking, .progress")).to_have_count(0)
    expect(chosen).to_have_class(OPEN)
    expect(card(page).locator("mark")).to_have_text(TICKET)
    page.evaluate(SET_DATA, {"summary": without_attribution("pending"), "answer": "Well"})
    expect(card(page)).to_be_hidden()


def test_an_answer_made_of_earlier_answers_cites_their_documents(desktop: Page, show: Show) -> None:
    grounded = {"kind": "grounded", "source_ids": (0, 2), "effect": 9.0, "kept": 1.0}
    verdicts = verdicts_of(BOTH, grounded, {"kind": "unsupported"})
    last = composed((9.0, 0.0), (0.0, 0.0), (8.0, 0.0), verdicts=verdicts)
    show(desktop, html(run("whole", last, earlier=EARLIER_RUNS).summary))
    expect(pills(desktop, "The tower is high")).to_have_text(["Tower", "ferry"])
    expect(pills(desktop, "Both")).to_have_text([OWN])
    pills(desktop, "The tower is high").last.click()
    expect(card(desktop).locator("mark")).to_have_text([CARRIES, HIGH])
    # The effect was measured on the earlier answers, not on the documents.
    expect(card(desktop)).not_to_contain_text(re.compile(r"nfluence|9\.0"))


@pytest.mark.parametrize(
    ("language", "who", "causal"),
    [
        ("en", "Read by m, answered by gpt-4o", "made the model|model would|nfluence|from your"),
        ("de", "Gelesen von m, Antwort von gpt-4o", r"derentwegen|hätte das Modell|Einfluss|Aus "),
    ],
)
def test_an_answer_that_another_model_read_speaks_of_support(
    desktop: Page, show: Show, language: str, who: str, causal: str
) -> None:
    data = receipts()
    data["summary"] |= {"basis": "reader", "model": "m", "answered_by": "gpt-4o"}
    show(desktop, html({**data, "language": language}, lang=language, answers_without=True))
    expect(desktop.locator(".reader")).to_contain_text(who)
    told = desktop.locator(".frame").inner_text()
    for opener in (*desktop.locator(".sentence .pill").all(), desktop.locator(".help")):
        opener.click()
        told += card(desktop).evaluate("panel => panel.textContent")
    assert not re.search(causal, told)


def test_an_answer_is_shown_before_and_without_an_attribution(desktop: Page, show: Show) -> None:
    waiting, foot = without_attribution("pending"), desktop.locator(".foot")
    show(desktop, html({"summary": waiting, "answer": "It is", "stage": "writing"}))
    expect(desktop.locator(".answer")).to_have_text("It is")
    expect(foot).to_contain_text("Writing…")
    reading = {**waiting, "documents": receipts()["summary"]["documents"]}
    desktop.evaluate(SET_DATA, {"summary": reading, "answer": ""})
    expect(foot).to_contain_text("Reading 4 passages…")
    failed = without_attribution("error", error=ValueError("no model"))
    desktop.evaluate(SET_DATA, {"summary": failed, "answer": "It."})
    expect(foot).to_contain_text("no model")
    show(desktop, html(stopped=True))
    expect(pills(desktop, "Maren")).to_have_text(["stopped"])
    show(desktop, ISLAND.to_html(answer=False))
    expect(desktop.locator(".answer")).to_be_hidden()
    expect(card(desktop)).to_contain_text("The ferry carries 84 people.")


@pytest.mark.parametrize(
    "texts",
    [(*ADDRESSES, *HTML[6:30:4]), pytest.param((*HTML, *HOSTILE), marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_hostile_texts_are_shown_and_run_nothing(
    desktop: Page, show: Show, texts: tuple[str, ...]
) -> None:
    act = """check => {
        const answer = document.querySelector("attribot-answer");
        const data = JSON.parse(answer.getAttribute("data"));
        data.summary.notes = [check.value];
        data.summary.sentences[0].checks = [check, { ...check, message: check.value }];
        data.without = { 0: check.value };
        answer.data = data;
        for (const one of answer.shadowRoot.querySelectorAll("button")) one.click();
        return answer.shadowRoot.querySelectorAll("script, img, iframe, style").length;
    }"""
    for text in texts:
        fields = dict.fromkeys(("title", "section", "url", "source", "link"), text)
        document = Document(f"{BICYCLE} {text}", text, fields)
        made = handmade(f"{text} is it.", [document], {BICYCLE: (3.0,), text: (2.0,)})
        check = {"value": text, "source_value": text, "start": 0, "end": 3, "kind": text}
        check = json.loads(json.dumps(check))
        data = html(answer_data(made), open_at=text)
        for page in (data, made.to_html(question=text, page=False)):  # which nothing else protects
            show(desktop, page)
            assert desktop.evaluate(act, check) == 0
            pills(desktop).first.click()
            for link in card(desktop).locator("a").all():
                assert re.match("https://evil.example|#", link.get_attribute("href") or "")


def test_what_is_behind_selected_words_is_shown(page: Page) -> None:
    words = sentence(page, "18 crowns").locator(".words")
    words.evaluate(
        "one => document.getSelection().setBaseAndExtent(one.firstChild, 0, one.firstChild, 6)"
    )
    expect(card(page).locator("h2")).to_contain_text("“A ticket”")
    expect(card(page).locator("mark")).to_have_text(TICKET)
    page.evaluate("document.getSelection().removeAllRanges()")
    expect(card(page)).to_be_hidden()


def test_characters_that_browsers_count_otherwise(desktop: Page, show: Show) -> None:
    """Emoji are two for a browser, control characters are shown by several."""
    data = receipts()
    data["answer"] = f"\U0001f6a2 {data['answer']}"
    for entry in (*data["summary"]["sentences"], *data["summary"]["sentences"][2]["checks"]):
        entry["start"], entry["end"] = entry["start"] + 2, entry["end"] + 2
    show(desktop, html(data))
    expect(desktop.locator(".answer .value")).to_have_text("4")
    ships = "\U0001f6a2\U0001f6a2 ships \u202e carry 84 people."
    show(desktop, handmade(ships, [f"\U0001f6a2 {ships}"], {ships: (3.0,)}).to_html())
    pills(desktop).first.click()
    for shown in (desktop.locator(".answer"), card(desktop).locator("mark")):
        expect(shown).to_contain_text(ships.replace("\u202e", "<U+202E>"))
