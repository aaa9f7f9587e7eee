"""The README's lines and the examples run as they stand."""

from pathlib import Path
from typing import Any

import pytest
from conftest import QUESTION, LocalLLM
from engines import index_of
from llama_index.postprocessor.attribot import AttributionPostprocessor
from support.examples import blocks_of, check_example, check_readme, run_and_get
from support.patience import scaled
from support.summaries import located_ids

README = "integrations/llama-index-postprocessor-attribot/README.md"
PROGRAM, SEARCH, CHAT = blocks_of(README)
(SHOWN,) = blocks_of("docs/reference/summary.md")


def test_the_readme_s_program_attaches_the_shown_attribution(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names: dict[str, Any] = {}
    exec(PROGRAM, names)
    summary = names["response"].metadata["attribution"]
    check_readme(README, capsys.readouterr().out, summary, SHOWN, numbers=False)
    exec(CHAT, names)
    names["background"].result(names["answer"], scaled(60))
    answer = names["response"].response
    assert "".join(capsys.readouterr().out.split()) == "".join(f"{answer}{answer}[1]".split())


def test_the_root_readme_s_lines_attach_it_too(llm: LocalLLM) -> None:
    names: dict[str, Any] = {"index": index_of(), "llm": llm}
    summary = run_and_get(blocks_of("README.md")[2], names)
    assert summary["sentences"][0]["verdict"] == "grounded"
    documents = ["The ferry sails at noon.", "The lighthouse is 38 metres high."]
    names |= {"documents": documents, "postprocessor": AttributionPostprocessor()}
    names["prompt"] = "\n".join([*documents, QUESTION])
    assert len(located_ids(run_and_get(SEARCH, names))) == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("example", "words"),
    [
        ("llama_index_rag", ["It is 38 metres high"]),
        ("llama_index_chat", ["It is 38 metres high", "designed by the engineer Alaric Penhow"]),
        ("llama_index_sub_questions", ["How high is the lighthouse?", "lighthouse.md"]),
    ],
)
def test_the_examples_show_the_causes_of_their_answers(
    example: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_example(example, *words, folder=tmp_path, capsys=capsys)
