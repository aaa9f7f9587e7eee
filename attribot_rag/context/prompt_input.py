"""The prompt as the caller gave it, so that another model can encode it again."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.context.context import Context, ContextOptions
from attribot_rag.language_model import Prompt


@dataclass(frozen=True, eq=False)
class PromptInput:
    """A prompt as text, chat messages or token ids, and its context with the options of locating.

    A proxy encodes `prompt` for its own model and locates the documents of `context` in it with
    the same `context_options`.
    """

    prompt: Prompt
    context: Context
    context_options: ContextOptions
