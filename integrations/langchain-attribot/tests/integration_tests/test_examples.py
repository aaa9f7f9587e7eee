"""The README's lines and the examples run as they stand."""

import runpy
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from chains import Given, rag
from conftest import DOCUMENTS, QUESTION
from langchain_core.documents import Document
from langchain_huggingface import ChatHuggingFace
from support.model_server import model_server
from support.patience import scaled

from attribot_rag import LanguageModel
from attribot_rag.attribution.schema import summary_schema
from langchain_attribot import AttributionCallbackHandler

PACKAGE = Path(__file__).parents[2]
ROOT = PACKAGE.parents[1]
EXAMPLES = ROOT / "examples"


README = (PACKAGE / "README.md").read_text(encoding="utf-8")
CASES = (ROOT / "docs" / "langchain-cases.md").read_text(encoding="utf-8")
CHAIN, SEARCH, CHAT = (part.split("```")[0] for part in README.split("```python\n")[1:])
SHOWN, CONVERSATION, AGENT, SERVED = (
    part.split("```")[0] for part in CASES.split("```python\n")[1:]
)


def test_the_readme_s_chain_and_agent_attach_what_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names: dict[str, Any] = {}
    exec(CHAIN, names)
    assert capsys.readouterr().out == README.split("prints\n\n```\n")[1].split("```")[0]
    summary = names["message"].response_metadata["attribution"]
    for name in ("sentences", "documents", "sources"):
        for key, value in summary[name][0].items():
            assert f'"{key}":' in SHOWN
            if name == "sentences" and isinstance(value, float):
                shown = float(SHOWN.split(f'"{key}": ')[1].split(",")[0])
                assert shown == pytest.approx(value, abs=0.05)
    assert summary["sentences"][0]["verdict"] == "grounded"
    exec(CHAT, names)
    answer = names["message"].text
    assert "".join(capsys.readouterr().out.split()) == "".join(f"{answer}{answer}[1]".split())
    exec(CONVERSATION, names)
    first = names["answer"]("How high is the lighthouse?").attribution
    again = names["answer"]("Can you say that again?").attribution
    assert [verdict.kind for verdict in first.verdicts] == ["grounded"]
    assert [verdict.kind for verdict in again.verdicts] == ["conversation"]
    names["background"].close()
    exec(AGENT, names)
    answered = names["state"]["messages"][-1].response_metadata["attribution"]
    assert answered["run_id"] != summary["run_id"]
    assert answered["documents"][0]["title"] == "lighthouse.md"
    assert answered["sentences"][0]["verdict"] == "grounded"
    names["handler"].close()


@pytest.mark.enable_socket
def test_the_readme_s_agent_on_a_server(
    tiny: LanguageModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.tokenizer.save_pretrained(tmp_path)
    names: dict[str, Any] = {}
    with model_server(tiny) as server:
        code = SERVED.replace("http://localhost:8000", server.url)
        exec(code.replace("path or Hugging Face id of its tokenizer", str(tmp_path)), names)
    assert names["summary"]["status"] == "complete"
    assert names["summary"]["documents"][0]["title"] == "lighthouse.md"
    assert "on tiny (server" in " ".join(capsys.readouterr().out.split())


@pytest.mark.enable_socket
def test_the_page_on_deployment_connects(tiny: LanguageModel, tmp_path: Path) -> None:
    tiny.tokenizer.save_pretrained(tmp_path)
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    with model_server(tiny) as server:
        code = code.replace("http://localhost:8000", server.url)
        exec(code.replace("path/or/hub-id", str(tmp_path)), names)
    assert names["handler"] is not None
    assert names["served"].name == "tiny"


def test_the_root_readme_s_lines_attach_it_too(chat: ChatHuggingFace) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    *lines, last = readme.split("```python\n")[2].split("```")[0].splitlines()
    names = {"chain": rag(Given(documents=DOCUMENTS), chat), "chat": chat}
    exec("\n".join(lines), names)  # type: ignore[arg-type]
    assert eval(last, names)["sentences"][0]["verdict"] == "grounded"  # type: ignore[arg-type]

    class Store:
        def similarity_search(self, question: str) -> list[Document]:
            return list(DOCUMENTS)

    searched: dict[str, Any] = {"store": Store(), "question": QUESTION}
    exec(SEARCH, searched)
    assert searched["documents"] == list(DOCUMENTS)


def test_summaries_follow_the_published_schema(chat: ChatHuggingFace) -> None:
    schema = summary_schema()
    chain = rag(Given(documents=DOCUMENTS), chat)
    for mode in ("inline", "background"):
        handler = AttributionCallbackHandler(chat, mode=mode)  # type: ignore[arg-type]
        message = chain.invoke(QUESTION, config={"callbacks": [handler]})
        jsonschema.validate(message.response_metadata["attribution"], schema)
        run_id = message.response_metadata["attribution"]["run_id"]
        jsonschema.validate(handler.result(run_id, timeout=scaled(120)).summary, schema)


@pytest.mark.parametrize(
    ("example", "cited"),
    [
        ("langchain_rag", ["It is 38 metres high"]),
        ("langgraph_rag", ["It is 38 metres high", "1 of the calls was attributed"]),
        ("langchain_agent", ["It is 38 metres high", "designed by the engineer Alaric Penhow"]),
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
