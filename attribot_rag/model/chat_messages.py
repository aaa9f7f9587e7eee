"""Chat messages: their texts, and prompts of them by a tokenizer's chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from attribot_rag.errors import InvalidInput

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = Mapping[str, Any]


def message_text(message: Message) -> str:
    """The text of a content, a string or parts; '' without, as in a message that calls tools."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(filter(None, map(_part_text, content)))


def render(messages: Sequence[Message], tokenizer: PreTrainedTokenizerBase) -> str:
    """The prompt that the chat template makes, with the beginning of the answer.

    A message of the assistant at the end is continued, as pipelines do. Content that is null is
    empty, and parts are one string for a template that takes strings only. Raises InvalidInput for
    messages that the template does not take.
    """
    contents = [_content(message) for message in messages]
    parted = [content for content in contents if not isinstance(content, str)]
    try:
        rendered = _applied(messages, contents, tokenizer)
    except InvalidInput:
        if not parted:
            raise
    else:
        if not any(_is_spelled_out(parts, rendered) for parts in parted):
            return rendered
    return _applied(messages, [message_text(message) for message in messages], tokenizer)


def readable(
    messages: Sequence[Message], tokenizer: PreTrainedTokenizerBase
) -> Sequence[Message] | str:
    """A prompt of these messages for a model that they were not written for.

    The messages themselves where its chat template takes them and writes down what was asked and
    found; else one message of the user's that has them all; of a model that takes neither, a text.
    """
    told = [message for message in messages if message_text(message).strip()]
    asked = [message_text(turn).strip() for turn in told if turn.get("role") != "assistant"]
    turns = (f"{str(turn.get('role')).capitalize()}: {message_text(turn)}" for turn in told)
    text = "\n\n".join(turns)
    for prompt in (messages, [{"role": "user", "content": text}]):
        with suppress(InvalidInput):
            rendered = render(prompt, tokenizer)
            if all(words in rendered for words in asked):
                return prompt
    return f"{text}\n\nAssistant:"


def continued_text(messages: Sequence[Message]) -> str:
    """The text of a last message of the assistant's, which an answer continues; or ''."""
    return message_text(messages[-1]) if messages[-1].get("role") == "assistant" else ""


def _applied(
    messages: Sequence[Message], contents: Sequence[Any], tokenizer: PreTrainedTokenizerBase
) -> str:
    is_continued = bool(continued_text(messages))
    try:
        rendered = tokenizer.apply_chat_template(
            [
                {**message, "content": content}
                for message, content in zip(messages, contents, strict=True)
            ],
            tokenize=False,
            add_generation_prompt=not is_continued,
            continue_final_message=is_continued,
        )
    except (ValueError, TypeError, TemplateError) as error:
        has_none = getattr(tokenizer, "chat_template", None) is None
        template = "set tokenizer.chat_template, to the model's original one, or " * has_none
        raise InvalidInput(
            f"the chat messages cannot be rendered: {error}; {template}pass the prompt as text or "
            "ids"
        ) from error
    return str(rendered)


def _content(message: Message) -> Any:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    return [dict(part) if isinstance(part, Mapping) else part for part in content]


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, Mapping) else None
    return text if isinstance(text, str) else ""


def _is_spelled_out(parts: Sequence[object], rendered: str) -> bool:
    """Whether a template that takes strings wrote the list itself, or its parts are not there."""
    texts = map(_part_text, parts)
    return str(parts) in rendered or not all(text.strip() in rendered for text in texts)
