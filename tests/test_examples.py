"""The examples print what the documents show."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GETTING_STARTED = ROOT / "docs" / "getting-started.md"


def printed(example: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    runpy.run_path(str(ROOT / "examples" / example))
    return capsys.readouterr().out.splitlines()


def assert_same(found: list[str], shown: list[str]) -> None:
    """Line by line, scores to 0.05 nats."""
    assert [line.split("nats")[-1] for line in found] == [line.split("nats")[-1] for line in shown]
    for line, expected in zip(found[1:], shown[1:], strict=True):
        assert float(line.split()[0]) == pytest.approx(float(expected.split()[0]), abs=0.05)


@pytest.mark.slow
def test_the_readme_s_six_lines_print_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = readme.split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line]) == 6
    exec(code, {})
    shown = readme.split("prints\n\n```\n")[1].split("```")[0].splitlines()
    assert_same(capsys.readouterr().out.splitlines(), shown)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "example", "whole"), [(0, "ask.py", True), (1, "quickstart.py", False)]
)
def test_a_page_shows_an_example_and_what_it_prints(
    place: int, example: str, whole: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    page = GETTING_STARTED.read_text(encoding="utf-8")
    block = page.split("```python\n")[1 + place].split("```")[0]
    code = (ROOT / "examples" / example).read_text(encoding="utf-8")
    assert code == block if whole else code.endswith(f"\n{block}")
    assert len(block.splitlines()) <= 12
    shown = page.split("prints\n\n```\n")[1 + place].split("```")[0].splitlines()
    assert_same(printed(example, capsys), shown)


@pytest.mark.slow
def test_a_document_is_blamed_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "counterfactual.md").read_text(encoding="utf-8")
    code, shown = page.split("```python\n")[1].split("```\n\nprints\n\n```\n")
    assert code == (ROOT / "examples" / "counterfactual.py").read_text(encoding="utf-8")
    expected = shown.split("```")[0].splitlines()
    found = printed("counterfactual.py", capsys)
    assert [line[6:] for line in found] == [line[6:] for line in expected]
    for line, other in zip(found[1:], expected[1:], strict=True):
        assert float(line.split()[0]) == pytest.approx(float(other.split()[0]), abs=0.05)


@pytest.mark.slow
def test_quickstart_scores_what_generate_really_saw(capsys: pytest.CaptureFixture[str]) -> None:
    names = runpy.run_path(str(ROOT / "examples" / "quickstart.py"))
    capsys.readouterr()
    page = GETTING_STARTED.read_text(encoding="utf-8")
    exec(page.split("```python\n")[3].split("```")[0], names)
    assert capsys.readouterr().out == page.split("prints\n\n```\n")[3].split("```")[0]
    assert names["attribution"].provenance.retokenized is False
    assert names["attribution"].provenance.prefilled_tokens == 0
