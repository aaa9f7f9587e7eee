"""Figures that are in several documents are the same in all of them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EVALUATION = DOCS / "evaluation"
USERS = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *ROOT.glob("integrations/*/README.md")])
LINK = re.compile(r"\[([^\]]*\d[^\]]*)\]\([^)]*\bevaluation/([\w-]+\.md)[^)]*\)")
NUMBER = re.compile(r"\d+ of \d+|\d[\d,.]*\d|\d")
# Rows of the report, by what docs/methods.md calls them.
ROWS = {
    '`"auto"`': "auto",
    '`"thorough"`': "thorough",
    '`"masked"`': "masked",
    '`"masked_hierarchical"`': "masked hierarchical, keep 3",
    '`"patching"`': "patching, 2 gates",
    '`"hierarchical"`': "hierarchical, keep 3",
    '`"leave_one_out"`': "leave-one-out",
    "ContextCite, 64 ablations": "ContextCite, 64 ablations",
    "gradient norm": "gradient norm",
    "similarity": "similarity",
}


def cells(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def quoted() -> Iterator[tuple[str, str, str]]:
    for page in USERS:
        for text, target in LINK.findall(page.read_text("utf-8")):
            yield page.relative_to(ROOT).as_posix(), target, " ".join(text.split())


@pytest.mark.parametrize(("page", "target", "text"), [*quoted()])
def test_a_quoted_figure_stands_on_the_page_it_leads_to(page: str, target: str, text: str) -> None:
    """Word for word, as in "6 of 256"."""
    source = " ".join((EVALUATION / target).read_text("utf-8").split())
    for figure in NUMBER.findall(text):
        assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d]|[.,]\d)", source), (page, figure)


def test_figures_are_quoted() -> None:
    assert len(list(quoted())) > 20


def test_methods_have_the_report_s_figures() -> None:
    _, *sets = (EVALUATION / "report.md").read_text("utf-8").split("\n## ")
    report = [{row[0]: row for row in cells(part)} for part in sets]
    page = {row[0]: row for row in cells((DOCS / "methods.md").read_text("utf-8")) if len(row) == 5}
    assert set(ROWS) < set(page)
    for name, row in ROWS.items():
        reported = [found[row] for found in report]
        precisions = [f"{float(cells[1].split()[0]):.2f}" for cells in reported]
        assert page[name][1:] == [*precisions, *(cells[2] for cells in reported)], name


def test_the_evaluation_begins_with_the_report_s_figures() -> None:
    report = (EVALUATION / "report.md").read_text("utf-8")
    page = {row[0]: row[1:] for row in cells((EVALUATION / "README.md").read_text("utf-8"))}
    (hotpotqa, squad) = re.findall(r"`auto`, has (\S+) for (\S+) tokens", report)
    assert page["`auto`, the default"] == [*hotpotqa, *squad]


def test_compatibility_has_the_pinned_releases() -> None:
    """Where releases differ by Python version, the table has those of the newest."""
    pins = dict(
        re.findall(
            r"^([\w-]+)==(\S+)(?: ; .*>=.*)?$",
            (ROOT / "constraints.txt").read_text("utf-8"),
            re.MULTILINE,
        )
    )
    text = (DOCS / "reference" / "compatibility.md").read_text("utf-8")
    table = {row[0]: row[2] for row in cells(text) if row[0] in pins and len(row) == 4}
    assert {"torch", "transformers", "langchain-core", "llama-index-core"} < set(table)
    assert table == {name: pins[name] for name in table}
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    for oldest, below in re.findall(r'"torch>=([\d.]+),<(\d+)"', project):
        assert f"torch from {oldest} on (below {below})" in " ".join(text.split())
