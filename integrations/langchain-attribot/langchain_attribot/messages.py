"""LangChain's messages: their texts, and how an attribution is attached to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from langchain_core.agents import AgentAction
from langchain_core.callbacks import AsyncCallbackManager
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.block_translators import PROVIDER_TRANSLATORS, register_translator
from langchain_core.messages.content import (
    Citation,
    ContentBlock,
    create_citation,
    create_text_block,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables.config import ensure_config, get_callback_manager_for_config

KEY = "attribution"
_PROVIDER = "langchain-attribot"  # of a message that names none


def output_texts(outputs: Any) -> Iterator[str]:
    """The texts of a chain's output: a text, messages, or a dict with these among its values."""
    for answer in _answers_in(outputs):
        yield answer if isinstance(answer, str) else answer_text(answer)


def _answers_in(outputs: Any) -> Iterator[str | BaseMessage]:
    if isinstance(outputs, str | BaseMessage):
        yield outputs
    elif isinstance(outputs, list):
        yield from (output for output in outputs if isinstance(output, BaseMessage))
    elif isinstance(outputs, dict):
        for value in outputs.values():
            if isinstance(value, str | BaseMessage | list):
                yield from _answers_in(value)


def answer_text(message: BaseMessage) -> str:
    """What a message says: its text, or the arguments of its tool calls as JSON."""
    arguments = (json.dumps(given, ensure_ascii=False) for given in arguments_of(message))
    return "\n".join(arguments) or message.text


def arguments_of(message: BaseMessage) -> list[Any]:
    """The arguments of each tool call."""
    return [call["args"] for call in getattr(message, "tool_calls", None) or ()]


def has_arguments(outputs: Any, inputs: Any, message: BaseMessage) -> bool:
    """Whether a chain's output, without its messages, has all texts of a message's tool calls."""
    texts = set(_texts(arguments_of(message)))
    return bool(texts) and texts <= set(_texts(outputs)) - set(_texts(inputs))


def _texts(value: Any, depth: int = 5) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and not isinstance(value, BaseMessage | AgentAction):
        if not isinstance(value, Mapping | list | tuple):
            value = getattr(value, "__dict__", {})  # of a model or a dataclass
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part, depth - 1)


def attach_to_generation(
    generation: ChatGeneration, summary: dict[str, Any] | None, *, in_place: bool, **how: Any
) -> None:
    """Attach the summary to the generation's message, or remove an old one.

    A copy replaces the message, because a cache may hold the original. With `in_place`, the message
    itself is changed: a copy of a chunk, for example, would not reach the caller.
    """
    message = generation.message
    if summary is None and KEY not in message.response_metadata:
        return
    changed = with_summary(message, summary, **how)
    if in_place:
        message.response_metadata = changed.response_metadata
    else:
        generation.message = changed


def attach_to_streamed(outputs: Any, summaries: Mapping[str, dict[str, Any]]) -> None:
    """Attach summaries, by id, to messages that a chain made from the chunks of an answer."""
    for message in _answers_in(outputs):
        if isinstance(message, BaseMessage) and (summary := summaries.get(message.id or "")):
            message.response_metadata = {KEY: summary, **message.response_metadata}


def refresh_summary(message: BaseMessage, summary: dict[str, Any]) -> None:
    """Replace the summary of a message that a chain made from an attributed one."""
    present = message.response_metadata.get(KEY)
    if isinstance(present, dict) and present.get("run_id") == summary["run_id"]:
        message.response_metadata = {**message.response_metadata, KEY: summary}


def attach_to_mapping(outputs: dict[Any, Any], found: dict[str, Any] | None) -> None:
    """Put a summary, or summaries by key, into a chain's dict, or remove those of earlier answers.

    A value of the application stays.
    """
    before = outputs.get(KEY)
    if before is not None and not (_is_summary(before) or _has_summaries(before)):
        return
    if found is not None:
        outputs[KEY] = found
    elif before is not None:
        del outputs[KEY]


def _is_summary(value: Any) -> bool:
    return isinstance(value, dict) and {"status", "run_id"} <= value.keys()


def _has_summaries(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(_is_summary, value.values()))


def is_last(chunk: ChatGenerationChunk) -> bool:
    """Whether this chunk ends the stream."""
    return getattr(chunk.message, "chunk_position", None) == "last"


