"""LangChain's messages: their texts, and the attribution that is attached to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.messages.block_translators import register_translator
from langchain_core.messages.content import (
    Citation,
    ContentBlock,
    create_citation,
    create_text_block,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, Generation

KEY = "attribution"
_PROVIDER = "langchain-attribot"
_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_CHANGED_BY_TEMPLATES = ("ai",)  # reasoning is left out of earlier answers, tool calls are added


def prompt_texts_of(messages: Sequence[BaseMessage]) -> list[str]:
    """Texts that stand in the prompt as they are, whatever the chat template makes of the rest."""
    whole = map(message_chunk_to_message, messages)
    verbatim = (message for message in whole if message.type not in _CHANGED_BY_TEMPLATES)
    return [text for message in verbatim if (text := message.text.strip())]


def output_texts(outputs: Any) -> Iterator[str]:
    """The texts of a chain's output: a text, messages, or a dict with those among its values."""
    if isinstance(outputs, str):
        yield outputs
    elif isinstance(outputs, BaseMessage):
        yield outputs.text
    elif isinstance(outputs, list):
        yield from (output.text for output in outputs if isinstance(output, BaseMessage))
    elif isinstance(outputs, dict):
        for value in outputs.values():
            if isinstance(value, str | BaseMessage | list):
                yield from output_texts(value)


def template_messages(messages: Sequence[BaseMessage]) -> list[dict[str, str]]:
    """The messages as chat templates take them; the sum of streamed chunks is a message."""
    return [
        {
            "role": _ROLES.get(message.type, getattr(message, "role", message.type)),
            "content": message.text,
        }
        for message in map(message_chunk_to_message, messages)
    ]


def attach(generation: Generation, summary: dict[str, Any] | None, *, citations: bool) -> None:
    """Give the generation's message the summary, or take an old one away.

    The message is replaced by a copy, because a cache may hold the one that is there; a chunk, of
    which a copy would not reach the caller, is written to.
    """
    if not isinstance(generation, ChatGeneration):
        return
    message = generation.message
    if summary is None and KEY not in message.response_metadata:
        return
    changed = attached(message, summary, citations=citations)
    if isinstance(message, AIMessageChunk):
        message.response_metadata = changed.response_metadata
    else:
        generation.message = changed


def is_told(generation: Generation, summary: dict[str, Any] | None) -> bool:
    """Whether the generation's message has a summary of this answer that is to stay."""
    if not isinstance(generation, ChatGeneration):
        return False
    return is_taken(generation.message.response_metadata.get(KEY), summary)


def is_taken(present: Any, summary: dict[str, Any] | None) -> bool:
    """Whether another summary of the same answer is present, and no mere error in its place."""
    if summary is None or not isinstance(present, dict):
        return False
    if present.get("run_id") != summary["run_id"]:
        return False
    return present["error"] is None or summary["error"] is not None


def attach_to_dict(outputs: dict[Any, Any], summary: dict[str, Any] | None) -> bool:
    """Give a chain's dict the summary; a key of the chain's own stays as it is.

    A chain may give a dict that it keeps, with what was attached to it before. False if another
    summary of the same answer is there, which stays.
    """
    summary_before = outputs.get(KEY)
    ours = isinstance(summary_before, dict) and {"status", "run_id"} <= summary_before.keys()
    if summary_before is not None and not ours:
        return True
    if is_taken(summary_before, summary):
        return False
    if summary is not None:
        outputs[KEY] = summary
    elif ours:
        del outputs[KEY]
    return True


def attach_to_output(message: BaseMessage, summary: dict[str, Any]) -> None:
    """Give a message that a chain made of an attributed one the summary of its own text."""
    present = message.response_metadata.get(KEY)
    if isinstance(present, dict) and present.get("run_id") == summary["run_id"]:
        message.response_metadata = {**message.response_metadata, KEY: summary}


def is_last(chunk: ChatGenerationChunk) -> bool:
    """Whether the stream ends with this chunk."""
    return getattr(chunk.message, "chunk_position", None) == "last"


def calls_tools(generation: Generation) -> bool:
    """Whether the model asked for tools instead of answering."""
    message = generation.message if isinstance(generation, ChatGeneration) else None
    return bool(getattr(message, "tool_calls", None))


def attached(
    message: BaseMessage, summary: dict[str, Any] | None, *, citations: bool
) -> BaseMessage:
    """A copy of the message with this summary and no other."""
    metadata = {key: value for key, value in message.response_metadata.items() if key != KEY}
    if summary is not None:
        metadata[KEY] = summary
        if citations and metadata.get("model_provider") in (None, _PROVIDER):
            metadata["model_provider"] = _PROVIDER
    return message.model_copy(update={"response_metadata": metadata})


def citations_of(message: AIMessage) -> list[Citation]:
    """LangChain's standard annotations for what each sentence of an attributed message cites.

    None for a message whose text is another than the one that its attribution's positions are of.
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
                texts[source_id] for source_id in sentence["sources"] if source_id in texts
            )
            or None,
            document_id=documents[index]["id"],
            number=documents[index]["number"],
        )
        for sentence in summary.get("sentences", ())
        for index in sentence["documents"]
        if index in documents
    ]


def _with_citations(message: AIMessage) -> list[ContentBlock]:
    """The content blocks of a message whose content is text, with its citations.

    The content stays text, which every chat model takes as history.
    """
    if not isinstance(message.content, str) or message.tool_calls:
        raise NotImplementedError
    citations = citations_of(message)
    if not citations:
        raise NotImplementedError
    return [create_text_block(message.content, annotations=list(citations))]


def register() -> None:
    """Have `content_blocks` of attributed messages show their citations."""
    register_translator(_PROVIDER, _with_citations, _with_citations)
