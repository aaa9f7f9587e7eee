"""The report of a batch in a real browser: what to look at, and the pages of these answers."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from support.browser import look_up, new_context
from support.hostile import HTML
from support.receipts import ANSWER, BICYCLE, QUESTION, receipts

from attribot_rag.batch.report import render_report, worklist, write_pages
from attribot_rag.batch.statistics import Statistics

SETTING = {"input": "answers.jsonl", "model": "/models/smollm2", "method": "auto"}


def results() -> list[dict[str, object]]:
    summary = receipts()["summary"]
    sentences = [{**sentence, "text": HTML[0]} for sentence in summary["sentences"][3:4]]
    return [
        {"number": 0, "id": "a", "response": ANSWER, "summary": {**summary, "query": QUESTION}},
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
    assert (items[0].reason, items[0].question, items[2].question) == ("4 ≠ 3", QUESTION, "")
    assert len(worklist(results(), most=2)) == 2


def names_asked_for(page: Page) -> list[str]:
    names: list[str] = []
    page.on("request", lambda request: names.append(Path(request.url).name))
    page.on("dialog", lambda dialog: names.append(dialog.message))
    return names


@pytest.mark.parametrize("width", [360, 1280])
def test_bars_filter_the_worklist_and_lead_to_answers(
    chromium: Browser, tmp_path: Path, width: int
) -> None:
    items = worklist(results())
    write_pages(tmp_path, results(), items)
    statistics = Statistics.of({**result, "document_scores": {}} for result in results())
    report = render_report(statistics, SETTING, records=2, rejects={}, items=items)
    assert "/models" not in report and "/data" not in report
    (tmp_path / "report.html").write_text(report, "utf-8")
    for scheme in ("light", "dark"):
        context = new_context(
            chromium,
            viewport={"width": width, "height": 740},
            color_scheme="dark" if scheme == "dark" else "light",
            bypass_csp=True,  # axe-core is put into the page
        )
        page = context.new_page()
        asked = names_asked_for(page)
        page.goto((tmp_path / "report.html").as_uri())
        outcome = Axe().run(page)
        assert outcome.violations_count == 0, outcome.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        shown = page.locator(".worklist li:visible")
        expect(shown).to_have_count(4)
        page.get_by_label("the model’s own").check()
        expect(shown).to_have_count(2)
        expect(shown.last).to_contain_text(HTML[0])
        page.get_by_label("a value to check").check()
        expect(shown).to_have_count(1)
        expect(shown).to_contain_text("a value to check: 4 ≠ 3")
        shown.get_by_role("link").click()
        expect(page.locator("h1")).to_have_text(QUESTION)
        look_up(page.locator("attribot-answer"), BICYCLE)
        answer = Axe().run(page)
        assert answer.violations_count == 0, answer.generate_report()
        page.go_back()
        page.get_by_label("the model’s own").check()
        shown.last.get_by_role("link").click()
        expect(page.locator(".answer")).to_contain_text(HTML[0])
        assert set(asked) == {"report.html", "0.html", "7.html"}
        context.close()
