"""The model that answered, asked again with another prompt."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.llms import LLM


@dataclass(frozen=True, eq=False)
class AskAgain:
    """Has a model complete another prompt as it did one before, with the `settings` of that call.

    `messages` are those of that prompt, None for a text.
    """

    llm: LLM
    messages: Sequence[ChatMessage] | None
    settings: Mapping[str, Any]

    @classmethod
    def of(
        cls, llm: LLM, messages: Sequence[ChatMessage] | None, bound_args: inspect.BoundArguments
    ) -> AskAgain:
        arguments = {**bound_args.arguments, **bound_args.arguments.get("kwargs", {})}
        prompts = ("self", "messages", "prompt", "args", "kwargs")
        settings = {name: value for name, value in arguments.items() if name not in prompts}
        return cls(llm, messages, settings)

    def __call__(self, prompt: Any, **settings: Any) -> str:
        settings = {**self.settings, **settings}
        if isinstance(prompt, str):
            return str(self.llm.complete(prompt, **settings).text)
        turns = zip(self.messages or (), prompt, strict=True)
        messages = [_with_text(message, turn["content"]) for message, turn in turns]
        return self.llm.chat(messages, **settings).message.content or ""


def _with_text(message: ChatMessage, text: str) -> ChatMessage:
    """The message with this text, and what is no text of its own."""
    if (message.content or "") == text:
        return message
    others = [block for block in message.blocks if not isinstance(block, TextBlock)]
    return message.model_copy(update={"blocks": [TextBlock(text=text), *others]})
