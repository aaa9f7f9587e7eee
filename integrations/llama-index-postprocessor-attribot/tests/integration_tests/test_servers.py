"""A server that answers a model of LlamaIndex, and scores."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import QUESTION
from engines import engine_of
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.prompts.chat_prompts import CHAT_TEXT_QA_PROMPT
from llama_index.core.schema import MetadataMode
from llama_index.postprocessor.attribot import AttributionPostprocessor
from support.model_server import NAME, model_server
from support.summaries import EXACT, attribution_of

from attribot_rag import Attributor, LanguageModel


class Chatting(CustomLLM):
    """Chats by OpenAI's protocol, and never completes a prompt: so do OpenAILike and its kind."""

    url: str

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=NAME, context_window=2048, is_chat_model=True)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        turns = [{"role": message.role.value, "content": message.content} for message in messages]
        body = {"model": NAME, "messages": turns, "max_tokens": 8}
        answer = httpx.post(f"{self.url}/v1/chat/completions", json=body, timeout=None).json()
        message = answer["choices"][0]["message"]
        return ChatResponse(message=ChatMessage(role="assistant", content=message["content"]))

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError


@pytest.mark.enable_socket
def test_a_server_answers_and_scores(tiny: LanguageModel, tmp_path: Path) -> None:
    tiny.tokenizer.save_pretrained(tmp_path)
    with model_server(tiny) as server:
        served = Attributor.for_server(server.url, tokenizer=str(tmp_path)).language_model
        postprocessor = AttributionPostprocessor(language_model=served, **EXACT)
        response = engine_of(Chatting(url=server.url), postprocessor).query(QUESTION)
        attribution = attribution_of(postprocessor.result(response))
    assert attribution.provenance.retokenized
    texts = [node.node.get_content(MetadataMode.LLM) for node in response.source_nodes]
    messages = CHAT_TEXT_QA_PROMPT.format_messages(
        context_str="\n\n".join(texts), query_str=QUESTION
    )
    expected = Attributor(tiny, progress=False, **EXACT).attribute(
        [{"role": message.role.value, "content": message.content} for message in messages],
        attribution.response,
        [node.node.get_content(MetadataMode.NONE) for node in response.source_nodes],
    )
    for row, right in zip(attribution.token_scores, expected.token_scores, strict=True):
        assert row == pytest.approx(right, abs=1e-3)
