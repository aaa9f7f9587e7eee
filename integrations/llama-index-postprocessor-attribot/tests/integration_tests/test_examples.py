"""The README's lines and the examples run as they stand."""

from pathlib import Path
from typing import Any

import pytest
from conftest import QUESTION, LocalLLM
from engines import index_of
from llama_index.postprocessor.attribot import AttributionPostprocessor
from support.chat_server import chat_server
from support.examples import blocks_of, check_example, check_readme, run_and_get
from support.island import answer_from
from support.patience import scaled
from support.summaries import located_ids

from attribot_rag import LocalModel
from attribot_rag.display import visible

README = "integrations/llama-index-postprocessor-attribot/README.md"
PROGRAM, SEARCH, READER, CHAT = blocks_of(README)
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


@pytest.mark.enable_socket
def test_a_hosted_model_s_answer_is_read_as_the_readme_says(
    smollm2: LocalModel, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"index": index_of(), "load_model": lambda: smollm2}
    names |= {"AttributionPostprocessor": AttributionPostprocessor, "visible": visible}
    with chat_server(answer_from) as (url, asked):
        at = f'model="llama3.2:1b", base_url="{url}", context_window=4096'
        exec(READER.replace('model="llama3.2:1b"', at), names)
    printed = capsys.readouterr().out
    assert printed.startswith("The lighthouse is 38 metres high. [1]\n")
    assert "read the answer of llama3.2:1b: " in printed
    index = [node.node_id for node in names["read"].source_nodes].index("lighthouse")
    assert printed.endswith("\nI do not know.\n") == (index == 1) and len(asked) == 2


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
