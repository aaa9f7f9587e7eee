"""The report of a batch in a real browser: its worklist, and the pages of the answers in it."""

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect
from support.browser import assert_accessible, happening, look_up
from support.hostile import HTML
from support.receipts import ANSWER, BICYCLE, QUESTION, receipts

from attribot_batch import Statistics
from attribot_batch.report import KINDS, render_report, worklist, write_pages
from attribot_rag.display import words_for

SETTING = {"input": "answers.jsonl", "model": "/models/smollm2", "method": "auto"}


def results() -> list[dict[str, object]]:
    summary = receipts()["summary"]
    sentences = [{**sentence, "text": HTML[0]} for sentence in summary["sentences"][3:4]]
    return [
        {"number": 0, "id": "a", "response": ANSWER, "summary": {**summary, "question": QUESTION}},
        {
            "number": 7,
            "id": HTML[0],
            "response": HTML[0],
            "summary": {**summary, "sentences": sentences},
        },
    ]


def test_values_to_check_come_first() -> None:
    items = worklist(results())
    assert [(item.number, item.kind, item.sentence[:9]) for item in items] == [
        (0, "check", "A bicycle"),
        (0, "unsupported", "The cross"),
        (7, "unsupported", "<script>a"),
        (0, "open", "It may sa"),
    ]
    differs = words_for("contradicted", mark="[1]", value="3")
    assert (items[0].reason, items[0].question, items[2].question) == (differs, QUESTION, "")
    assert len(worklist(results(), most=2)) == 2


def test_bars_filter_the_worklist_and_lead_to_answers(
    new_page: Callable[..., Page], tmp_path: Path
) -> None:
    items = worklist(results())
    write_pages(tmp_path, results(), items)
    statistics = Statistics.of({**result, "document_scores": {}} for result in results())
    report = render_report(statistics, SETTING, records=2, rejects={}, items=items)
    assert "/models" not in report and "/data" not in report
    (tmp_path / "report.html").write_text(report, "utf-8")
    page = new_page(viewport={"width": 360, "height": 740}, color_scheme="dark", bypass_csp=True)
    happened = happening(page)
    page.goto((tmp_path / "report.html").as_uri())
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shown = page.locator(".worklist li:visible")
    expect(shown).to_have_count(4)
    page.get_by_label(KINDS["unsupported"]).check()
    expect(shown).to_have_count(2)
    expect(shown.last).to_contain_text(HTML[0])
    page.get_by_label(KINDS["check"]).check()
    expect(shown).to_have_count(1)
    expect(shown).to_contain_text(words_for("contradicted", mark="[1]", value="3"))
    shown.get_by_role("link").click()
    expect(page.locator("h1")).to_have_text(QUESTION)
    look_up(page.locator("attribot-answer"), BICYCLE)
    assert_accessible(page)
    page.go_back()
    page.get_by_label(KINDS["unsupported"]).check()
    shown.last.get_by_role("link").click()
    expect(page.locator(".answer")).to_contain_text(HTML[0])
    assert {Path(text).name for text in happened} == {"report.html", "0.html", "7.html"}
