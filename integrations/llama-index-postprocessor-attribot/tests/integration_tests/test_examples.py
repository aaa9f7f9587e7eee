"""The README's lines and the examples run as they stand."""

import runpy
import tempfile
from pathlib import Path
from typing import Any

import pytest
from conftest import QUESTION, index_of
from llama_index.llms.huggingface import HuggingFaceLLM
from support.patience import scaled

PACKAGE = Path(__file__).parents[2]
ROOT = PACKAGE.parents[1]
EXAMPLES = ROOT / "examples"


def test_the_readme_s_program_attaches_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (PACKAGE / "README.md").read_text(encoding="utf-8")
    code, shown, chat = [part.split("```")[0] for part in readme.split("```python\n")[1:]]
    names: dict[str, Any] = {}
    exec(code, names)
    assert capsys.readouterr().out == "The lighthouse is 38 metres high. [1]\n"
    assert "# The lighthouse is 38 metres high. [1]" in code
    summary = names["response"].metadata["attribution"]
    for name in ("sentences", "documents", "sources"):
        for key in summary[name][0]:
            assert f'"{key}":' in shown
    assert summary["sentences"][0]["verdict"] == "grounded"
    exec(chat, names)
    names["background"].result(names["answer"], scaled(60))
    answer = names["response"].response
    assert "".join(capsys.readouterr().out.split()) == "".join(f"{answer}{answer}[1]".split())


def test_the_root_readme_s_lines_attach_it_too(llm: HuggingFaceLLM) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    *lines, last = readme.split("```python\n")[3].split("```")[0].splitlines()
    names = {"index": index_of(), "llm": llm}
    exec("\n".join(lines), names)
    assert eval(last, names)["sentences"][0]["verdict"] == "grounded"
    documents = ["The ferry sails at noon.", "The lighthouse is 38 metres high."]
    names |= {"documents": documents, "question": QUESTION}
    names["prompt"] = "\n".join([*documents, QUESTION])
    *lines, last = readme.split("```python\n")[5].split("```")[0].splitlines()
    exec("\n".join(lines), names)
    assert all(one["located"] for one in eval(last, names)["documents"])


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
