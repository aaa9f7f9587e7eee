"""The README's lines and the examples run as they stand."""

import runpy
import tempfile
from pathlib import Path

import pytest
from conftest import index_of
from llama_index.llms.huggingface import HuggingFaceLLM

PACKAGE = Path(__file__).parents[2]
EXAMPLES = PACKAGE.parents[1] / "examples"


def test_the_readme_s_lines_attach_what_it_shows(
    llm: HuggingFaceLLM, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (PACKAGE / "README.md").read_text(encoding="utf-8")
    code, shown, *_ = [part.split("```")[0] for part in readme.split("```python\n")[1:]]
    assert len([line for line in code.splitlines() if line.strip()]) <= 6
    names = {"index": index_of(), "llm": llm}
    exec(code, names)
    assert "The lighthouse is 38 metres high. [1]" in capsys.readouterr().out
    assert "# The lighthouse is 38 metres high. [1]" in code
    summary = names["response"].metadata["attribution"]  # type: ignore[attr-defined]
    for name in ("sentences", "documents", "sources"):
        for key in summary[name][0]:
            assert f'"{key}":' in shown
    assert summary["sentences"][0]["verdict"] == "grounded"


@pytest.mark.parametrize(
    ("example", "cited"),
    [
        ("llama_index_rag", ["It is 38 metres high"]),
        ("llama_index_chat", ["It is 38 metres high", "designed by the engineer Alaric Penhow"]),
        ("llama_index_sub_questions", ["How high is the lighthouse?", "lighthouse.md"]),
    ],
)
def test_the_examples_show_what_caused_their_answers(
    example: str,
    cited: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("sys.argv", [example])
    monkeypatch.syspath_prepend(EXAMPLES)
    runpy.run_path(str(EXAMPLES / f"{example}.py"))
    printed = " ".join(capsys.readouterr().out.split())
    for text in cited:
        assert text in printed
    assert "[1]" in printed
