"""The README's figures are those of the files that it names beside them."""

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
                float(row[rows[0].index(name)].split()[0])
                for row in rows
                if row[1].split(" (")[0] == method
            ]
    return values


def test_how_close() -> None:
    close, ceiling = columns("auto", "mAP"), columns("masked, rest", "mAP")
    assert f"mAP {close[0]:.2f} (HotpotQA) and {close[1]:.2f} (SQuAD)" in README
    assert f"reaches {ceiling[0]:.2f} and {ceiling[1]:.2f}" in README


def test_how_fast() -> None:
    faster = columns("auto", "times faster than no cache")
    assert f"{faster[0]:.0f} and {faster[1]:.0f} times faster" in README
    row = r"^\| (?:HotpotQA|SQuAD), {} \|[^|]*\|[^|]*\| ([\d.]+) \("
    full, half = (
        re.findall(row.format(precision), text("docs/benchmarks.md"), re.M)
        for precision in ("float32", "half precision")
    )
    assert f"takes {float(full[0]):.1f} and {float(full[1]):.1f} times as long" in README
    assert f", {float(half[0]):.1f} and {float(half[1]):.1f} times where" in README


def test_how_often_wrong() -> None:
    verdicts = text("docs/verdicts.md")
    right, sentences = re.findall(r"^\| right \| (\d+) of (\d+) \|", verdicts, re.M)[0]
    wrong = re.findall(rf"^\| with a false citation \| (\d+) of {sentences} \|", verdicts, re.M)[0]
    assert f"of {sentences} sentences, {wrong} has a false citation, and {right} have" in README


def test_how_many_architectures() -> None:
    table = text("docs/evaluation/architectures.md").split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert f"[{len(rows)} architectures]" in README
