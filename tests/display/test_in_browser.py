"""The answer's element in a real browser: its sources, its controls, and what it must not do."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from support.attributions import ISLAND, handmade, supported, verdicts_of
from support.browser import assert_accessible, keep
from support.compositions import BOTH, CARRIES, EARLIER_RUNS, HIGH, composed, run
from support.hostile import ADDRESSES, HOSTILE, HTML
from support.receipts import ANSWER, BICYCLE, CHECK, TICKET, citing, pending, receipts

from attribot_rag import Document
from attribot_rag.attribution import Counterfactual, Verdict
from attribot_rag.display import answer_data, summary_data, without_data
from attribot_rag.display.page import render_summary
from attribot_rag.result.summary import without_attribution

PHONE, DESKTOP, HEIGHT = 390, 1280, 740
FILES, OWN, ALSO, NAMES = (
    "not from your files",
    "not in the 2 passages found",
    "also in 1",
    ("a.txt", "b.txt"),
)
ORSK, LIST = "The pass of Orsk lies at 2,140 m.", "Orsk: 2,140 m, a toll pass."
KITTIWAKE = "The ferry Kittiwake carries {} passengers."
FERRY, RIVAL, BELL = KITTIWAKE.format(40), KITTIWAKE.format(84), "The bell rings at noon."
ANDROID = "# Android\n\nVersion: now 10."
FARE = "Everyone pays 12 crowns."
GERMAN = "Die Fähre hat eine Küche. Der Kapitän der Fähre kennt die Insel und das Wetter gut."
NORLAND = "In Norland the guarantee lasts 24 months."
GUARANTEE = "The guarantee lasts 24 months from the day of purchase."
HOTELS = "Hotels may cost up to 130 euros a night."
ELSEWHERE = [("a.txt", "The pier is long."), ("b.txt", "Puffins breed on the cliffs.")]
BERLIN = "In Berlin, hotels may cost up to 140 euros a night."
ROW = "| Breakfast | 20 euros |"
MARKDOWN = f"""Hotels may cost up to **130 euros** a night. See [this](https://a.example/b).

## Exceptions

- **Berlin:** up to 150 euros a night

| Meal | Limit |
|---|---|
{ROW}

1. Keep `receipts`.

> Thank *you*."""
NOTEBOOK = "<!DOCTYPE html><html lang=en><title>Cell</title><main><h1>Cell</h1>"
SET_DATA = "data => { document.querySelector('attribot-answer').data = data }"
MAKE_ANEW = """data => document.querySelector("attribot-answer").replaceWith(
    Object.assign(document.createElement("attribot-answer"), { data }))"""
RESPOND = """answer => document.addEventListener("attribot-without", ({ detail }) => {
    (window.asked ??= []).push([detail.documents, detail.names, detail.ahead]);
    detail.respond(detail.documents[0] ? Promise.reject(new Error("no model")) : answer);
})"""
HEAR = """names => names.forEach((name) => document.addEventListener(name, (event) => {
    (window.heard ??= []).push([name, event.detail.sentence, event.detail.name]);
    if (window.own) event.preventDefault();
}))"""
TOPS = """answer => [...answer.querySelectorAll(".sentence")].map((one) => {
    const { left, top } = one.getClientRects()[0];
    return [one.textContent, Math.round(left), Math.round(top)];
})"""
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


def chips(page: Page, text: str = "") -> Locator:
    """The chips of the answer, or of the sentence with this text."""
    if not text:
        return page.locator(".answer .chip")
    index = page.locator(".answer .sentence", has_text=text).first.get_attribute("data-sentence")
    return page.locator(f'.answer [data-at^="{index} "]')


def card(page: Page) -> Locator:
    return page.locator(".card")


def opened(page: Page, text: str = "") -> Locator:
    """The card of a sentence, by its first chip."""
    chips(page, text).first.click()
    return card(page)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name).first.click()


def hosted(**fields: Any) -> dict[str, Any]:
    """The data of an answer in Markdown, as hosted models write them: one of its values differs."""
    policy = f"# Hotels\n\n{HOTELS} {BERLIN}\n\n| Meal | Limit |\n|---|---|\n{ROW}\n"
    documents = [Document(policy, metadata={"title": "travel-policy.md", "page_label": "2"})]
    kinds: list[dict[str, Any]] = [
        {"kind": "grounded", "source_ids": (0,), "effect": 9.0},
        *({"kind": kind} for kind in ("unsupported", "trivial")),
        {"kind": "grounded", "source_ids": (1,), "effect": 8.0},
        {"kind": "trivial"},
        {"kind": "grounded", "source_ids": (2,), "effect": 7.0},
        *({"kind": kind} for kind in ("trivial", "trivial")),
    ]
    ends = [MARKDOWN.index(end) for end in ("See", "##", "- **", "| Meal", ROW, "1. ", "> ")]
    verdicts = [
        Verdict(start=start, end=end, **kind)
        for (start, end), kind in zip(pairwise([0, *ends, len(MARKDOWN)]), kinds, strict=True)
    ]
    scores = dict.fromkeys((HOTELS, BERLIN, ROW), (1.0,))
    made = handmade(MARKDOWN, documents, scores, verdicts=tuple(verdicts))
    question = "What may a hotel cost?"
    return {**answer_data(supported(made, question), question=question), **fields}


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_and_what_is_marked_is_in_sight(
    new_page: Callable[..., Page], show: Show, width: int, scheme: str
) -> None:
    viewport = {"width": width, "height": HEIGHT}
    page = new_page(color_scheme=scheme, viewport=viewport, bypass_csp=True)
    for data in (hosted(), receipts()):
        show(page, render_summary(data, question="How many?", answers_without=True))
        keep(page, f"answer_{scheme}_{width}.png", full_page=True)
        assert_accessible(page)
        for opener in (".chip.warn", "[aria-label^=Next]", "summary", ".card .closer"):
            page.locator(opener).first.click()
            assert_accessible(page)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if width == PHONE:
        page.locator(".opens").click()
    for opener in (".list button.title", ".card .closer"):
        page.locator(opener).first.click()
        assert_accessible(page)
    page.set_content(NOTEBOOK + ISLAND._repr_html_())
    assert_accessible(page)


def test_a_notebook_shows_the_question_and_fits_its_scheme(new_page: Callable[..., Page]) -> None:
    """Also a page that is dark without saying so, as notebooks are."""
    asked = replace(ISLAND, question="What does the ferry cost?")
    for colours in ("color: #111; background: #fff", "color: #eee; background: #111"):
        page = new_page(viewport={"width": DESKTOP, "height": HEIGHT})
        page.set_content(f"<!DOCTYPE html><body style='{colours}'>{asked._repr_html_()}")
        expect(page.locator(".question")).to_have_text(asked.question)
        is_dark = page.locator(".frame").evaluate("one => one.style.colorScheme === 'dark'")
        assert is_dark == ("#eee" in colours)


def test_without_javascript_a_page_has_its_answer_and_what_that_cites(
    new_page: Callable[..., Page],
) -> None:
    page = new_page(java_script_enabled=False, viewport={"width": PHONE, "height": HEIGHT})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    for shown in (ISLAND.to_html(question="How many?"), ISLAND.to_html(page=False)):
        page.set_content(shown)
        expect(page.get_by_text("The ferry carries 84 people. [1 or 2]")).to_be_visible()
        expect(page.locator("attribot-answer li").first).to_be_visible()
    assert errors == []


def test_markdown_is_rendered_and_each_sentence_has_its_citation_at_its_end(view: View) -> None:
    answer = view(hosted()).locator(".answer")
    expect(answer.locator("strong")).to_have_text(["130 euros", "Berlin:"])
    expect(answer.locator(".heading")).to_have_text("Exceptions")
    expect(answer.locator("th")).to_have_text(["Meal", "Limit"])
    expect(answer.locator("code, blockquote em")).to_have_text(["receipts", "you"])
    expect(answer.get_by_role("link")).to_have_attribute("href", "https://a.example/b")
    expect(answer.locator("li").first.locator(".chip")).to_have_text(["140 in 1"])
    expect(answer.locator("td").last.locator(".chip")).to_have_count(1)
    expect(answer.locator("p").first).to_have_text(
        "Hotels may cost up to 130 euros a night. 1 ✓ See this. not in the passage found"
    )
    assert not re.search(r"\*\*|\|--|##", answer.inner_text())


def test_an_answer_that_is_being_written_is_rendered_and_does_not_jump(view: View) -> None:
    """From the last piece to the last verdict, each word stays where it is."""
    text = f"{FERRY} {BELL} The **{FARE}**"
    done = citing(text, [("a.txt", f"{FERRY} {BELL} {FARE}")], FERRY, BELL, FARE)
    asked = json.loads(json.dumps(done["summary"]))
    for sentence in asked["sentences"]:
        sentence |= {"verdict": "open", "reason": "pending", "documents": [], "source_ids": []}
        sentence |= {"remarks": [], "support": None, "standing": None}
    asked |= {"status": "pending", "trust": None}
    page = view(summary_data({"status": "pending"}, answer=f"{FERRY} {BELL}"[:-5], stage="writing"))
    expect(page.locator(".trust")).to_have_text("Writing…")
    places = []
    for data in (
        summary_data({"status": "pending"}, answer=text, stage="writing"),
        summary_data(asked, answer=text),
        done,
    ):
        page.evaluate(SET_DATA, json.loads(json.dumps(data)))
        expect(page.locator(".answer")).to_be_visible()
        expect(page.locator("strong")).to_have_text(FARE)
        box = page.locator("strong").bounding_box()
        assert box is not None
        places.append((round(box["x"]), round(box["y"])))
    assert len(set(places)) == 1, places
    expect(chips(page)).to_have_text(["1 ✓", "1 ✓", "1 ✓"])


def test_three_looks_of_a_chip_and_one_line_of_trust(view: View) -> None:
    """Said, prompted by a text that does not say it, said otherwise, and in no passage."""
    texts = [("a.txt", f"{FERRY} {BELL}"), ("b.txt", f"{GUARANTEE} Norland is here.")]
    said = f"{FERRY.replace('40', '84')} {BELL} {NORLAND} The capital of France is Paris."
    page = view(citing(said, texts, FERRY, BELL, GUARANTEE, None))
    expect(chips(page)).to_have_text(["40 in 1", "1 ✓", "2 ?", OWN])
    looks = ["warn", "", "part", "warn"]
    for chip, look in zip(chips(page).all(), looks, strict=True):
        expect(chip).to_have_class(re.compile(rf"^chip {look}$"))
    expect(page.locator(".trust")).to_have_text(
        "1 of 4 sentences are supported by your files · 1 differs from your files"
        f" · 1 may not be supported by its source · 1 is {OWN}"
    )
    expect(page.locator(".answer .value")).to_have_text(["84", "Norland"])
    expect(page.locator(".list li").last.locator(".chip")).to_have_class("chip part")
    chips(page, "Norland").hover()
    expect(page.locator(".tip")).to_contain_text("which may not say it")
    expect(page.locator(".tip mark")).to_have_text("guarantee lasts 24 months")
    press(page, "1 may not be supported by its source")
    expect(card(page)).to_contain_text("The model took this from b.txt, which")
    expect(card(page).locator("dd").first.locator(".gap")).to_have_text(["Norland"])
    expect(card(page).locator("dd .same")).to_have_text(["guarantee lasts 24 months"] * 2)


def test_what_a_file_says_stays_solid_where_it_lacks_words_of_the_question(view: View) -> None:
    made = handmade(
        GUARANTEE,
        [Document(GUARANTEE, metadata={"title": "a.txt"}), "The tenant gives notice."],
        {GUARANTEE: (9.0,), "The tenant gives notice.": (0.0,)},
        verdicts=verdicts_of(GUARANTEE, {"kind": "grounded", "source_ids": (0,)}),
    )
    asked = "How long does the tenant have to give notice?"
    page = view(answer_data(supported(made, asked), question=asked))
    expect(chips(page)).to_have_text(["1 ✓", "does not mention tenant, notice"])
    expect(chips(page).first).to_have_class("chip ")
    expect(chips(page).last).to_have_class("chip note")
    expect(page.locator(".trust")).to_have_text("Supported by your files")
    told = "a.txt says this, but does not mention tenant, notice"
    expect(chips(page).first).to_have_attribute("aria-label", told)
    expect(opened(page).locator(".verdict")).to_have_text(f"{told}.")
    expect(card(page).locator(".verdict")).to_have_class("verdict ")
    expect(page.locator(".answer .value, .card .gap")).to_have_count(0)


def test_what_follows_from_a_sentence_in_doubt_is_in_doubt(view: View) -> None:
    made = handmade(
        f"{FERRY} {NORLAND} So it is large.",
        [f"{FERRY} {GUARANTEE}"],
        {FERRY: (9.0,), GUARANTEE: (0.0, 9.0)},
    )
    kinds = ({"kind": "grounded", "source_ids": (0,)}, {"kind": "grounded", "source_ids": (1,)})
    for follows, shown in (
        (0, "follows from “The ferry Kittiwake…”"),
        (1, "follows from “In Norland"),
    ):
        verdicts = verdicts_of(made.response, *kinds, {"kind": "follows", "follows": follows})
        page = view(answer_data(supported(replace(made, verdicts=verdicts))))
        last = chips(page).last
        expect(last).to_contain_text(shown)
        expect(last).to_have_class(re.compile("part" if follows else "note"))
        last.click()
        expect(card(page)).to_contain_text("ollows from")
        press(page, "Go to that sentence")
        expect(page.locator(".sentence.on")).to_contain_text(["ferry", "Norland"][follows])


def test_every_sentence_says_where_it_is_from(view: View) -> None:
    """By numbers; amber where a reader should look. Each has a name for a screen reader."""
    page = view()
    expect(chips(page, "18 crowns")).to_have_text(["1"])
    expect(chips(page, "84")).to_have_text(["1", "2"])
    expect(
        page.get_by_role("button", name="Source of this sentence: festival.md, page 4")
    ).to_have_count(2)
    expect(page.locator(".answer .warn")).to_have_text(["3 in 1", FILES])
    expect(opened(page, "4 crowns").locator(".verdict")).to_have_text("ferry.txt says 3 instead.")
    expect(card(page).locator("details b")).to_have_text(["ferry.txt"] * 2)  # each score's
    expect(page.locator(".list li")).to_have_count(4)
    expect(page.locator(".list li.off")).to_contain_text(["wildlife.txt"])
    press(page, "How to read this")
    expect(card(page)).to_contain_text("dashed")


@pytest.mark.parametrize(
    ("said", "cited", "texts", "shown", "values", "trusted"),
    [
        # The model's own, but a file says it: that is told, and nothing is amber.
        (
            "The Android version is 10.",
            None,
            ["No.", "# Android\n\nVersion: now 10."],
            [ALSO],
            [],
            1,
        ),
        (ORSK, None, ["No.", LIST], [ALSO], [], 1),
        (ORSK, None, ["No.", "Orsk has 2,410 people."], [OWN], [], 0),
        # A file says the same with another number; what it says of other things is not told.
        (FERRY, FERRY, [FERRY, RIVAL], ["1 ✓", "84 in 2"], ["40"], 1),
        (FERRY, FERRY, [f"{FERRY} {BELL} {RIVAL}"], ["84 in 1"], ["40"], 1),
        (FERRY, None, [f"No. {RIVAL}", RIVAL], ["84 in 1 and 2"], ["40"], 0),
        (FERRY, FERRY, [FERRY, KITTIWAKE.format("84 dogs and")], ["1 ✓"], [], 1),
        # A value or a name that is in no file; in German, a noun is none.
        ("A Dutch pays 12.90 crowns.", FARE, [FARE], ["12 in 1"], ["12.90"], 0),
        ("Sie hat eine Bar.", GERMAN[:25], [GERMAN[:25], GERMAN], ["1 ✓", "2 ✓"], [], 1),
    ],
)
def test_numbers_stand_after_a_sentence_and_what_to_look_at(
    view: View,
    said: str,
    cited: str | None,
    texts: list[str],
    shown: list[str],
    values: list[str],
    trusted: int,
) -> None:
    data = citing(said, [*zip(NAMES, texts, strict=False)], cited)
    data["summary"]["sentences"][0]["checks"] = [
        CHECK | {"start": at.start(), "end": at.end(), "value": at[0], "source_value": None}
        for at in re.finditer(r"\d+\.\d+", said)  # a number that is in no file
    ]
    page = view(data)
    expect(chips(page)).to_have_text(shown)
    expect(page.locator(".answer .value")).to_have_text(values)
    has_line = re.match("Supported by |Das steht in ", page.locator(".trust").inner_text())
    assert bool(has_line) == bool(trusted)


def test_a_second_chip_moves_the_card_to_what_it_says(view: View) -> None:
    texts = [("list.txt", f"{FERRY} {BELL}"), ("guide.txt", f"Welcome. {RIVAL} {LIST}")]
    page = view(citing(f"{FERRY} {ORSK}", texts, FERRY, None))
    expect(opened(page, ORSK)).to_contain_text("guide.txt says this.")
    expect(card(page).locator("dd").last).to_have_text(LIST)
    quotes = opened(page, FERRY).locator("dd")
    expect(card(page).locator(".verdict")).to_have_text("list.txt says this; guide.txt says 84.")
    expect(quotes.nth(1)).to_have_text(f"list.txt{FERRY}")
    chips(page, FERRY).last.click()
    expect(quotes.nth(1)).to_have_text(f"guide.txt{RIVAL}")
    expect(quotes.nth(1).locator("mark.gap")).to_have_text("84")
    chips(page, FERRY).last.click()
    expect(card(page)).to_be_hidden()


def test_the_closest_passage_of_a_sentence_of_the_models_own_is_dashed(view: View) -> None:
    texts = [("list.txt", FARE), ("notes.txt", "Twelve men painted the hull in 1912.")]
    said = "A sailor came aboard in 1912."
    page = view(citing(said, texts, None), answers_without=True)
    expect(chips(page)).to_have_text(["1 ?"])
    expect(opened(page, "1912").locator(".verdict")).to_contain_text("closest text is in notes.txt")
    expect(card(page).locator("dd").last).to_contain_text("painted the hull")
    expect(card(page).locator(".counterfactual")).to_have_count(0)  # it is no cause


def test_one_sentence_in_two_files_is_said_to_be_so(view: View) -> None:
    """Passages of one file are one file, and the other answer is without all that say it."""
    texts = [("ferry.txt", BELL), ("festival.md", f"Hi. {BELL}"), ("festival.md", "Bring water.")]
    without = {"0,1,2": "The bell\nrings in the island's room."}
    shown = opened(view({**citing(BELL, texts, BELL), "without": without}))
    expect(shown).to_contain_text("Both contain the same sentence")
    expect(shown).to_contain_text("Without ferry.txt and festival.md the model answers")
    expect(shown.locator(".text")).to_have_text("The bell rings in the island's room.")


def test_another_answer_is_shown_with_its_own_citations(view: View) -> None:
    said = "The ferry takes 84 passengers. A ticket costs 18 crowns."
    other = Counterfactual(
        documents=(0,), response=f"{BELL} It has 84 cabins.", score=3.0, exact=True
    )
    made = handmade(said, [said, BELL], {said: (9.0, 9.0), BELL: (0.0, 0.0)})
    kind = {"kind": "grounded", "source_ids": (0,)}
    made = supported(replace(made, verdicts=verdicts_of(said, kind, kind)))
    page = view(answer_data(made), answers_without=True)
    page.evaluate(RESPOND, without_data(made, other))
    shown = opened(page, "18 crowns").locator(".counterfactual")
    press(page, "What does the model answer without")
    expect(shown.locator(".text")).to_contain_text(BELL)
    expect(shown.locator(".chip")).to_have_count(2)
    expect(shown.locator(".chip.warn")).to_have_text("not in the passage found")
    opened(page, "84")  # it was asked already
    expect(shown).to_contain_text(BELL)
    assert len(page.evaluate("asked")) == 1
    page.evaluate("document.body.append(document.createElement('attribot-answer'))")  # the next
    expect(card(page)).to_be_hidden()


def test_another_answer_has_a_chip_only_for_what_was_compared_and_stops_where_it_loops(
    view: View,
) -> None:
    ferry, fare = KITTIWAKE.format(84), "A ticket costs 18 crowns."
    kept = [
        Document(BELL, metadata={"title": "b.txt"}),
        Document(fare, metadata={"title": "c.txt"}),
    ]
    made = handmade(ferry, [ferry, *kept], {ferry: (9.0,), BELL: (0.0,), fare: (0.0,)})
    verdicts = verdicts_of(ferry, {"kind": "grounded", "source_ids": (0,)})
    made = supported(replace(made, verdicts=verdicts))
    loop = "The cats of Orsk sleep."
    text = " ".join([BELL, "A ticket costs 12 crowns.", "Thank you!", *[loop] * 30])
    other = Counterfactual(documents=(0,), response=text, score=3.0, exact=True)
    page = view({**answer_data(made), "without": {"0": without_data(made, other)}})
    shown = opened(page).locator(".counterfactual .text")
    looks = shown.locator(".chip").evaluate_all(
        "all => all.map((one) => [one.className.trim(), one.firstChild.textContent])"
    )
    assert looks[:2] == [["chip", "b.txt"], ["chip warn", "18 in c.txt"]]
    assert [text for _, text in looks].count("not in the 2 passages found") <= 2
    assert shown.inner_text().count("cats of Orsk") == 1
    press(page, "Show the whole answer")
    assert shown.inner_text().count("cats of Orsk") == 30


def test_what_the_others_only_nearly_say_is_dashed(view: View) -> None:
    oil = "A ticket costs 4 crowns and is sold in the former oil store at the foot of the stairs."
    ferry = KITTIWAKE.format(84)
    made = handmade(ferry, [ferry, oil], {ferry: (9.0,), oil: (0.0,)})
    verdicts = verdicts_of(ferry, {"kind": "grounded", "source_ids": (0,)})
    made = supported(replace(made, verdicts=verdicts))
    text = oil.replace("A ticket costs", "The deposit is")
    other = Counterfactual(documents=(0,), response=text, score=3.0, exact=True)
    page = view({**answer_data(made), "without": {"0": without_data(made, other)}})
    chip = opened(page).locator(".counterfactual .chip.part")
    expect(chip).to_contain_text("?")
    expect(chip).to_contain_text(
        re.compile("closest text is in .*, which does not mention deposit")
    )


def test_every_passage_has_its_heading_and_a_first_line(view: View) -> None:
    rent = "# Contract\n\n## Rent\n\nThe rent is 890 euros."
    rules = Document(
        "Dogs need a permission.", metadata={"title": "contract.md", "section": "House rules"}
    )
    contract = Document(rent, metadata={"title": "contract.md"})
    documents: list[str | Document] = [contract, rules, FERRY]
    made = handmade(FERRY, documents, {FERRY: (9.0,)})
    kind = {"kind": "grounded", "source_ids": (0,)}
    page = view(answer_data(supported(replace(made, verdicts=verdicts_of(FERRY, kind)))))
    entries = page.locator(".list li")
    expect(entries.nth(1)).to_contain_text("contract.md Contract")
    expect(entries.nth(1)).to_contain_text("not used · The rent is 890 euros.")
    expect(entries.nth(2)).to_contain_text("contract.md House rules")
    expect(entries.nth(2)).to_contain_text("not used · Dogs need a permission.")
    expect(entries.nth(0).locator(".line")).to_have_text(FERRY)


def test_the_row_of_a_cited_passage_shows_what_is_cited_and_the_heading_above(view: View) -> None:
    hours = f"# Opening hours\n\nIt is closed.\n\n## Food\n\nThe kitchen closes. **{BELL}**"
    texts = [("hours.md", hours), ("rules.md", f"Welcome to the house. {FARE}")]
    page = view(citing(BELL, texts, f"**{BELL}**"))
    rows = page.locator(".list li")
    expect(rows.first.locator(".title")).to_have_text("hours.md Food")
    expect(rows.first.locator(".line mark")).to_have_text(BELL)
    expect(rows.last.locator(".line")).to_have_text(f"not used · Welcome to the house. {FARE}")
    expect(rows.locator("mark")).to_have_count(1)


def test_the_help_explains_each_word_and_names_no_settings(view: View) -> None:
    data = receipts()
    notes = ["Not every token is the model's: logits_processor may differ.", "A file was cut."]
    data["summary"] = summary_data({**data["summary"], "notes": notes}, answer=ANSWER)["summary"]
    page = view(data)
    press(page, "How to read this")
    for word in ("“Follows from”", "“The same”", "“And”", "“or”", "A file was cut."):
        expect(card(page)).to_contain_text(word)
    expect(card(page)).not_to_contain_text(re.compile("token|logits"))
    expect(opened(page, "36 crowns")).to_contain_text("an earlier sentence of the answer, not")


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_a_chip_is_large_enough_for_a_finger(view: View, width: int) -> None:
    page = view()
    page.set_viewport_size({"width": width, "height": HEIGHT})
    for chip in chips(page).all():
        box = chip.bounding_box()
        assert box is not None and min(box["width"], box["height"]) >= 24


def test_what_the_sentence_before_says_is_not_said_again_in_words(view: View) -> None:
    page = view(citing(f"{BELL} {FARE} {FERRY}", ELSEWHERE, None, None, None))
    texts = chips(page).all_inner_texts()
    assert texts == [OWN, "the same", "the same"]
    assert chips(page).last.get_attribute("aria-label") == OWN.capitalize()


def test_one_card_at_a_time_stands_beside_or_below_its_own_answer(view: View) -> None:
    """As in a chat, whose last answer ends where the scrolled box does."""
    page = view()
    page.evaluate(
        """() => {
            const box = document.createElement("div");
            box.style.cssText = "height: 600px; overflow: auto";
            const answer = document.querySelector("attribot-answer");
            answer.parentElement.append(box);
            const second = Object.assign(answer.cloneNode(), { data: answer.data });
            const question = document.createElement("h2");
            question.textContent = "And what else?";
            box.append(answer, question, second);
        }"""
    )
    answers, box = page.locator("attribot-answer"), page.locator("div:has(> attribot-answer)")
    answers.first.locator(".answer .chip").first.click()
    expect(card(page)).to_have_count(1)
    box.evaluate("one => { one.scrollTop = one.scrollHeight }")
    chip = answers.last.locator(".answer .chip").nth(2)
    chip.click()
    expect(card(page)).to_have_count(1)
    expect(chip).to_be_in_viewport(ratio=1)
    expect(answers.last.locator(".card")).to_be_in_viewport(ratio=1)
    own, shown = answers.last.bounding_box(), answers.last.locator(".card").bounding_box()
    assert own is not None and shown is not None and shown["y"] >= own["y"]
    page.set_viewport_size({"width": PHONE, "height": HEIGHT})
    for answer in (answers.first, answers.last):
        answer.locator(".opens").evaluate("one => one.click()")  # also below a sheet
        expect(page.locator(".panel:popover-open")).to_have_count(1)
        expect(answer.locator(".panel")).to_be_visible()


def test_a_panel_that_is_cut_off_fades_out_until_its_end(view: View) -> None:
    page = view(answers_without=True)
    page.set_viewport_size({"width": PHONE, "height": 420})
    opened(page, "Bell")
    panel = page.locator(".panel")
    expect(panel).to_have_class(re.compile("more"))
    panel.evaluate("one => { one.scrollTop = one.scrollHeight }")
    expect(panel).not_to_have_class(re.compile("more"))


def test_another_answer_is_asked_for_ahead_where_the_support_is_in_doubt(view: View) -> None:
    texts = [("a.txt", f"{GUARANTEE} {FARE}")]
    data = citing(f"{NORLAND} {FARE}", texts, GUARANTEE, FARE)
    page = view(data)
    page.evaluate(RESPOND, "Three months.")
    page.evaluate(
        "document.querySelector('attribot-answer').setAttribute('answers-without', 'ahead')"
    )
    assert page.evaluate("asked") == [[[0], ["a.txt"], True]]
    expect(opened(page, "Norland").locator(".counterfactual")).to_contain_text("Three months.")


def test_all_files_are_searched_for_a_sentence_that_no_passage_has(view: View) -> None:
    page = view(citing("Paris is big.", [("a.txt", FERRY)], None), searches=True)
    page.evaluate(
        """() => document.addEventListener("attribot-search", ({ detail }) =>
            detail.respond(window.none ? [] : [
                { name: "b.txt", text: `${detail.text} <b>Yes.`, same: [[0, 5]], all: true },
                { name: "c.txt", text: "Paris.", href: "/passages/7#cited" },
                { name: "d.txt", text: "Paris.", href: "javascript:alert(1)" }]))"""
    )
    opened(page)
    press(page, "Search all files for this")
    expect(card(page).locator("li").first).to_have_text(
        "b.txt has all words: Paris is big. <b>Yes."
    )
    expect(card(page).locator("li a")).to_have_text("c.txt")
    expect(card(page).locator("li a")).to_have_attribute("href", "/passages/7#cited")
    expect(card(page).locator("li mark")).to_have_text("Paris")
    press(page, "Close")
    page.evaluate("window.none = true")
    opened(page)
    press(page, "Search all files for this")
    expect(card(page).locator(".found")).to_contain_text(
        "No file has most words of “Paris is big.”"
    )
    expect(card(page).locator(".found")).to_contain_text("another language")


def test_why_there_is_no_other_answer_is_told(view: View) -> None:
    page = view(answers_without=True)
    page.evaluate(RESPOND, "")
    opened(page, "Bell")
    press(page, "What does the model answer without museum.md?")
    expect(card(page)).to_contain_text("no model")


def test_a_row_of_a_table_is_quoted_under_its_header(view: View) -> None:
    row = "| North loop | 689 | 3 years |"
    tail = "It was **built**\nby *Ada Venn*, see [the plan](plan.md)."
    text = f"# Fares\n\n| Route | Length | For |\n|---|--:|---|\n{row}\n| South | 1 | 2 |\n\n{tail}"
    said = "The North loop is 689 long. Ada Venn built it."
    page = view(citing(said, [("/data/routes.md", text)], row, tail))
    rows = opened(page).locator("dd tr").all()
    cells = [row.locator("th, td").all_inner_texts() for row in rows]
    assert cells == [["Route", "Length", "For"], ["North loop", "689", "3 years"]]
    expect(opened(page, "Ada Venn").locator("dd").last).to_have_text(
        re.compile(r"^It was built\s+by Ada Venn, see the plan\.$")
    )


def test_a_chip_leads_to_its_source_and_the_source_to_its_document(view: View) -> None:
    data = receipts()
    data["documents"]["0"] += "\n\nNo fishing." * 99
    page = view(data)
    lamp = chips(page, "Bell and lamp").nth(1)
    lamp.click()
    expect(card(page).locator("dd").nth(1)).to_contain_text("The lamp")
    lamp.click()
    expect(card(page)).to_be_hidden()
    page.locator(".sentence", has_text="18 crowns").click()
    expect(card(page).locator("dd").last).to_have_text(TICKET)
    press(page, "Open file")
    expect(card(page).locator(".whole mark")).to_have_text(TICKET)
    expect(card(page).locator(".whole mark")).to_be_in_viewport(ratio=1)
    press(page, "Back")
    expect(card(page).locator("dd").last).to_have_text(TICKET)
    page.locator(".list summary").click()
    page.locator(".list").get_by_role("button", name="museum.md").click()
    expect(card(page).locator(".whole mark")).to_have_text("The lamp came from the same foundry.")


def test_a_card_opens_without_moving_what_is_read(view: View) -> None:
    """On a phone it is a sheet from below, which shows its sentence above it."""
    page = view()
    for width in (DESKTOP, PHONE):
        page.set_viewport_size({"width": width, "height": HEIGHT})
        before = page.locator(".answer").evaluate(TOPS)
        opened(page, "84")
        assert page.locator(".answer").evaluate(TOPS) == before
        press(page, "Close")
    chips(page).last.click()
    expect(page.locator(".sentence.on").first).to_be_in_viewport(ratio=1)
    sheet = page.locator(".panel").bounding_box()
    sentence = page.locator(".sentence.on").first.bounding_box()
    assert sheet is not None and sentence is not None
    assert sentence["y"] + sentence["height"] <= sheet["y"]
    assert (sheet["x"], sheet["x"] + sheet["width"], sheet["y"] + sheet["height"]) == (
        0,
        PHONE,
        HEIGHT,
    )
    page.keyboard.press("Escape")
    expect(page.locator(".panel")).to_be_hidden()
    page.locator(".opens").click()
    expect(page.locator(".list li")).to_have_count(4)


def test_a_page_opens_documents_and_cards_of_its_own(view: View) -> None:
    page = view(open_at="https://files.example/{sentence}/{number}/{index}")
    page.evaluate(HEAR, ["attribot-choose", "attribot-open"])
    link = opened(page, "Bell").get_by_role("link", name="festival.md")
    expect(link).to_have_attribute("href", "https://files.example/5/2/1")
    page.evaluate("window.own = true")
    link.click()
    opened(page, "18 crowns")
    expect(page.locator(".sentence.on").first).to_contain_text("Bell")
    chosen = [["attribot-choose", 5, "festival.md"], ["attribot-choose", 1, "ferry.txt"]]
    assert page.evaluate("heard") == [chosen[0], ["attribot-open", 5, "festival.md"], chosen[1]]
    press(page, "Close")
    page.locator("attribot-answer").evaluate("one => one.setAttribute('cards', 'none')")
    expect(opened(page, "84")).to_be_hidden()


def test_a_chip_stays_with_the_last_word_of_its_sentence(view: View) -> None:
    page = view(citing(FERRY, [("Timetable of the island railway.pdf", FERRY)], FERRY))
    for width in range(300, PHONE, 10):
        page.set_viewport_size({"width": width, "height": HEIGHT})
        last = page.locator(".sentence").evaluate("one => [...one.getClientRects()].at(-1).bottom")
        assert chips(page).evaluate("one => one.getBoundingClientRect().top") < last


def test_everything_can_be_done_by_keyboard(view: View) -> None:
    page = view()
    first = chips(page).first
    first.focus()
    for button in chips(page).all()[1:]:
        page.keyboard.press("Tab")
        expect(button).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(chips(page, "sail")).to_be_focused()
    chosen, status = chips(page, "18 crowns"), page.locator("[role=status]")
    first.focus()
    page.keyboard.press("ArrowRight")
    expect(chosen).to_be_focused()
    expect(page.locator(".tip")).to_contain_text(TICKET)
    page.keyboard.press("Enter")
    expect(chosen).to_have_attribute("aria-expanded", "true")
    expect(status).to_contain_text("Sentence 2 of 9")
    following = page.get_by_role("button", name="Next sentence")
    for number, told in ((3, "ferry.txt says 3 instead"), (4, "Not from your files")):
        following.focus()
        page.keyboard.press("Enter")
        expect(card(page).locator(".place")).to_have_text(f"Sentence {number} of 9")
        expect(following).to_be_focused()
        expect(status).to_contain_text(told)
    page.keyboard.press("Escape")
    expect(chips(page, "dolphins")).to_be_focused()
    expect(page.locator("[aria-expanded=true]")).to_have_count(0)


def test_later_verdicts_leave_an_open_card_open(view: View) -> None:
    """Whether the page sets new data, or makes the element anew."""
    data = pending()
    page = view(data)
    checking = page.locator(".sentence.checking")
    expect(checking).to_have_count(7)
    expect(page.locator(".progress")).to_have_text("Checking sentence 3 of 9…")
    widths = page.locator(".wait").evaluate_all("all => all.map((one) => one.offsetWidth)")
    number = page.locator(".answer button.chip").first
    judged = number.evaluate("one => { one.textContent = '1 ✓'; return one.offsetWidth; }")
    assert len(widths) == 7 and max(abs(width - judged) for width in widths) <= 4
    opened(page, "18 crowns")
    data["summary"]["sentences"][3] = receipts()["summary"]["sentences"][3]
    page.evaluate(SET_DATA, data)
    expect(checking).to_have_count(6)
    expect(chips(page, "18 crowns")).to_be_focused()
    page.evaluate(MAKE_ANEW, receipts())
    expect(page.locator(".sentence.checking, .progress")).to_have_count(0)
    expect(page.locator(".sentence.on")).to_contain_text("18 crowns")
    expect(card(page).locator("dd").last).to_have_text(TICKET)
    page.evaluate(SET_DATA, {"summary": without_attribution("pending"), "answer": "Well"})
    expect(card(page)).to_be_hidden()


def test_an_answer_made_of_earlier_answers_cites_their_documents(view: View) -> None:
    grounded = {"kind": "grounded", "source_ids": (0, 2), "effect": 9.0, "kept": 1.0}
    verdicts = verdicts_of(BOTH, grounded, {"kind": "unsupported"})
    last = composed((9.0, 0.0), (0.0, 0.0), (8.0, 0.0), verdicts=verdicts)
    page = view(run("whole", last, earlier=EARLIER_RUNS).summary)
    expect(chips(page, "The tower is high")).to_have_text(["1", "2"])
    expect(chips(page, "Both")).to_have_text([FILES])
    chips(page, "The tower is high").last.click()
    expect(card(page).locator("dd").nth(1)).to_contain_text(CARRIES)
    expect(card(page).locator("dd").nth(2)).to_contain_text(HIGH)
    # The effect was measured on the earlier answers, not on the documents.
    expect(card(page)).not_to_contain_text(re.compile(r"nfluence|9\.0"))


@pytest.mark.parametrize("language", ["en", "de"])
def test_an_answer_that_another_model_read_speaks_of_support(view: View, language: str) -> None:
    data = receipts()
    data["summary"] |= {"basis": "reader", "model": "m", "answered_by": "gpt-4o"}
    page = view({**data, "language": language}, lang=language, answers_without=True)
    expect(page.locator(".reader")).to_contain_text({"en": "answered", "de": "Antwort"}[language])
    told = page.locator(".frame").inner_text()
    for opener in (*chips(page).all(), page.locator(".help")):
        opener.click()
        told += card(page).evaluate("panel => panel.textContent")
    assert "gpt-4o" in told and not CAUSAL.search(told)


def test_numbers_are_written_as_the_language_does(view: View) -> None:
    shown = opened(view({**receipts(), "language": "de"}), "18 crowns")
    shown.locator("summary").click()
    expect(shown.locator("details")).to_contain_text("9,4 Nats")


def test_an_answer_is_shown_before_and_without_an_attribution(view: View) -> None:
    waiting = without_attribution("pending")
    reading = {**waiting, "documents": receipts()["summary"]["documents"]}
    failed = without_attribution("error", error=ValueError("no model"))
    for told, data in {
        "Writing…It is": {"summary": waiting, "answer": "It is", "stage": "writing"},
        "Reading 4 passages…": {"summary": reading, "answer": ""},
        "no model": {"summary": failed, "answer": "It."},
    }.items():
        expect(view(data).locator(".main")).to_contain_text(told)
    expect(chips(view(stopped=True), "Maren")).to_have_text(["stopped"])
    page = view(ISLAND.to_html(answer=False))
    expect(page.locator(".answer")).to_be_hidden()
    expect(card(page)).to_contain_text("The ferry carries 84 people.")
    for width in (DESKTOP, PHONE):  # it is in the page
        page.set_viewport_size({"width": width, "height": HEIGHT})
        expect(card(page)).to_be_visible()


def test_colours_and_sizes_are_the_pages(view: View) -> None:
    """Also the scheme of a page that is dark without saying so, and its change."""
    page = view(ISLAND.to_html(page=False))
    style = "attribot-answer { --attribot-source: rgb(1, 2, 3); --attribot-size: 30px }"
    page.add_style_tag(content=style)
    chip = chips(page).first
    expect(chip).to_have_css("color", "rgb(1, 2, 3)")
    expect(chip).to_have_css("font-size", "22.5px")
    frame = page.locator(".frame")
    expect(frame).to_have_css("background-color", "rgb(255, 255, 255)")
    page.evaluate("document.body.style.cssText = 'background: #111; color: #eee'")
    expect(frame).to_have_css("background-color", "rgb(21, 23, 28)")


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
                assert re.match("https://evil.example|mailto:|#", link.get_attribute("href") or "")


def test_a_long_hostile_answer_is_inert(view: View) -> None:
    """200 KB of tags, tables in tables, and what makes a parser slow."""
    piece = "<table><tr><td><img src=x onerror=alert(1)><script>alert(1)</script> | a |\n|---|\n"
    text = f"[click](javascript:alert(1)) ![x](https://evil.example/x.png)\n\n{piece}"
    for answer in (text, text + piece * 2_500, "[" * 30_000):
        answered = {"status": "complete", "sentences": [], "documents": []}
        shown = view(summary_data(answered, answer=answer)).locator(".answer")
        assert shown.locator("img, script, a, iframe").count() == 0
        assert shown.evaluate("one => one.textContent.length") > len(answer) * 0.7


def test_characters_that_browsers_count_otherwise(view: View) -> None:
    """Emoji are two for a browser, control characters are shown by several."""
    data = receipts()
    data["answer"] = f"\U0001f6a2 {data['answer']}"
    for entry in (*data["summary"]["sentences"], *data["summary"]["sentences"][2]["checks"]):
        entry["start"], entry["end"] = entry["start"] + 2, entry["end"] + 2
    data |= summary_data(data["summary"], answer=data["answer"])
    expect(view(data).locator(".answer .value")).to_have_text("4")
    ships = "\U0001f6a2\U0001f6a2 ships \u202e carry 84 people."
    page = view(handmade(ships, [f"\U0001f6a2 {ships}"], {ships: (3.0,)}).to_html())
    for shown in (opened(page).locator("dd").last, page.locator(".answer")):
        expect(shown).to_contain_text(ships.replace("\u202e", "<U+202E>"))
