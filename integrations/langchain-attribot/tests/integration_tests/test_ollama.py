"""Ollama answers, and its weights score, which it has in its store on this machine."""

from pathlib import Path

import pytest
from chains import Given, joined, rag
from conftest import DOCUMENTS, QUESTION, Making
from langchain_ollama import ChatOllama
from support.chat_server import chat_server
from support.gguf_files import write_gguf
from support.ollama_store import CHATML, add_model
from support.summaries import EXACT, attribution_of
from support.tiny_models import byte_level

from attribot_rag import Attributor, load_model

ANSWER = "The ferry Kittiwake carries 84 passengers."
SYSTEM = "Answer in one sentence."


@pytest.mark.enable_socket
@pytest.mark.parametrize("streamed", [False, True])
def test_ollama_answers_and_its_weights_score(
    streamed: bool, tmp_path: Path, making: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTRIBOT_RAG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "models"))
    weights = write_gguf(tmp_path / "tiny.gguf", byte_level())
    layers = {"model": weights, "template": CHATML, "system": SYSTEM}
    add_model(tmp_path / "models", "registry.ollama.ai/library/tiny:1b", layers)
    handler = making(None, language_model=load_model("ollama:tiny:1b", device="cpu"))
    with chat_server(ANSWER) as (url, asked):
        chain = rag(Given(documents=DOCUMENTS), ChatOllama(model="tiny:1b", base_url=url))
        config = {"callbacks": [handler]}
        if streamed:
            assert "".join(part.content for part in chain.stream(QUESTION, config)) == ANSWER
        else:
            message = chain.invoke(QUESTION, config)
            assert message.response_metadata["attribution"]["status"] == "complete"
    attribution = attribution_of(handler.last)
    assert attribution.response == ANSWER and attribution.provenance.model == "ollama:tiny:1b"
    ((prompt,),) = [body["messages"] for body in asked]
    assert joined(DOCUMENTS) in prompt["content"]
    expected = Attributor(byte_level(), progress=False, **EXACT).attribute(
        [{"role": "system", "content": SYSTEM}, prompt], ANSWER, DOCUMENTS
    )
    assert attribution.token_scores == expected.token_scores
    assert any("quantized" in note for note in attribution.notes)
