"""A model of LlamaIndex on OpenAI's protocol, whose own takes an older openai than LangChain's."""

import json
from collections.abc import Iterator, Sequence
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
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection


class Chatting(CustomLLM):
    """Chats by OpenAI's protocol, and never completes a prompt: so do OpenAILike and its kind."""

    url: str
    model: str = "tiny"

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


class Calling(Chatting, FunctionCallingLLM):
    """Calls tools, too, and streams."""

    @property
    def metadata(self) -> LLMMetadata:
        plain = super().metadata
        return plain.model_copy(update={"is_function_calling_model": True})

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **settings: Any) -> ChatResponse:
        answer = httpx.post(self._address, json=self._body(messages, settings), timeout=None)
        return _response(answer.json()["choices"][0]["message"])

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **settings: Any) -> Any:
        body = self._body(messages, {**settings, "stream": True})

        def pieces() -> Iterator[ChatResponse]:
            with httpx.stream("POST", self._address, json=body, timeout=None) as answer:
                if "json" in answer.headers["content-type"]:
                    yield _response(json.loads(answer.read())["choices"][0]["message"])
                    return
                said = {"content": ""}
                for line in answer.iter_lines():
                    if line.startswith("data: {"):
                        delta = json.loads(line[6:])["choices"][0]["delta"]
                        text = said["content"] + (delta.get("content") or "")
                        said = {**said, **delta, "content": text}
                        yield _response(said)

        return pieces()

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **_: Any
    ) -> list[ToolSelection]:
        return [
            ToolSelection(
                tool_id=call["id"],
                tool_name=call["function"]["name"],
                tool_kwargs=json.loads(call["function"]["arguments"]),
            )
            for call in response.message.additional_kwargs.get("tool_calls", ())
        ]

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[Any],
        user_msg: Any = None,
        chat_history: list[ChatMessage] | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        said = ChatMessage(user_msg) if isinstance(user_msg, str) else user_msg
        messages = [*(chat_history or ()), *([said] if said else ())]
        return {"messages": messages, "tools": [each.metadata.to_openai_tool() for each in tools]}

    @property
    def _address(self) -> str:
        return f"{self.url}/v1/chat/completions"

    def _body(self, messages: Sequence[ChatMessage], settings: dict[str, Any]) -> dict[str, Any]:
        turns = [
            {"role": turn.role.value, "content": turn.content, **turn.additional_kwargs}
            for turn in messages
        ]
        return {"model": self.model, "messages": turns, **settings}


def _response(message: dict[str, Any]) -> ChatResponse:
    calls = {"tool_calls": message["tool_calls"]} if "tool_calls" in message else {}
    said = ChatMessage(role="assistant", content=message["content"], additional_kwargs=calls)
    return ChatResponse(message=said)


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
