"""A server that answers LangChain's ChatOpenAI and OpenAI, and scores."""

from pathlib import Path
from typing import Any

import pytest
from chains import PROMPT, Given, joined, rag
from conftest import DOCUMENTS, QUESTION, Making
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import SecretStr
from support.model_server import NAME, model_server
from support.patience import scaled
from support.summaries import EXACT, attribution_of

from attribot_rag import Attributor, LocalModel


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        (ChatOpenAI, "background"),
        (OpenAI, "inline"),  # of which LangChain's VLLMOpenAI is one
    ],
)
def test_a_server_answers_and_scores(
    tiny: LocalModel, tmp_path: Path, making: Making, kind: Any, mode: str
) -> None:
    tiny.tokenizer.save_pretrained(tmp_path)
    with model_server(tiny) as server:
        served = Attributor.for_server(server.url, tokenizer=str(tmp_path)).language_model
        key = SecretStr("none")
        llm = kind(model=NAME, base_url=f"{server.url}/v1", api_key=key, max_tokens=8)
        handler = making(None, language_model=served, mode=mode)
        answer = rag(Given(documents=DOCUMENTS), llm).invoke(QUESTION, {"callbacks": [handler]})
        (run_id,) = handler.results
        attribution = attribution_of(handler.result(run_id, timeout=scaled(120)))
    assert attribution.provenance.retokenized
    prompt: Any = PROMPT.invoke({"context": joined(DOCUMENTS), "question": QUESTION}).to_string()
    if kind is ChatOpenAI:
        prompt = [{"role": "user", "content": prompt.removeprefix("Human: ")}]
        answer = answer.content
    expected = Attributor(tiny, progress=False, **EXACT).attribute(prompt, answer, DOCUMENTS)
    for row, right in zip(attribution.token_scores, expected.token_scores, strict=True):
        assert row == pytest.approx(right, abs=1e-3)
