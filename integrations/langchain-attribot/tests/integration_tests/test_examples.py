"""The README's lines and the examples run as they stand."""

from pathlib import Path
from typing import Any

import pytest
from chains import Given, rag
from conftest import DOCUMENTS, QUESTION, Chat
from langchain_core.documents import Document
from support.examples import blocks_of, check_example, check_readme, run_and_get
from support.model_server import model_server
from support.summaries import checked

from attribot_rag import LocalModel

README = "integrations/langchain-attribot/README.md"
CHAIN, SEARCH, CHAT = blocks_of(README)
(SHOWN,) = blocks_of("docs/reference/summary.md")
COMPOSED, APART, AGENT, SERVED = blocks_of("docs/langchain-cases.md")
(CONVERSATION,) = (code for code in blocks_of("docs/hosted-chat.md") if "with_history" in code)


def test_the_readme_s_chain_and_agent_give_the_shown_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names: dict[str, Any] = {}
    exec(CHAIN, names)
    summary = names["message"].response_metadata["attribution"]
    check_readme(README, capsys.readouterr().out, summary, SHOWN)
    exec(COMPOSED, names)
    assert names["run"].summary["status"] == "composite"
    assert len(names["run"].earlier) == len(names["documents"])
    assert capsys.readouterr().out.startswith(names["run"].to_cited_text())
    exec(APART, names)
    apart = checked(names["answer"].response_metadata["attribution"])
    assert [document["title"] for document in apart["documents"]] == ["ferry.md", "lighthouse.md"]
    assert capsys.readouterr().out.endswith("[1]\n")
    exec(CHAT, names)
    answer = names["message"].text
    assert "".join(capsys.readouterr().out.split()) == "".join(f"{answer}{answer}[1]".split())
    names["background"].close()
    exec(CONVERSATION.replace("hosted", "chat").replace('reader="words", ', ""), names)
    first = names["run"].attribution
    again = names["answer"]("Can you say that again?").attribution
    assert [verdict.kind for verdict in first.verdicts] == ["grounded"]
    assert [verdict.kind for verdict in again.verdicts] == ["conversation"]
    names["background"].close()
    exec(AGENT, names)
    answered = names["state"]["messages"][-1].response_metadata["attribution"]
    assert answered["run_id"] != summary["run_id"]
    (index,) = answered["sentences"][0]["documents"]
    assert answered["documents"][index]["title"] == "lighthouse.md"
    assert answered["sentences"][0]["verdict"] == "grounded"
    names["handler"].close()


def run_on_server(code: str, path: str, model: LocalModel, folder: Path) -> dict[str, Any]:
    """The names that the code leaves; `path` is the placeholder in it for the tokenizer's path."""
    model.tokenizer.save_pretrained(folder)
    names: dict[str, Any] = {}
    with model_server(model) as server:
        exec(code.replace("http://localhost:8000", server.url).replace(path, str(folder)), names)
    return names


@pytest.mark.enable_socket
def test_the_readme_s_agent_on_a_server(
    tiny: LocalModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = "path or Hugging Face id of its tokenizer"
    summary = checked(run_on_server(SERVED, path, tiny, tmp_path)["summary"])
    assert summary["documents"][0]["title"] == "lighthouse.md"
    assert "s on tiny" in " ".join(capsys.readouterr().out.split())


@pytest.mark.enable_socket
def test_the_page_on_deployment_connects(tiny: LocalModel, tmp_path: Path) -> None:
    code, *_ = blocks_of("docs/deploy.md")
    names = run_on_server(code, "path/or/hub-id", tiny, tmp_path)
    assert names["handler"] is not None
    assert names["served"].name == "tiny"


def test_the_root_readme_s_lines_attach_it_too(chat: Chat) -> None:
    names = {"chain": rag(Given(documents=DOCUMENTS), chat), "chat": chat}
    summary = run_and_get(blocks_of("README.md")[1], names)
    assert summary["sentences"][0]["verdict"] == "grounded"

    class Store:
        def similarity_search(self, question: str) -> list[Document]:
            return list(DOCUMENTS)

    searched: dict[str, Any] = {"store": Store(), "question": QUESTION}
    exec(SEARCH, searched)
    assert searched["documents"] == list(DOCUMENTS)


@pytest.mark.long
@pytest.mark.parametrize(
    ("example", "words"),
    [
        ("langchain_rag", ["It is 38 metres high"]),
        ("langgraph_rag", ["It is 38 metres high", "1 of the calls was attributed"]),
        ("langchain_agent", ["It is 38 metres high", "designed by the engineer Alaric Penhow"]),
    ],
)
def test_the_examples_show_the_causes_of_their_answers(
    example: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_example(example, *words, folder=tmp_path, capsys=capsys)
