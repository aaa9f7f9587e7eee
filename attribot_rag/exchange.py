"""What was asked, as text: what another model needs to read the same."""

from __future__ import annotations

from dataclasses import dataclass

from attribot_rag.context import Context, ContextOptions
from attribot_rag.language_model import Prompt


@dataclass(frozen=True, eq=False)
class Exchange:
    """The prompt as it was given (text, chat messages or ids), with its context and how that was
    made."""

    prompt: Prompt
    context: Context
    context_options: ContextOptions
