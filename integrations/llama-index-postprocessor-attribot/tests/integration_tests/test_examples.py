"""The README's lines and the examples run as they stand."""

import runpy
import tempfile
from pathlib import Path
from typing import Any

import pytest
from conftest import QUESTION, index_of
from llama_index.llms.huggingface import HuggingFaceLLM
from llama_index.postprocessor.attribot import AttributionPostprocessor
from support.patience import scaled

PACKAGE = Path(__file__).parents[2]
ROOT = PACKAGE.parents[1]
EXAMPLES = ROOT / "examples"


README = (PACKAGE / "README.md").read_text(encoding="utf-8")
CASES = (ROOT / "docs" / "llama-index-cases.md").read_text(encoding="utf-8")
PROGRAM, SEARCH, CHAT = (part.split("```")[0] for part in README.split("```python\n")[1:])
(SHOWN,) = (part.split("```")[0] for part in CASES.split("```python\n")[1:])


def test_the_readme_s_program_attaches_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(PROGRAM, names)
    assert capsys.readouterr().out == README.split("prints\n\n```\n")[1].split("```")[0]
    summary = names["response"].metadata["attribution"]
    for name in ("sentences", "documents", "sources"):
        for key, value in summary[name][0].items():
            assert f'"{key}":' in SHOWN
            if name == "sentences" and isinstance(value, float):
                shown = float(SHOWN.split(f'"{key}": ')[1].split(",")[0])
                assert shown == pytest.approx(value, abs=0.05)
    assert summary["sentences"][0]["verdict"] == "grounded"
    exec(CHAT, names)
    names["background"].result(names["answer"], scaled(60))
    answer = names["response"].response
    assert "".join(capsys.readouterr().out.split()) == "".join(f"{answer}{answer}[1]".split())


def test_the_root_readme_s_lines_attach_it_too(llm: HuggingFaceLLM) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    *lines, last = readme.split("```python\n")[3].split("```")[0].splitlines()
    names: dict[str, Any] = {"index": index_of(), "llm": llm}
    exec("\n".join(lines), names)
    assert eval(last, names)["sentences"][0]["verdict"] == "grounded"
    documents = ["The ferry sails at noon.", "The lighthouse is 38 metres high."]
    names |= {"documents": documents, "postprocessor": AttributionPostprocessor()}
    names["prompt"] = "\n".join([*documents, QUESTION])
    *lines, last = SEARCH.splitlines()
    exec("\n".join(lines), names)
    assert all(document["located"] for document in eval(last, names)["documents"])


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
