"""A server that answers LangChain's ChatOpenAI and OpenAI, and scores."""

from pathlib import Path
from typing import Any, Literal

import pytest
from chains import PROMPT, Given, joined, rag
from conftest import DOCUMENTS, QUESTION
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import SecretStr
from support.model_server import NAME, model_server
from support.patience import scaled

from attribot_rag import Attributor, LanguageModel
from langchain_attribot import AttributionCallbackHandler

EXACT: dict[str, Any] = {"method": "leave_one_out", "verdicts": None}


@pytest.mark.enable_socket
@pytest.mark.parametrize("mode", ["inline", "background"])
def test_a_server_answers_and_scores(
    tiny: LanguageModel, tmp_path: Path, mode: Literal["inline", "background"]
) -> None:
    tiny.tokenizer.save_pretrained(tmp_path)
    with model_server(tiny) as server:
        served = Attributor.for_server(server.url, tokenizer=str(tmp_path)).language_model
        chat = ChatOpenAI(
            model=NAME, base_url=f"{server.url}/v1", api_key=SecretStr("none"), max_tokens=8
        )
        handler = AttributionCallbackHandler(language_model=served, mode=mode, **EXACT)
        message = rag(Given(documents=DOCUMENTS), chat).invoke(QUESTION, {"callbacks": [handler]})
        run_id = message.response_metadata["attribution"]["run_id"]
        attribution = handler.result(run_id, timeout=scaled(120)).attribution
        handler.close()
    assert attribution is not None and attribution.provenance.retokenized
    (prompt,) = PROMPT.format_messages(context=joined(DOCUMENTS), question=QUESTION)
    expected = Attributor(tiny, progress=False, **EXACT).attribute(
        [{"role": "user", "content": prompt.content}], message.content, DOCUMENTS
    )
    for row, right in zip(attribution.token_scores, expected.token_scores, strict=True):
        assert row == pytest.approx(right, abs=1e-3)


@pytest.mark.enable_socket
def test_a_server_completes_and_scores(tiny: LanguageModel, tmp_path: Path) -> None:
    """By the class of which LangChain's VLLMOpenAI is one."""
    tiny.tokenizer.save_pretrained(tmp_path)
    with model_server(tiny) as server:
        served = Attributor.for_server(server.url, tokenizer=str(tmp_path)).language_model
        llm = OpenAI(
            model=NAME, base_url=f"{server.url}/v1", api_key=SecretStr("none"), max_tokens=8
        )
        handler = AttributionCallbackHandler(language_model=served, **EXACT)
        text = rag(Given(documents=DOCUMENTS), llm).invoke(QUESTION, {"callbacks": [handler]})
        (run,) = handler.results.values()
        handler.close()
    assert run.attribution is not None
    asked = PROMPT.invoke({"context": joined(DOCUMENTS), "question": QUESTION}).to_string()
    expected = Attributor(tiny, progress=False, **EXACT).attribute(asked, text, DOCUMENTS)
    for row, right in zip(run.attribution.token_scores, expected.token_scores, strict=True):
        assert row == pytest.approx(right, abs=1e-3)
