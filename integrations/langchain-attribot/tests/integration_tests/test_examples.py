"""The README's lines and the examples run as they stand."""

import runpy
import tempfile
from pathlib import Path

import jsonschema
import pytest
from chains import Given, rag
from conftest import DOCUMENTS, QUESTION
from langchain_huggingface import ChatHuggingFace
from support.patience import scaled

from attribot_rag.attribution.schema import summary_schema
from langchain_attribot import AttributionCallbackHandler

PACKAGE = Path(__file__).parents[2]
EXAMPLES = PACKAGE.parents[1] / "examples"


def test_the_readme_s_lines_attach_what_it_shows(
    chat: ChatHuggingFace, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (PACKAGE / "README.md").read_text(encoding="utf-8")
    code, shown, *_ = [part.split("```")[0] for part in readme.split("```python\n")[1:]]
    assert len([line for line in code.splitlines() if line.strip()]) <= 6
    names = {"chain": rag(Given(documents=DOCUMENTS), chat), "chat": chat}
    exec(code, names)  # type: ignore[arg-type]
    assert "The lighthouse is 38 metres high." in capsys.readouterr().out
    summary = names["message"].response_metadata["attribution"]  # type: ignore[attr-defined]
    for name in ("sentences", "documents", "sources"):
        for key in summary[name][0]:
            assert f'"{key}":' in shown
    assert summary["sentences"][0]["verdict"] == "grounded"


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
