"""An answer that was recorded, but to another prompt than the one that is asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from rapidfuzz.distance import Prefix

from attribot_rag.model.chat_messages import Message, message_text
from attribot_rag.model.language_model import Prompt, is_chat
from attribot_rag.recording.answer import Answer
from attribot_rag.recording.recorder import GenerationRecorder
from attribot_rag.recording.transcript import Transcript

_EXCERPT = 60  # characters


def with_recorded(
    recorder: GenerationRecorder, prompt: Prompt, given: Transcript, *, timeout: float
) -> tuple[Transcript, str]:
    """The generation to score for a prompt of which none was recorded, and a note, or ''.

    It is a recorded one that gave this answer and whose prompt holds the messages of users, tools
    and system: then the template was given more than these messages. It is `given` otherwise. The
    note says where the prompts differ.
    """
    rendered = given.prompt.tokens.text
    answer = Answer(given.response.text)
    match = None
    if is_chat(prompt):
        messages = cast(Sequence[Message], prompt)
        texts = [message_text(one) for one in messages if one.get("role") != "assistant"]
        texts = [text for text in texts if text.strip()]
        match = recorder.find_answer(
            replace(answer, prompt_texts=texts, prompt=rendered), timeout=timeout
        )
    is_same = match is not None
    match = match or recorder.find_answer(answer, timeout=timeout)
    if match is None or match.transcript is None:
        return given, ""
    seen = match.transcript.prompt.tokens.text
    start = Prefix.similarity(seen, rendered)
    end = start + _EXCERPT
    differ = (
        f"at character {start}, where the model saw {seen[start:end]!r} and this prompt has "
        f"{rendered[start:end]!r}"
    )
    if is_same:
        return match.transcript, (
            "The recorded generation of this answer was used. Its prompt is not what the chat "
            f"template makes of these messages alone: they differ {differ}."
        )
    return given, (
        f"A recorded generation gave this answer to another prompt. The two differ {differ}. To "
        "attribute that generation, pass as the prompt the token ids that the model was given."
    )
