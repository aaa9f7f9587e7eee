"""A prompt as an application gave it, without some of its passages."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, cast

from attribot_rag.errors import InvalidInput
from attribot_rag.model.chat_messages import Message
from attribot_rag.model.language_model import Prompt


def prompt_without(prompt: Prompt, passages: Sequence[str]) -> Prompt:
    """The text or the messages without these passages, which stand there in this order.

    Raises InvalidInput if one of them is not found.
    """
    left = deque(passages)
    cut: Prompt
    if isinstance(prompt, str):
        cut = _cut(prompt, left)
    else:
        messages = cast(Sequence[Message], prompt)
        cut = [
            {**message, "content": _content(message.get("content"), left)} for message in messages
        ]
    if left:
        raise InvalidInput(
            f"{left[0].strip()[:60]!r} does not stand in the prompt as it was given, so it cannot "
            "be taken out; ask the model yourself, with a prompt without it"
        )
    return cut


def _content(content: Any, left: deque[str]) -> Any:
    """The content of a message: a text, parts of which some have a text, or nothing."""
    if isinstance(content, str):
        return _cut(content, left)
    if isinstance(content, Mapping):
        text = content.get("text")
        return {**content, "text": _cut(text, left)} if isinstance(text, str) else content
    return content if content is None else [_content(part, left) for part in content]


def _cut(text: str, left: deque[str]) -> str:
    """The text without the first of the passages, as far as they stand in it."""
    kept, end = [], 0
    while left:
        passage = left[0] if left[0] in text[end:] else left[0].strip()
        at = text.find(passage, end)
        if at < 0:
            break
        kept.append(text[end:at])
        end = at + len(passage)
        left.popleft()
    return "".join([*kept, text[end:]])
