"""The published report and the pages that quote it have the figures of docs/evaluation."""

import re
from functools import cache
from pathlib import Path

import pytest

from benchmarks.experiment.grid import methods
from benchmarks.experiment.measures import FAITHFULNESS, TOKENS, cases
from benchmarks.experiment.report import report
from benchmarks.experiment.results import ResultStore

DOCS = Path(__file__).parents[2] / "docs"
EVALUATION = DOCS / "evaluation"
REPORT = (EVALUATION / "report.md").read_text("utf-8")
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
    "attention weights": "attention weights",
    "similarity": "similarity",
}
"""The rows of docs/methods.md, and those of the report."""
IN_README = {
    "`auto`, the default": "auto",
    "`thorough`": "thorough",
    "`masked`": "masked",
    "ContextCite, 64 ablations, in our version": "ContextCite, 64 ablations",
    "exact leave-one-out, a second definition": "masked, rest",
    "exact leave-one-out, the truth": "leave-one-out",
}


@cache
def results() -> ResultStore:
    return ResultStore(EVALUATION / "results.jsonl")


@cache
def figures(data_set: str, method: str) -> tuple[str, str]:
    """The mAP, to three decimals, and the tokens of a method."""
    of_method = [*cases(results(), method, data_set)]
    found = [value for case in of_method if (value := FAITHFULNESS.of(case)) is not None]
    tokens = sorted(value for case in of_method if (value := TOKENS.of(case)) is not None)
    middle = (tokens[(len(tokens) - 1) // 2] + tokens[len(tokens) // 2]) / 2
    return (f"{sum(found) / len(found):.3f}" if found else "–"), f"{middle:,.0f}"


def test_the_report_has_the_figures_of_the_results() -> None:
    for data_set in results().data_sets():
        section = REPORT.split(f"\n## {data_set}\n")[1].split("\n## ")[0]
        rows = re.findall(
            r"(?m)^\| ([a-zA-Z][^|*(]+)(?:\*| \(the ceiling\))? \| (\S+).*? \| (\S+) \|", section
        )
        shown = {name.strip(): (mean, tokens) for name, mean, tokens in rows if name != "method "}
        shown.pop("method", None)
        assert shown.keys() == {name for name in results().methods() if "proxy" not in name}
        for name, cells in shown.items():
            assert cells == figures(data_set, name), (data_set, name)


def test_other_pages_have_the_same_figures() -> None:
    page = (DOCS / "methods.md").read_text("utf-8")
    table = re.findall(
        r"(?m)^\| ([^|]+) \| (\d\.\d\d) \| (\d\.\d\d) \|.*? ([\d,]+) \| ([\d,]+) \|$", page
    )
    assert {name for name, *_ in table} >= {'`"auto"`', '`"leave_one_out"`'}
    for name, first, second, *tokens in table:
        both = [figures(data_set, ROWS[name]) for data_set in ("hotpotqa", "squad")]
        assert [count for _, count in both] == tokens, name
        for shown, (exact, _) in zip((first, second), both, strict=True):
            assert abs(float(shown) - float(exact)) <= 0.0051, name
    ranked = (EVALUATION / "README.md").read_text("utf-8")
    for name, method in IN_README.items():
        row = " | ".join([name, *figures("hotpotqa", method), *figures("squad", method)])
        assert f"| {row} |" in ranked, name


@pytest.mark.long
def test_the_report_is_what_the_results_give() -> None:
    known = {record.method: record.options for record in results().scores.values()}
    shown = results().only(results().answers, {name: known[name] for name in methods()})
    command = re.findall(r"(?m)^    (python -m .*)$", REPORT)[0]
    pictures = [EVALUATION / name for name in re.findall(r"\]\((\w+\.svg)\)", REPORT)]
    assert report(shown, command, pictures) == REPORT
