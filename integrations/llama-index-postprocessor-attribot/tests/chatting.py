"""A model of LlamaIndex on OpenAI's protocol, whose own takes an older openai than LangChain's."""

from collections.abc import Sequence
from typing import Any

import httpx
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ImageBlock,
    LLMMetadata,
    TextBlock,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback
from support.model_server import NAME


class Chatting(CustomLLM):
    """Chats by OpenAI's protocol, and never completes a prompt: so do OpenAILike and its kind."""

    url: str
    model: str = NAME

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=self.model, context_window=2048, is_chat_model=True)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **settings: Any) -> ChatResponse:
        turns = [{"role": message.role.value, "content": _content(message)} for message in messages]
        body = {"model": self.model, "messages": turns, "max_tokens": 8, **settings}
        answer = httpx.post(f"{self.url}/v1/chat/completions", json=body, timeout=None).json()
        message = answer["choices"][0]["message"]
        return ChatResponse(message=ChatMessage(role="assistant", content=message["content"]))

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError


def _content(message: ChatMessage) -> Any:
    """A text, or parts where it has an image."""
    if not any(isinstance(block, ImageBlock) for block in message.blocks):
        return message.content
    return [
        {"type": "text", "text": block.text}
        if isinstance(block, TextBlock)
        else {"type": "image_url", "image_url": {"url": str(block.url)}}
        for block in message.blocks
        if isinstance(block, TextBlock | ImageBlock)
    ]