def with_summary(
    message: BaseMessage, summary: dict[str, Any] | None, *, citations: bool, provider: str = ""
) -> BaseMessage:
    """A copy of the message with this summary and no other.

    If earlier chunks of the message have a `provider`, the copy gets none, because LangChain would
    add up the two.
    """
    metadata = {key: value for key, value in message.response_metadata.items() if key != KEY}
    if summary is not None:
        metadata[KEY] = summary
        if citations:
            show_citations(provider or metadata.setdefault("model_provider", _PROVIDER))
    return message.model_copy(update={"response_metadata": metadata})


def send_summary_chunk(message: BaseMessage, summary: Any, after: Any = None) -> bool:
    """Send a last chunk with the summary of a message to LangGraph's `stream_mode="messages"`.

    Returns False if no such stream passed on the message before the handler `after`, which may
    still change it. Asynchronous runs call streams first; other runs call handlers in the order of
    the list.
    """
    config = ensure_config()
    manager = get_callback_manager_for_config(config)
    handlers, run_id = manager.handlers, uuid4()
    if after in handlers and not isinstance(config["callbacks"], AsyncCallbackManager):
        handlers = handlers[: handlers.index(after)]
    streams = [own for own in handlers if hasattr(own, "tap_output_iter") and own.run_inline]
    chunk = AIMessageChunk(content="", id=message.id, response_metadata={KEY: summary})
    where: dict[str, Any] = {"tags": manager.tags, "metadata": manager.metadata}
    for own in streams:  # not by a manager: tracers would add themselves
        own.on_chat_model_start({}, [[]], run_id=run_id, **where)
        own.on_llm_new_token("", chunk=ChatGenerationChunk(message=chunk), run_id=run_id)
        own.on_llm_end(LLMResult(generations=[]), run_id=run_id)
    return bool(streams)


def citations_of(message: AIMessage) -> list[Citation]:
    """LangChain's standard annotations for the citations of an attributed message.

    The list is empty if the positions of its attribution belong to another text.
    """
    summary = message.response_metadata.get(KEY) or {}
    if summary.get("offsets") != "shown":
        return []
    texts = {source["id"]: source["text"] for source in summary.get("sources", ())}
    documents = {document["index"]: document for document in summary.get("documents", ())}
    return [
        create_citation(
            url=documents[index]["url"] or None,
            title=documents[index]["title"] or None,
            start_index=sentence["start"],
            end_index=sentence["end"],
            cited_text=" … ".join(
                texts[source_id] for source_id in sentence["source_ids"] if source_id in texts
            )
            or None,
            document_id=documents[index]["id"],
            number=documents[index]["number"],
        )
        for sentence in summary.get("sentences", ())
        for index in sentence["documents"]
        if index in documents
    ]


def show_citations(*providers: str) -> None:
    """Let `content_blocks` of attributed messages show their citations.

    This works for these providers, by default for all known ones.
    """
    # This is the only place where LangChain can be extended. Our own message class would be lost in
    # sums of chunks and in checkpoints, and not every model takes annotated content as history.
    for provider in providers or (*PROVIDER_TRANSLATORS, _PROVIDER):
        known = PROVIDER_TRANSLATORS.get(provider, {})
        own = [known.get(kind) for kind in ("translate_content", "translate_content_chunk")]
        if not any(isinstance(translate, partial) for translate in own):
            register_translator(
                provider, *(partial(_with_citations, translate) for translate in own)
            )


def _with_citations(
    translate: Callable[..., list[ContentBlock]] | None, message: AIMessage
) -> list[ContentBlock]:
    """The content blocks of a message, with its citations at the blocks of text.

    The content itself does not change, because every chat model must take it as history.
    """
    citations = citations_of(message)
    blocks: list[ContentBlock] = []
    with suppress(NotImplementedError):
        blocks = [] if translate is None else translate(message)
    if not blocks:
        if not (citations and isinstance(message.content, str)) or message.tool_calls:
            raise NotImplementedError
        blocks = [create_text_block(message.content)]
    start = 0
    for block in blocks if citations else ():
        if block["type"] == "text":
            end = start + len(block["text"])
            own = [
                _shifted(citation, start)
                for citation in citations
                if start <= citation["start_index"] < end
            ]
            block["annotations"] = [*block.get("annotations", ()), *own]
            start = end
    return blocks


def _shifted(citation: Citation, start: int) -> Citation:
    """The citation in a block that begins at this character of the text."""
    shifted = citation.copy()
    shifted["start_index"] -= start
    shifted["end_index"] -= start
    return shifted
