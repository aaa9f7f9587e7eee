"""The examples print what the documents show."""

import math
import runpy
from pathlib import Path

import pytest

from attribot_rag import LocalModel

ROOT = Path(__file__).parents[1]
GETTING_STARTED = ROOT / "docs" / "getting-started.md"


def shown_block(place: int) -> str:
    """Of the page about one's own code: at most a dozen lines."""
    block = GETTING_STARTED.read_text("utf-8").split("```python\n")[1 + place].split("```")[0]
    assert len(block.splitlines()) <= 12
    return block


def shown_output(place: int) -> str:
    text = GETTING_STARTED.read_text("utf-8")
    return text.split("prints\n\n```\n")[1 + place].split("```")[0]


def assert_same(lines: list[str], shown: list[str]) -> None:
    """Line by line, scores to 0.05 nats."""
    assert [line.split("nats")[-1] for line in lines] == [line.split("nats")[-1] for line in shown]
    for line, expected in zip(lines[1:], shown[1:], strict=True):
        assert float(line.split()[0]) == pytest.approx(float(expected.split()[0]), abs=0.05)


@pytest.mark.slow
def test_the_readme_s_story_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    exec(readme.split("```python\n")[1].split("```")[0], {})
    *shown, last = readme.split("prints\n\n```\n")[1].split("```")[0].splitlines()
    *printed, final = capsys.readouterr().out.splitlines()
    assert printed == shown
    said, shown_score = last.removesuffix(")").split(" (score ")
    assert final.startswith(f"{said} (score ")
    score = float(shown_score)
    assert float(final.removesuffix(")").split()[-1]) == pytest.approx(score, abs=0.05)
    times = readme.split("e<sup>9.16</sup> = ")[1].split()[0].replace(",", "")
    assert math.exp(score) == pytest.approx(float(times), rel=0.05)


@pytest.mark.slow
def test_a_page_shows_an_example_and_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    code = (ROOT / "examples" / "ask.py").read_text(encoding="utf-8")
    assert code == shown_block(0)
    runpy.run_path(str(ROOT / "examples" / "ask.py"))
    assert_same(capsys.readouterr().out.splitlines(), shown_output(0).splitlines())


@pytest.mark.slow
def test_a_document_is_blamed_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "counterfactual.md").read_text(encoding="utf-8")
    code, shown = page.split("```python\n")[1].split("```\n\nprints\n\n```\n")
    assert code == (ROOT / "examples" / "counterfactual.py").read_text(encoding="utf-8")
    expected = shown.split("```")[0].splitlines()
    runpy.run_path(str(ROOT / "examples" / "counterfactual.py"))
    assert_same(capsys.readouterr().out.splitlines(), expected)


@pytest.mark.slow
def test_quickstart_scores_what_generate_really_saw(capsys: pytest.CaptureFixture[str]) -> None:
    code = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    assert code.endswith(f"\n{shown_block(1)}\n{shown_block(2)}")
    names = runpy.run_path(str(ROOT / "examples" / "quickstart.py"))
    assert_same(capsys.readouterr().out.splitlines(), shown_output(1).splitlines())
    exec(shown_block(3), names)
    assert capsys.readouterr().out == shown_output(2)
    assert names["attribution"].provenance.retokenized is False
    assert names["attribution"].provenance.prefilled_tokens == 0


@pytest.mark.slow
def test_an_integration_of_one_s_own_attributes_answers_and_what_is_made_of_them(
    smollm2: LocalModel,
) -> None:
    names = runpy.run_path(str(ROOT / "examples" / "own_integration.py"))
    passages = ["A ticket of the ferry costs 18 crowns.", "The lighthouse is 38 metres high."]
    framework = names["Framework"](smollm2, passages)
    attributions = names["Attributions"](smollm2, mode="background")
    framework.listeners.append(attributions)
    questions = ["How high is the lighthouse?", "What does a ticket cost?"]
    framework.answer(questions[0])
    framework.merged(questions, "Repeat these two sentences.")
    single, merged = attributions.result(1, 300), attributions.result(4, 300)
    attributions.close()
    assert single.summary["status"] == "complete"
    assert single.attribution.provenance.retokenized is False
    assert single.attribution.top(1)[0].source.text == passages[1]
    assert merged.summary["status"] == "composite"
    assert [run.text for run in merged.earlier] == [
        attributions.result(run, 300).text for run in (5, 8)
    ]
