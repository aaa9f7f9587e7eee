"""The documents' figures are those of the files that they name beside them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def text(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


README = " ".join(text("README.md").split())
REPORT = text("docs/evaluation/report.md")


def columns(method: str, name: str) -> list[float]:
    """The method's value in each of the report's tables with such a column, in order."""
    values = []
    for table in re.findall(r"(?:^\|.*\n)+", REPORT, re.MULTILINE):
        rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
        if name in rows[0]:
            values += [
                float(row[rows[0].index(name)].split()[0].replace(",", ""))
                for row in rows
                if row[1].split(" (")[0] == method
            ]
    return values


def row(question: str) -> list[float]:
    """The numbers in the answer to one of the README's questions, in order."""
    answer = README.split(f"| {question} |")[1].split(" |")[0]
    return [float(number.rstrip(".")) for number in re.findall(r"\d[\d.]*", answer)]


def test_the_answers_in_the_readme() -> None:
    methods = ("auto", "thorough", "masked, rest")
    figures = [round(value, 2) for name in methods for value in columns(name, "mAP")[:2]]
    assert row("Does it find the cause?") == figures

    faster = columns("auto", "times faster than no cache")
    assert row("Is it fast?") == [round(value) for value in faster[:2]]


METHODS = {
    "auto": "auto",
    "thorough": "thorough",
    "masked": "masked",
    "masked_hierarchical": "masked hierarchical, keep 3",
    "patching": "patching, 2 gates",
    "hierarchical": "hierarchical, keep 3",
    "leave_one_out": "leave-one-out",
}
BASELINES = ("ContextCite, 64 ablations", "gradient norm", "attention weights", "similarity")


def test_the_table_of_methods() -> None:
    page = text("docs/methods.md")
    rows = {f'`"{name}"`': reported for name, reported in METHODS.items()}
    for name, reported in [*rows.items(), *zip(BASELINES, BASELINES, strict=True)]:
        cells = page.split(f"\n| {name} | ")[1].split(" |\n")[0].replace(",", "").split(" | ")
        precise, faster = columns(reported, "mAP"), columns(reported, "times faster than no cache")
        expected = [*precise[:2], *faster[:2], *columns(reported, "tokens")[:2]]
        for cell, value in zip(cells, expected, strict=True):
            digits = len(cell.partition(".")[2])
            assert float(cell) == round(value, digits), (name, cell, value)
