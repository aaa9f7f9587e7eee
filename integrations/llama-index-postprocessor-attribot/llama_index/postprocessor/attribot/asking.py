"""The model that answered, asked again with another prompt."""

from __future__ import annotations

from typing import Any

from llama_index.core.llms import LLM

_PROMPTS = ("self", "messages", "prompt", "args", "kwargs")


def ask_again(llm: LLM, arguments: dict[str, Any], prompt: Any, **settings: Any) -> str:
    """The model's answer to another prompt, with the settings of the call with these arguments."""
    given = {**arguments, **arguments.get("kwargs", {}), **settings}
    own = {name: value for name, value in given.items() if name not in _PROMPTS}
    if isinstance(prompt, str):
        return str(llm.complete(prompt, **own).text)
    return llm.chat(prompt, **own).message.content or ""
