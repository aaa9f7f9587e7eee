"""An answer that was recorded, but to another prompt than the one that is asked about."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from rapidfuzz.distance import Prefix

from attribot_rag.model.chat_messages import Message, message_text
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel, Prompt, is_chat
from attribot_rag.recording.recorder import GenerationRecorder

_EXCERPT = 60  # characters


def with_recorded(
    recorder: GenerationRecorder,
    language_model: LanguageModel,
    prompt: Prompt,
    given: Generation,
    *,
    timeout: float,
) -> tuple[Generation, str]:
    """The generation to score for a prompt of which none was recorded, and a note, or ''.

    It is a recorded one that gave this answer and whose prompt holds the messages of users, tools
    and system: then the template was given more than these messages. It is `given` otherwise. The
    note says where the prompts differ.
    """
    decode = language_model.decode
    response, rendered = (
        decode(given.response_ids, skip_special_tokens=True),
        decode(given.prompt_ids),
    )
    find = partial(recorder.find_shown, response, timeout=timeout)
    match = None
    if is_chat(prompt):
        messages = cast(Sequence[Message], prompt)
        texts = [message_text(one) for one in messages if one.get("role") != "assistant"]
        match = find(contains=[text for text in texts if text.strip()], like=rendered)
    is_same = match is not None
    match = match or find()
    if match is None:
        return given, ""
    seen = decode(match.generation.prompt_ids)
    start = Prefix.similarity(seen, rendered)
    end = start + _EXCERPT
    differ = (
        f"at character {start}, where the model saw {seen[start:end]!r} and this prompt has "
        f"{rendered[start:end]!r}"
    )
    if is_same:
        return match.generation, (
            "The recorded generation of this answer was used. Its prompt is not what the chat "
            f"template makes of these messages alone: they differ {differ}."
        )
    return given, (
        f"A recorded generation gave this answer to another prompt. The two differ {differ}. To "
        "attribute that generation, pass as the prompt the token ids that the model was given."
    )
