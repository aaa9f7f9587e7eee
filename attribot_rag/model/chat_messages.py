"""Chat messages: their texts, and the prompts that a chat template makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from attribot_rag.errors import InvalidInput

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = Any
"""A message: a mapping, or an object that has the fields as attributes.

These are messages of OpenAI and Anthropic, items of OpenAI's Responses, contents of Gemini, and the
message objects of LangChain and LlamaIndex."""

_CONTENTS = ("blocks", "content", "parts")
# A model reads the first of these fields that a message or a block has.
_BODIES = (
    *(*_CONTENTS, "output", "results", "source", "text", "document"),
    *("function_response", "functionResponse", "toolResult", "searchResult"),
    *("response", "json", "data", "value"),
)
_HEADS = ("title", "context", "source")  # fields that are read with a document
_NO_TEXT = ("base64", "image", "audio", "video", "thinking", "reasoning")
_FOUND = ("tool_result", "function_response", "functionResponse", "toolResult")
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant"}


def is_message(value: object) -> bool:
    """Whether it has the form of a message."""
    return isinstance(value, Mapping) or any(hasattr(value, name) for name in _CONTENTS)


def message_role(message: Message) -> str:
    """'user', 'assistant', 'system', 'tool', or the message's own name for it.

    A message that has only results of tools has the role 'tool'.
    """
    content = next(filter(None, (_field(message, name) for name in _CONTENTS)), None)
    if isinstance(content, list | tuple) and all(map(_is_found, content)):
        return "tool"
    role = _field(message, "role")
    if role is None:
        is_found = _field(message, "output") is not None or _field(message, "results")
        kind = str(_field(message, "type")).lower().removesuffix("messagechunk")
        is_own = kind == "reasoning" or kind.endswith("_call")
        role = "tool" if is_found else "assistant" if is_own else kind
    name = str(getattr(role, "value", role))
    return _ROLES.get(name, name)


def message_text(message: Message) -> str:
    """The text of a message with all its parts; '' if it has none, for example only tool calls."""
    texts: list[str] = []

    def collected(text: str) -> str:
        texts.append(text)
        return text

    with_texts(message, collected)
    return "\n".join(filter(None, texts))


def verbatim_texts(messages: Sequence[Message]) -> list[str]:
    """Texts that are in the prompt word for word, whatever the template does with others."""
    texts = (message_text(turn).strip() for turn in messages if message_role(turn) != "assistant")
    return list(filter(None, texts))


def with_texts(message: Message, change: Callable[[str], str]) -> Message:
    """The message, or a part of one, with every text changed, in order."""
    if isinstance(message, str):
        return change(message)
    if isinstance(message, list | tuple):
        return [with_texts(part, change) for part in message]
    body = next((name for name in _BODIES if _is_body(message, name)), None)
    if body is None:
        return message
    is_document = _field(message, "role") is None
    heads = [name for name in _HEADS if isinstance(_field(message, name), str)] * is_document
    changed: dict[str, Any] = {name: change(_field(message, name)) for name in heads}
    inner = _field(message, body)
    is_value = isinstance(inner, Mapping) and body in ("response", "json")
    changed[body] = _with_value(inner, change) if is_value else with_texts(inner, change)
    if isinstance(message, Mapping):
        return {**message, **changed}
    copied = copy(message)
    for name, value in changed.items():
        if value != _field(message, name):
            setattr(copied, name, value)
    return copied


def _field(value: object, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    found = getattr(value, name, None)
    return None if callable(found) else found


def _is_body(value: object, name: str) -> bool:
    """Whether a message or block has its text in this field."""
    inner = _field(value, name)
    kinds = {str(_field(value, kind)) for kind in ("type", "block_type", "source_type")}
    if inner is None or isinstance(inner, bytes) or not kinds.isdisjoint(_NO_TEXT):
        return False
    if name == "source":  # in a search result, it is an address
        return not isinstance(inner, str)
    return name != "data" or isinstance(value, Mapping)


def _is_found(block: object) -> bool:
    """Whether it is a tool's result."""
    return _field(block, "type") in _FOUND or any(_field(block, name) for name in _FOUND)


def _with_value(value: Mapping[str, Any], change: Callable[[str], str]) -> Mapping[str, Any]:
    """The result of a function with its only text changed, or else with all of it as JSON."""
    if len(value) == 1:
        ((name, text),) = value.items()
        if isinstance(text, str):
            return {name: change(text)}
    written = json.dumps(value, ensure_ascii=False, default=str)
    changed = change(written)
    return value if changed == written else {"result": changed}


def render(messages: Sequence[Message], tokenizer: PreTrainedTokenizerBase) -> str:
    """The prompt that the chat template makes, up to the beginning of the answer.

    If the last message is the assistant's, the answer continues it, as in pipelines. Content that
    is null is empty. For a template that takes only strings, the parts of a message become one
    string. Raises InvalidInput for messages that the template does not take.
    """
    messages = list(map(_as_template_message, messages))
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

    These are the messages themselves, if the model's chat template takes them and keeps the
    question and the documents. Otherwise, it is one message of the user with all of them. If the
    template does not take that, it is a text.
    """
    told = [message for message in messages if message_text(message).strip()]
    asked = verbatim_texts(told)
    turns = (f"{message_role(turn).capitalize()}: {message_text(turn)}" for turn in told)
    text = "\n\n".join(turns)
    for prompt in (messages, [{"role": "user", "content": text}]):
        with suppress(InvalidInput):
            rendered = render(prompt, tokenizer)
            if all(words in rendered for words in asked):
                return prompt
    return f"{text}\n\nAssistant:"


def continued_text(messages: Sequence[Message]) -> str:
    """The text of a last message by the assistant, which the answer continues; or ''."""
    return message_text(messages[-1]) if message_role(messages[-1]) == "assistant" else ""


def _applied(
    messages: Sequence[Mapping[str, Any]],
    contents: Sequence[Any],
    tokenizer: PreTrainedTokenizerBase,
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


def _as_template_message(message: Message) -> Mapping[str, Any]:
    """The message with a `role` and a `content`, as chat templates take it."""
    role = message_role(message)
    if isinstance(message, Mapping) and message.get("role") == role and "parts" not in message:
        return message
    return {"role": role, "content": message_text(message)}


def _content(message: Mapping[str, Any]) -> Any:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    return [dict(part) if isinstance(part, Mapping) else part for part in content]


def _is_spelled_out(parts: Sequence[object], rendered: str) -> bool:
    """Whether a template for strings wrote the list itself, or left out its parts."""
    texts = map(message_text, parts)
    return str(parts) in rendered or not all(text.strip() in rendered for text in texts)
