"""A server that answers LangChain's OpenAI, of which its VLLMOpenAI is one, and scores."""

from pathlib import Path
from typing import Any

import pytest
from chains import PROMPT, Given, joined, rag
from conftest import DOCUMENTS, QUESTION, Making
from langchain_openai import OpenAI
from pydantic import SecretStr
from support.model_server import NAME, model_server
from support.summaries import EXACT, attribution_of

from attribot_rag import Attributor, LocalModel


@pytest.mark.enable_socket
def test_a_server_answers_and_scores(tiny: LocalModel, tmp_path: Path, making: Making) -> None:
    tiny.tokenizer.save_pretrained(tmp_path)
    with model_server(tiny) as server:
        served = Attributor.for_server(server.url, tokenizer=str(tmp_path)).language_model
        key = SecretStr("none")
        llm = OpenAI(model=NAME, base_url=f"{server.url}/v1", api_key=key, max_tokens=8)
        handler = making(None, language_model=served)
        answer = rag(Given(documents=DOCUMENTS), llm).invoke(QUESTION, {"callbacks": [handler]})
        attribution = attribution_of(handler.last)
    assert attribution.provenance.retokenized
    prompt: Any = PROMPT.invoke({"context": joined(DOCUMENTS), "question": QUESTION}).to_string()
    expected = Attributor(tiny, progress=False, **EXACT).attribute(prompt, answer, DOCUMENTS)
    for row, right in zip(attribution.token_scores, expected.token_scores, strict=True):
        assert row == pytest.approx(right, abs=1e-3)
