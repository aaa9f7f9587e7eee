"""The model that answered, asked again with another prompt."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.llms import LLM

_PROMPTS = ("self", "messages", "prompt", "args", "kwargs")


def ask_again(
    llm: LLM,
    messages: Sequence[ChatMessage] | None,
    bound_args: inspect.BoundArguments,
    prompt: Any,
    **settings: Any,
) -> str:
    """The model's answer to another prompt, with the settings of the call that had these arguments.

    `messages` are those of that call, None for a text.
    """
    arguments = {**bound_args.arguments, **bound_args.arguments.get("kwargs", {})}
    own = {name: value for name, value in arguments.items() if name not in _PROMPTS}
    settings = {**own, **settings}
    if isinstance(prompt, str):
        return str(llm.complete(prompt, **settings).text)
    turns = zip(messages or (), prompt, strict=True)
    changed = [_with_text(message, turn["content"]) for message, turn in turns]
    return llm.chat(changed, **settings).message.content or ""


def _with_text(message: ChatMessage, text: str) -> ChatMessage:
    """The message with this text, and what is no text of its own."""
    if (message.content or "") == text:
        return message
    others = [block for block in message.blocks if not isinstance(block, TextBlock)]
    return message.model_copy(update={"blocks": [TextBlock(text=text), *others]})
