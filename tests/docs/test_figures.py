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


def test_how_close() -> None:
    methods = ("auto", "thorough", "masked, rest")
    figures = [round(value, 2) for name in methods for value in columns(name, "mAP")[:2]]
    assert row("Does it find the cause?") == figures


def test_how_fast() -> None:
    faster = columns("auto", "times faster than no cache")
    assert row("Is it fast?") == [round(value) for value in faster[:2]]


def test_what_it_costs() -> None:
    page = text("docs/evaluation/benchmarks.md").split("## The price of an attribution")[1]
    pattern = r"^\| (?:HotpotQA|SQuAD) \|[^|]*\|[^|]*\| ([\d.]+) \("
    shares = [round(float(share), 1) for share in re.findall(pattern, page, re.M)]
    assert row("What does it cost?") == shares


def test_how_often_wrong() -> None:
    page = text("docs/evaluation/error-rates.md")
    right, sentences = re.findall(r"^\| right \| (\d+) of (\d+) \|", page, re.M)[0]
    wrong = re.findall(rf"^\| with a false citation \| (\d+) of {sentences} \|", page, re.M)[0]
    assert row("How often is it wrong?") == [float(sentences), float(right), float(wrong)]
    answer = text("docs/faq.md").split("## How often is it wrong?")[1].split("##")[0]
    numbers = [int(number) for number in re.findall(r"\d+", answer.split("(")[0])]
    assert numbers == [int(sentences), int(sentences) - int(right), int(wrong)]


def test_how_many_hand_written_cases_are_right() -> None:
    cases = text("docs/evaluation/error-rates.md").split("## Hand-written cases")[1]
    held_out = re.findall(r"^\| ([^|]+) \| [^|]* \| (\d+) of (\d+) \|$", cases, re.M)
    right, total = (sum(int(row[i]) for row in held_out) for i in (1, 2))
    conclusions = next(row for row in held_out if row[0].startswith("a conclusion"))
    assert conclusions[1] == "0"
    faq = " ".join(text("docs/faq.md").split())
    assert f"Of {total} freer, hand-written cases {right} were right" in README
    assert f"Of {total} freer, hand-written cases {total - right} were wrong" in faq
    for page in (README, faq):
        assert f"all {conclusions[2]} conclusions from two documents" in page


def test_how_many_architectures() -> None:
    table = text("docs/evaluation/architectures.md").split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    packed = [line for line in rows if "| packed |" in line]
    page = text("docs/models.md")
    assert f"{len(rows)} architectures are tested" in page
    assert f"{len(packed)} of them" in page


def test_the_comparison_is_that_of_the_page_on_peers() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([\d.]+) \| ([\d.]+) \|", text("README.md"), re.M)
    assert len(rows) == 5
    peers = text("docs/evaluation/peers.md")
    for name, seconds, precision in rows:
        assert f"\n| {name} | 10 | {seconds} | {precision} |" in peers


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
